// A BufferPool on the heap, allocated once: for tests, simulation, fuzzers and the load generator's in-process mode.
// One thread. in_use() lets a test prove that nothing leaked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"

namespace cw {

class HeapBufferPool final : public BufferPool {
 public:
  HeapBufferPool(uint32_t buffer_count, uint32_t buffer_bytes, uint32_t view_count);
  ~HeapBufferPool() override;

  [[nodiscard]] bool allocate(std::span<Buffer*> out) override;
  [[nodiscard]] Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) override;
  void release(Buffer* list) override;
  [[nodiscard]] uint32_t buffer_bytes() const override { return buffer_bytes_; }

  // Buffers and views that somebody still owns.
  [[nodiscard]] uint32_t in_use() const { return in_use_; }

 private:
  struct Entry {
    Buffer buffer;               // first member: Buffer* and Entry* convert
    uint8_t* storage = nullptr;  // own storage; nullptr for a view
    Entry* root = nullptr;       // whose storage this refers to (itself unless a view)
    uint32_t references = 0;     // of a root: itself if allocated, plus its views
  };
  void drop_reference(Entry& root);

  std::unique_ptr<uint8_t[]> storage_;
  std::unique_ptr<Entry[]> entries_;
  std::vector<Entry*> free_buffers_;
  std::vector<Entry*> free_views_;
  uint32_t buffer_bytes_;
  uint32_t in_use_ = 0;
};

}  // namespace cw
