#include "base/heap_buffer_pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace cw {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kPoison = 0xdb;
constexpr size_t kBurst = 32;  // at a time through the stack of those that are free

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

Buffer* HeapBufferPool::fresh(uint32_t index) {
  Entry& entry = entries_[index];
  entry.references.store(1, kRelaxed);
  Buffer& buffer = entry.buffer;
  buffer.next = nullptr;
  buffer.data = entry.storage + Buffer::kHeadroomBytes;
  buffer.size = 0;
  buffer.capacity_bytes = buffer_bytes_;
  buffer.headroom_bytes = Buffer::kHeadroomBytes;
  return &buffer;
}

bool HeapBufferPool::allocate(std::span<Buffer*> out) {
  if (out.size() != 1) {
    return allocate_many(out);
  }
  const uint32_t index = free_buffers_.pop();
  if (index == IndexStack::kNone) [[unlikely]] {
    buffers_refused_.fetch_add(1, kRelaxed);
    return false;
  }
  out[0] = fresh(index);
  buffers_in_use_.fetch_add(1, kRelaxed);
  return true;
}

bool HeapBufferPool::allocate_many(std::span<Buffer*> out) {
  std::array<uint32_t, kBurst> indices;
  for (size_t taken = 0; taken < out.size();) {
    const std::span<uint32_t> some = std::span(indices).first(std::min(out.size() - taken, indices.size()));
    if (!free_buffers_.pop_all(some)) [[unlikely]] {
      while (taken > 0) {
        free_buffers_.push(reinterpret_cast<Entry*>(out[--taken])->index);
      }
      buffers_refused_.fetch_add(1, kRelaxed);
      return false;
    }
    for (const uint32_t index : some) {
      out[taken++] = fresh(index);
    }
  }
  buffers_in_use_.fetch_add(static_cast<uint32_t>(out.size()), kRelaxed);
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
  // Most often one that nobody views.
  Entry& only = *reinterpret_cast<Entry*>(list);
  const bool is_alone = only.root == &only && only.references.load(std::memory_order_acquire) == 1;
  if (list->next != nullptr || !is_alone || poisons_) {
    release_many(list);
    return;
  }
  only.references.store(0, kRelaxed);
  free_buffers_.push(only.index);
  CW_ASSERT(buffers_in_use_.fetch_sub(1, kRelaxed) > 0);
}

void HeapBufferPool::release_many(Buffer* list) {
  std::array<uint32_t, kBurst> freed;
  uint32_t count = 0;
  uint32_t roots = 0;
  while (list != nullptr) {
    Buffer* next = std::exchange(list->next, nullptr);
    Entry& entry = *reinterpret_cast<Entry*>(list);
    Entry& root = *entry.root;
    roots += &root == &entry ? 1 : 0;
    if (&root == &entry ? drop_root(root) : drop_view(entry)) [[likely]] {
      if (poisons_) [[unlikely]] {
        std::memset(root.storage, kPoison, Buffer::kHeadroomBytes + size_t{buffer_bytes_});
      }
      freed[count++] = root.index;
    }
    list = next;
    if (count > 0 && (list == nullptr || count == freed.size())) {
      free_buffers_.push_all(std::span(freed).first(std::exchange(count, 0)));
    }
  }
  CW_ASSERT(buffers_in_use_.fetch_sub(roots, kRelaxed) >= roots);
}

// The only reference is its owner's: nobody else could make another one.
inline bool HeapBufferPool::drop_root(Entry& root) {
  if (root.references.load(std::memory_order_acquire) == 1) [[likely]] {
    root.references.store(0, kRelaxed);
    return true;
  }
  buffers_viewed_.fetch_add(1, kRelaxed);
  return drop_reference(root);
}

bool HeapBufferPool::drop_view(Entry& view) {
  Entry& root = *std::exchange(view.root, nullptr);
  CW_ASSERT(views_in_use_.fetch_sub(1, kRelaxed) > 0);
  free_views_.push(view.index);
  return drop_reference(root);
}

// Whoever drops the last one sees what all others did with the storage before.
bool HeapBufferPool::drop_reference(Entry& root) {
  const uint32_t before = root.references.fetch_sub(1, std::memory_order_acq_rel);
  CW_ASSERT(before > 0);
  if (before > 1) {
    return false;
  }
  buffers_viewed_.fetch_sub(1, kRelaxed);
  return true;
}

HeapBufferPool::Usage HeapBufferPool::buffer_usage() const {
  const uint32_t taken = buffers_in_use_.load(kRelaxed) + buffers_viewed_.load(kRelaxed);
  return {.available = buffer_count_ - std::min(taken, buffer_count_),
          .size = buffer_count_,
          .refused = buffers_refused_.load(kRelaxed)};
}

HeapBufferPool::Usage HeapBufferPool::view_usage() const {
  return {.available = view_count_ - views_in_use_.load(kRelaxed), .size = view_count_, .refused = views_refused_.load(kRelaxed)};
}

}  // namespace cw
