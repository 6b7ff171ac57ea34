// A HeapBufferPool that several threads may use: for tests of what crosses threads, without DPDK's pools.
#pragma once

#include <mutex>

#include "base/heap_buffer_pool.h"

namespace cw::test {

class LockedBufferPool final : public BufferPool {
 public:
  LockedBufferPool(uint32_t buffer_count, uint32_t buffer_bytes, uint32_t view_count)
      : pool_(buffer_count, buffer_bytes, view_count) {}

  [[nodiscard]] bool allocate(std::span<Buffer*> out) override {
    const std::lock_guard lock(mutex_);
    if (!pool_.allocate(out)) {
      return false;
    }
    for (Buffer* buffer : out) {
      buffer->pool = this;  // else it would be released past the lock
    }
    return true;
  }
  [[nodiscard]] Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) override {
    const std::lock_guard lock(mutex_);
    Buffer* view = pool_.share(of, offset, size);
    if (view != nullptr) {
      view->pool = this;
    }
    return view;
  }
  void release(Buffer* list) override {
    const std::lock_guard lock(mutex_);
    pool_.release(list);
  }
  [[nodiscard]] uint32_t buffer_bytes() const override { return pool_.buffer_bytes(); }
  [[nodiscard]] uint32_t in_use() const {
    const std::lock_guard lock(mutex_);
    return pool_.in_use();
  }

 private:
  mutable std::mutex mutex_;
  HeapBufferPool pool_;
};

}  // namespace cw::test
