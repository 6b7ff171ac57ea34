#include "base/heap_buffer_pool.h"

#include <cstring>

namespace cw {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kPoison = 0xdb;

}  // namespace

// new uint8_t[] without an initializer: the kernel gives the memory when it is written to.
HeapBufferPool::HeapBufferPool(uint32_t buffer_count, uint32_t buffer_bytes, uint32_t view_count)
    : storage_(new uint8_t[size_t{buffer_count} * (Buffer::kHeadroomBytes + buffer_bytes)]),
      entries_(std::make_unique<Entry[]>(size_t{buffer_count} + view_count)),
      free_buffers_(buffer_count),
      free_views_(buffer_count + view_count),
      buffer_count_(buffer_count),
      view_count_(view_count),
      buffer_bytes_(buffer_bytes) {
  for (uint32_t i = 0; i < buffer_count + view_count; ++i) {
    Entry& entry = entries_[i];
    entry.buffer.pool = this;
    entry.index = i;
    if (i < buffer_count) {
      entry.storage = storage_.get() + size_t{i} * (Buffer::kHeadroomBytes + buffer_bytes);
      entry.root = &entry;
      free_buffers_.push(i);
    } else {
      free_views_.push(i);
    }
  }
}

HeapBufferPool::~HeapBufferPool() {
  CW_ASSERT(in_use() == 0);
}

bool HeapBufferPool::allocate(std::span<Buffer*> out) {
  for (size_t taken = 0; taken < out.size(); ++taken) {
    const uint32_t index = free_buffers_.pop();
    if (index == IndexStack::kNone) {
      while (taken > 0) {
        free_buffers_.push(reinterpret_cast<Entry*>(out[--taken])->index);
      }
      buffers_refused_.fetch_add(1, kRelaxed);
      return false;
    }
    out[taken] = &entries_[index].buffer;
  }
  for (Buffer* buffer : out) {
    Entry& entry = *reinterpret_cast<Entry*>(buffer);
    entry.references.store(1, kRelaxed);
    buffer->next = nullptr;
    buffer->data = entry.storage + Buffer::kHeadroomBytes;
    buffer->size = 0;
    buffer->capacity_bytes = buffer_bytes_;
    buffer->headroom_bytes = Buffer::kHeadroomBytes;
  }
  buffers_in_use_.fetch_add(static_cast<uint32_t>(out.size()), kRelaxed);
  buffers_taken_.fetch_add(static_cast<uint32_t>(out.size()), kRelaxed);
  return true;
}

Buffer* HeapBufferPool::share(const Buffer& of, uint32_t offset, uint32_t size) {
  CW_DASSERT(offset + size <= of.size);
  const uint32_t index = free_views_.pop();
  if (index == IndexStack::kNone) {
    views_refused_.fetch_add(1, kRelaxed);
    return nullptr;
  }
  Entry& view = entries_[index];
  view.root = reinterpret_cast<const Entry*>(&of)->root;
  view.root->references.fetch_add(1, kRelaxed);
  view.buffer.next = nullptr;
  view.buffer.data = of.data + offset;
  view.buffer.size = size;
  view.buffer.capacity_bytes = size;
  view.buffer.headroom_bytes = 0;
  views_in_use_.fetch_add(1, kRelaxed);
  return &view.buffer;
}

void HeapBufferPool::release(Buffer* list) {
  while (list != nullptr) {
    Buffer* next = list->next;
    list->next = nullptr;
    Entry& entry = *reinterpret_cast<Entry*>(list);
    Entry& root = *entry.root;
    if (&root != &entry) {
      CW_ASSERT(views_in_use_.fetch_sub(1, kRelaxed) > 0);
      entry.root = nullptr;
      free_views_.push(entry.index);
    } else {
      CW_ASSERT(buffers_in_use_.fetch_sub(1, kRelaxed) > 0);
    }
    drop_reference(root);
    list = next;
  }
}

// Whoever drops the last one sees what all others did with the storage before.
void HeapBufferPool::drop_reference(Entry& root) {
  const uint32_t before = root.references.fetch_sub(1, std::memory_order_acq_rel);
  CW_ASSERT(before > 0);
  if (before == 1) {
    buffers_taken_.fetch_sub(1, kRelaxed);
    if (poisons_) {
      std::memset(root.storage, kPoison, Buffer::kHeadroomBytes + size_t{buffer_bytes_});
    }
    free_buffers_.push(root.index);
  }
}

HeapBufferPool::Usage HeapBufferPool::buffer_usage() const {
  return {.available = buffer_count_ - buffers_taken_.load(kRelaxed),
          .size = buffer_count_,
          .refused = buffers_refused_.load(kRelaxed)};
}

HeapBufferPool::Usage HeapBufferPool::view_usage() const {
  return {.available = view_count_ - views_in_use_.load(kRelaxed), .size = view_count_, .refused = views_refused_.load(kRelaxed)};
}

}  // namespace cw
