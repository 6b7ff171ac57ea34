// A BufferPool on the heap, allocated once: for a gateway without DPDK, tests, simulation, fuzzers and the load generator's
// in-process mode. Memory that was never handed out is not touched. Any thread may call anything. in_use() lets a test prove that
// nothing leaked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/index_stack.h"

namespace cw {

class HeapBufferPool final : public BufferPool {
 public:
  HeapBufferPool(uint32_t buffer_count, uint32_t buffer_bytes, uint32_t view_count);
  ~HeapBufferPool() override;

  [[nodiscard]] bool allocate(std::span<Buffer*> out) override;
  [[nodiscard]] Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) override;
  void release(Buffer* list) override;
  [[nodiscard]] uint32_t buffer_bytes() const override { return buffer_bytes_; }

  // What all buffers lie in.
  [[nodiscard]] MutableBytes storage() const {
    return {storage_.get(), size_t{buffer_count_} * (Buffer::kHeadroomBytes + buffer_bytes_)};
  }
  // From here on what is given back is overwritten: whoever goes on reading it sees other bytes. For tests and simulation.
  void poison_released() { poisons_ = true; }
  // Buffers and views that somebody still owns.
  [[nodiscard]] uint32_t in_use() const {
    return buffers_in_use_.load(std::memory_order_relaxed) + views_in_use_.load(std::memory_order_relaxed);
  }
  struct Usage {
    uint32_t available = 0;
    uint32_t size = 0;
    uint64_t refused = 0;  // calls that found too little
  };
  // A buffer whose owner has given it back is not available while a view of it lives.
  [[nodiscard]] Usage buffer_usage() const;
  [[nodiscard]] Usage view_usage() const;

 private:
  struct Entry {
    Buffer buffer;               // first member: Buffer* and Entry* convert
    uint8_t* storage = nullptr;  // own storage; nullptr for a view
    Entry* root = nullptr;       // whose storage this refers to (itself unless a view)
    uint32_t index = 0;
    std::atomic<uint32_t> references{0};  // of a root: itself if allocated, plus its views
  };
  [[nodiscard]] Buffer* fresh(uint32_t index);
  [[nodiscard]] bool allocate_many(std::span<Buffer*> out);
  void release_many(Buffer* list);
  // Each says whether the storage is free now.
  [[nodiscard]] bool drop_root(Entry& root);
  [[nodiscard]] bool drop_view(Entry& view);
  [[nodiscard]] bool drop_reference(Entry& root);

  std::unique_ptr<uint8_t[]> storage_;
  std::unique_ptr<Entry[]> entries_;
  IndexStack free_buffers_;
  IndexStack free_views_;  // behind the buffers
  uint32_t buffer_count_;
  uint32_t view_count_;
  uint32_t buffer_bytes_;
  bool poisons_ = false;
  std::atomic<uint32_t> buffers_in_use_{0};
  std::atomic<uint32_t> buffers_viewed_{0};  // given back by their owners, and neither in use nor free because of a view
  std::atomic<uint32_t> views_in_use_{0};
  std::atomic<uint64_t> buffers_refused_{0};
  std::atomic<uint64_t> views_refused_{0};
};

}  // namespace cw
