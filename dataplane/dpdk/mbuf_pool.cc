#include "dataplane/dpdk/mbuf_pool.h"

#include <fmt/format.h>
#include <rte_cpuflags.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "control/config/buffer_plan.h"

namespace cw::dataplane {
namespace {

constexpr uint16_t kPrivateBytes = RTE_ALIGN_CEIL(sizeof(Buffer), RTE_MBUF_PRIV_ALIGN);
using control::kObjectHeaderBytes;
using control::kPageBytes;
using control::kTrailerDataBytes;
using control::kTrailers;
static_assert(kObjectHeaderBytes == RTE_ALIGN_CEIL(sizeof(rte_mempool_objhdr), RTE_MEMPOOL_ALIGN));
static_assert(control::kMbufBytes == sizeof(rte_mbuf) && control::kHeadroomBytes == RTE_PKTMBUF_HEADROOM);
static_assert(Buffer::kHeadroomBytes <= RTE_PKTMBUF_HEADROOM);

// What came back last goes out first, and is in a cache yet. Buffers that one thread takes and another gives back pass through
// the pool itself, and DPDK's default, a ring, leads them round through all of it: every one then comes from memory, which costs
// the gateway a fifth of its time for a backend's call. Without locks: a thread that loses its CPU in between holds up nobody.
// DPDK does not look whether the processor has the instruction for that, and some virtual ones have not.
constexpr const char* kNewestFirst = "lf_stack";
constexpr const char* kNewestFirstByLock = "stack";

const char* driver_here() {
  return pool_driver(rte_cpu_get_flag_enabled(RTE_CPUFLAG_CMPXCHG16B) == 1);
}

// DPDK makes every pool as one of this first.
constexpr const char* kMadeFirst = "ring_mp_mc";

bool has_driver(const char* name) {
  return std::ranges::any_of(std::span(rte_mempool_ops_table.ops).first(rte_mempool_ops_table.num_ops),
                             [name](const rte_mempool_ops& ops) { return std::strcmp(ops.name, name) == 0; });
}

rte_mempool* checked(rte_mempool* pool, const char* name, uint32_t count, uint32_t data_bytes, std::string& error) {
  if (pool == nullptr) {
    error = fmt::format("buffer pool '{}' ({} buffers of {} bytes, {} MiB) cannot be made: {}; raise dataplane.memory_mb", name,
                        count, data_bytes, (uint64_t{count} * (data_bytes + sizeof(rte_mbuf))) >> 20, rte_strerror(rte_errno));
  }
  return pool;
}

rte_mempool* make(const char* name, uint32_t count, uint32_t data_bytes, std::string& error) {
  rte_mempool* pool = rte_pktmbuf_pool_create_by_ops(name, count, control::pool_cache(count), kPrivateBytes,
                                                     static_cast<uint16_t>(data_bytes), SOCKET_ID_ANY, driver_here());
  return checked(pool, name, count, data_bytes, error);
}

constexpr uint32_t kPageDataBytes = kPageBytes - kObjectHeaderBytes - sizeof(rte_mbuf) - kPrivateBytes;
constexpr unsigned kPageFlags = RTE_MEMPOOL_F_NO_SPREAD;  // no padding for memory channels

rte_mempool* make_page_each(const char* name, uint32_t count, std::string& error) {
  rte_mempool* pool = rte_mempool_create_empty(name, count, kPageBytes - kObjectHeaderBytes, control::pool_cache(count),
                                               sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, kPageFlags);
  if (pool == nullptr) {
    return checked(nullptr, name, count, kPageDataBytes, error);
  }
  CW_ASSERT(pool->header_size + pool->elt_size + pool->trailer_size == kPageBytes);
  CW_ASSERT(rte_mempool_set_ops_byname(pool, driver_here(), nullptr) == 0);
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = kPageDataBytes;
  layout.mbuf_priv_size = kPrivateBytes;
  rte_pktmbuf_pool_init(pool, &layout);
  if (rte_mempool_populate_default(pool) < 0) {
    rte_mempool_free(pool);
    return checked(nullptr, name, count, kPageDataBytes, error);
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

// Ordinary pages come one by one as they are touched, each at the price of an exception: here they are asked for together. DPDK
// takes memory from the end of what it has; were it otherwise, this would only be in vain.
void fault_in(uint64_t bytes) {
  (void)rte_memseg_list_walk(
      [](const rte_memseg_list* list, void* wanted) {
        const uint64_t length = std::min<uint64_t>(*static_cast<uint64_t*>(wanted), list->len) & ~uint64_t{kPageBytes - 1};
        if (list->external == 0 && list->page_sz == kPageBytes) {
          (void)madvise(static_cast<uint8_t*>(list->base_va) + (list->len - length), length, MADV_POPULATE_WRITE);
        }
        return 0;
      },
      &bytes);
}

}  // namespace

const char* pool_driver(bool swaps_16_bytes) {
  return swaps_16_bytes ? kNewestFirst : kNewestFirstByLock;
}

std::unique_ptr<MbufPools> MbufPools::create(const MbufPoolSizes& sizes, std::string& error) {
  static_assert(kPrivateBytes % RTE_MBUF_PRIV_ALIGN == 0);
  for (const auto& [driver, package] : {std::pair(kMadeFirst, "ring"), std::pair(driver_here(), "stack")}) {
    if (!has_driver(driver)) {
      error = fmt::format("DPDK has no mempool driver '{}': install the package librte-mempool-{}23", driver, package);
      return nullptr;
    }
  }
  std::unique_ptr<MbufPools> pools(new MbufPools());
  const uint32_t packet_data_bytes = sizes.a_page_each ? kPageDataBytes : sizes.packet_data_bytes;
  if (packet_data_bytes < sizes.packet_data_bytes) {
    error = fmt::format(
        "a port wants packet buffers of {} bytes, and an AF_XDP port beside it has them of a page, {}: give them a gateway each",
        sizes.packet_data_bytes, kPageDataBytes);
    return nullptr;
  }
  fault_in(control::pool_bytes(sizes, false));
  pools->packets_.mempool = sizes.a_page_each ? make_page_each("cw_packets", sizes.packet_buffers, error)
                                              : make("cw_packets", sizes.packet_buffers, packet_data_bytes, error);
  if (pools->packets_.mempool == nullptr) {
    return nullptr;
  }
  pools->large_.mempool = make("cw_large", sizes.large_buffers, kLargeBufferBytes + RTE_PKTMBUF_HEADROOM, error);
  if (pools->large_.mempool == nullptr) {
    return nullptr;
  }
  pools->views_ = make("cw_views", sizes.views, 0, error);
  if (pools->views_ == nullptr) {
    return nullptr;
  }
  pools->trailers_ = make("cw_trailers", kTrailers, kTrailerDataBytes, error);
  if (pools->trailers_ == nullptr) {
    return nullptr;
  }
  pools->packets_low_ = sizes.packets_low;
  pools->packets_.data_bytes = packet_data_bytes - RTE_PKTMBUF_HEADROOM;
  pools->large_.data_bytes = kLargeBufferBytes;
  stamp(pools->packets_.mempool, &pools->packets_);
  stamp(pools->large_.mempool, &pools->large_);
  stamp(pools->views_, &pools->packets_);
  return pools;
}

MbufPools::~MbufPools() {
  if (kept_) {
    return;
  }
  rte_mempool_free(packets_.mempool);
  rte_mempool_free(large_.mempool);
  rte_mempool_free(views_);
  rte_mempool_free(trailers_);
}

void MbufPools::stamp(rte_mempool* mempool, BufferPool* face) {
  rte_mempool_obj_iter(
      mempool,
      [](rte_mempool*, void* context, void* object, unsigned) {
        Buffer* buffer = ::new (rte_mbuf_to_priv(static_cast<rte_mbuf*>(object))) Buffer();
        buffer->pool = static_cast<BufferPool*>(context);
      },
      face);
}

std::vector<MutableBytes> MbufPools::memory() const {
  std::vector<MutableBytes> pieces;
  for (rte_mempool* pool : {packets_.mempool, large_.mempool}) {
    rte_mempool_mem_iter(
        pool,
        [](rte_mempool*, void* out, rte_mempool_memhdr* piece, unsigned) {
          static_cast<std::vector<MutableBytes>*>(out)->emplace_back(static_cast<uint8_t*>(piece->addr), piece->len);
        },
        &pieces);
  }
  std::ranges::sort(pieces, {}, [](const MutableBytes& each) { return each.data(); });
  std::vector<MutableBytes> joined;
  for (const MutableBytes& piece : pieces) {
    if (!joined.empty() && joined.back().data() + joined.back().size() == piece.data()) {
      joined.back() = {joined.back().data(), joined.back().size() + piece.size()};
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

MbufPools::Usage MbufPools::usage(rte_mempool* pool, const Refusals& refused) {
  return {rte_mempool_avail_count(pool), pool->size, refused.load(std::memory_order_relaxed)};
}

bool MbufPools::Face::allocate(std::span<Buffer*> out) {
  // Bursts are small; a fixed array keeps the mbuf pointers apart from the Buffer pointers.
  constexpr size_t kBurst = 64;
  std::array<rte_mbuf*, kBurst> mbufs;
  size_t done = 0;
  while (done < out.size()) {
    const size_t burst = std::min(kBurst, out.size() - done);
    if (rte_pktmbuf_alloc_bulk(mempool, mbufs.data(), static_cast<unsigned>(burst)) != 0) {
      refused.fetch_add(1, std::memory_order_relaxed);
      for (size_t i = 0; i < done; ++i) {
        rte_pktmbuf_free_seg(mbuf_of(out[i]));
      }
      return false;
    }
    for (size_t i = 0; i < burst; ++i) {
      Buffer* buffer = buffer_of(mbufs[i]);
      buffer->next = nullptr;
      buffer->data = rte_pktmbuf_mtod(mbufs[i], uint8_t*);
      buffer->size = 0;
      buffer->capacity_bytes = data_bytes;
      buffer->headroom_bytes = Buffer::kHeadroomBytes;
      out[done + i] = buffer;
    }
    done += burst;
  }
  return true;
}

Buffer* MbufPools::Face::share(const Buffer& of, uint32_t offset, uint32_t size) {
  rte_mbuf* view = owner.attach(of, of.data + offset, size);
  if (view == nullptr) {
    return nullptr;
  }
  Buffer* buffer = reinterpret_cast<Buffer*>(reinterpret_cast<char*>(view) + sizeof(rte_mbuf));
  buffer->next = nullptr;
  buffer->data = of.data + offset;
  buffer->size = size;
  buffer->capacity_bytes = size;
  buffer->headroom_bytes = 0;
  return buffer;
}

rte_mbuf* MbufPools::attach(const Buffer& of, const uint8_t* data, uint32_t size) {
  rte_mbuf* view = rte_pktmbuf_alloc(views_);
  if (view == nullptr) [[unlikely]] {
    views_refused_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  rte_pktmbuf_attach(view, mbuf_of(&of));
  view->data_off = static_cast<uint16_t>(data - static_cast<const uint8_t*>(view->buf_addr));
  view->data_len = static_cast<uint16_t>(size);
  view->pkt_len = size;
  view->next = nullptr;
  view->nb_segs = 1;
  return view;
}

rte_mbuf* MbufPools::allocate_small() {
  return rte_pktmbuf_alloc(trailers_);
}

void MbufPools::Face::release(Buffer* list) {
  if (list->next == nullptr) [[likely]] {
    rte_pktmbuf_free_seg(mbuf_of(list));
    return;
  }
  constexpr unsigned kBurst = 64;
  std::array<rte_mbuf*, kBurst> mbufs;
  unsigned count = 0;
  while (list != nullptr) {
    Buffer* next = list->next;
    list->next = nullptr;
    mbufs[count++] = mbuf_of(list);
    if (count == kBurst) {
      rte_pktmbuf_free_bulk(mbufs.data(), count);
      count = 0;
    }
    list = next;
  }
  if (count > 0) {
    rte_pktmbuf_free_bulk(mbufs.data(), count);
  }
}

}  // namespace cw::dataplane
