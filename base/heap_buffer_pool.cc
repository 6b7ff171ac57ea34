#include "base/heap_buffer_pool.h"

namespace cw {

HeapBufferPool::HeapBufferPool(uint32_t buffer_count, uint32_t buffer_bytes, uint32_t view_count)
    : storage_(std::make_unique<uint8_t[]>(size_t{buffer_count} * (Buffer::kHeadroomBytes + buffer_bytes))),
      entries_(std::make_unique<Entry[]>(size_t{buffer_count} + view_count)),
      buffer_bytes_(buffer_bytes) {
  free_buffers_.reserve(buffer_count);
  free_views_.reserve(view_count);
  for (uint32_t i = 0; i < buffer_count + view_count; ++i) {
    Entry& entry = entries_[i];
    entry.buffer.pool = this;
    if (i < buffer_count) {
      entry.storage = storage_.get() + size_t{i} * (Buffer::kHeadroomBytes + buffer_bytes);
      entry.root = &entry;
      free_buffers_.push_back(&entry);
    } else {
      free_views_.push_back(&entry);
    }
  }
}

HeapBufferPool::~HeapBufferPool() {
  CW_ASSERT(in_use_ == 0);
}

bool HeapBufferPool::allocate(std::span<Buffer*> out) {
  if (free_buffers_.size() < out.size()) {
    return false;
  }
  for (Buffer*& slot : out) {
    Entry* entry = free_buffers_.back();
    free_buffers_.pop_back();
    entry->references = 1;
    entry->buffer.next = nullptr;
    entry->buffer.data = entry->storage + Buffer::kHeadroomBytes;
    entry->buffer.size = 0;
    entry->buffer.capacity_bytes = buffer_bytes_;
    entry->buffer.headroom_bytes = Buffer::kHeadroomBytes;
    slot = &entry->buffer;
    ++in_use_;
  }
  return true;
}

Buffer* HeapBufferPool::share(const Buffer& of, uint32_t offset, uint32_t size) {
  CW_DASSERT(offset + size <= of.size);
  if (free_views_.empty()) {
    return nullptr;
  }
  Entry* view = free_views_.back();
  free_views_.pop_back();
  view->root = reinterpret_cast<const Entry*>(&of)->root;
  ++view->root->references;
  view->buffer.next = nullptr;
  view->buffer.data = of.data + offset;
  view->buffer.size = size;
  view->buffer.capacity_bytes = size;
  view->buffer.headroom_bytes = 0;
  ++in_use_;
  return &view->buffer;
}

void HeapBufferPool::release(Buffer* list) {
  while (list != nullptr) {
    Buffer* next = list->next;
    list->next = nullptr;
    Entry& entry = *reinterpret_cast<Entry*>(list);
    CW_ASSERT(in_use_ > 0);
    --in_use_;
    Entry& root = *entry.root;
    if (&root != &entry) {
      entry.root = nullptr;
      free_views_.push_back(&entry);
    }
    drop_reference(root);
    list = next;
  }
}

void HeapBufferPool::drop_reference(Entry& root) {
  CW_ASSERT(root.references > 0);
  if (--root.references == 0) {
    free_buffers_.push_back(&root);
  }
}

}  // namespace cw
