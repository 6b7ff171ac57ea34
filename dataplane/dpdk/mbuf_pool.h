// Mbufs as cw::Buffers. A Buffer lives in the private area of its mbuf, so the two convert by an address calculation, a
// received mbuf is the receive buffer of the message it carries, and a Buffer that is sent needs no copy.
//
// Three kinds: packet mbufs (receive rings, packet heads, headers, short replies of programs: one frame each), large mbufs
// (backend replies: 32 KiB), views (no storage of their own: indirect mbufs that hold a reference on another's storage). DPDK's
// reference counts free storage when its last view goes, on any thread.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "control/config/memory_plan.h"
#include "dataplane/buffer_pools.h"

namespace cw::dataplane {

using MbufPoolSizes = control::PoolSizes;
using control::kLargeBufferBytes;

[[nodiscard]] inline rte_mbuf* mbuf_of(const Buffer* buffer) {
  return reinterpret_cast<rte_mbuf*>(const_cast<char*>(reinterpret_cast<const char*>(buffer)) - sizeof(rte_mbuf));
}
[[nodiscard]] inline Buffer* buffer_of(rte_mbuf* mbuf) {
  return reinterpret_cast<Buffer*>(rte_mbuf_to_priv(mbuf));
}

// DPDK's driver for the pools: what came back last goes out first. Without locks where the processor can swap 16 bytes at once.
[[nodiscard]] const char* pool_driver(bool swaps_16_bytes);

// One process-wide set of mempools. Two BufferPool faces (packet heads and large buffers) share views and release.
class MbufPools final : public BufferPools {
 public:
  // EAL must be initialised. The sentence of `error` says which pool could not be made and how many bytes it wanted.
  [[nodiscard]] static std::unique_ptr<MbufPools> create(const MbufPoolSizes& sizes, std::string& error);
  ~MbufPools() override;
  // The process ends, and its memory with it: DPDK would first fill what is given back with zeros, page by page.
  void keep_until_exit() { kept_ = true; }
  MbufPools(const MbufPools&) = delete;
  MbufPools& operator=(const MbufPools&) = delete;

  [[nodiscard]] BufferPool& packets() override { return packets_; }
  [[nodiscard]] BufferPool& large() override { return large_; }
  [[nodiscard]] rte_mempool* packet_mempool() { return packets_.mempool; }

  // Without what threads have in their caches.
  [[nodiscard]] BufferWatermark packet_watermark() const override {
    const unsigned free = rte_mempool_get_ops(packets_.mempool->ops_index)->get_count(packets_.mempool);
    return free >= packets_low_       ? BufferWatermark::kPlenty
           : free >= packets_low_ / 2 ? BufferWatermark::kLow
                                      : BufferWatermark::kLast;
  }
  void note_packets_short() override { packets_.refused.fetch_add(1, std::memory_order_relaxed); }

  // Turns a frame just received into a Buffer that spans it. Precondition: one segment.
  [[nodiscard]] static Buffer* adopt(rte_mbuf* mbuf) {
    Buffer* buffer = buffer_of(mbuf);
    buffer->next = nullptr;
    buffer->data = rte_pktmbuf_mtod(mbuf, uint8_t*);
    buffer->size = rte_pktmbuf_data_len(mbuf);
    buffer->capacity_bytes = buffer->size;
    buffer->headroom_bytes = 0;
    return buffer;
  }
  // An mbuf that refers to [data, data + size) of `owner`'s storage, for transmission; nullptr when views are exhausted.
  [[nodiscard]] rte_mbuf* attach(const Buffer& owner, const uint8_t* data, uint32_t size);
  // Small packet mbuf for a trailer; nullptr when none is left.
  [[nodiscard]] rte_mbuf* allocate_small();

  [[nodiscard]] std::vector<MutableBytes> memory() const override;
  [[nodiscard]] Usage packet_usage() const override { return usage(packets_.mempool, packets_.refused); }
  [[nodiscard]] Usage large_usage() const override { return usage(large_.mempool, large_.refused); }
  [[nodiscard]] Usage view_usage() const override { return usage(views_, views_refused_); }

 private:
  // Atomic, since workers allocate too; touched only when an allocation fails.
  using Refusals = std::atomic<uint64_t>;
  class Face final : public BufferPool {
   public:
    explicit Face(MbufPools& owner_pools) : owner(owner_pools) {}
    [[nodiscard]] bool allocate(std::span<Buffer*> out) override;
    [[nodiscard]] Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) override;
    void release(Buffer* list) override;
    [[nodiscard]] uint32_t buffer_bytes() const override { return data_bytes; }
    MbufPools& owner;
    rte_mempool* mempool = nullptr;
    uint32_t data_bytes = 0;
    Refusals refused{0};
  };

  MbufPools() : packets_(*this), large_(*this) {}
  bool kept_ = false;
  [[nodiscard]] static Usage usage(rte_mempool* pool, const Refusals& refused);
  // Every Buffer of `mempool` says that it goes back through `face`; done once, the private area survives alloc and free.
  static void stamp(rte_mempool* mempool, BufferPool* face);

  Face packets_;
  uint32_t packets_low_ = 0;
  Face large_;
  rte_mempool* views_ = nullptr;
  Refusals views_refused_{0};
  rte_mempool* trailers_ = nullptr;
};

}  // namespace cw::dataplane
