// Buffers and chains: how bytes are owned from the wire to the backend and back, without a copy.
//
// A Buffer describes one contiguous run of bytes inside storage that belongs to a BufferPool (under DPDK it lives in the private
// area of an mbuf; in tests and simulation on the heap). Buffers are linked into a Chain; a Chain is the only owner of its
// Buffers and gives them back when it dies. A message that is longer than the MTU, a call rebuilt from Read chunks and a reply
// of a megabyte are all Chains. Bytes that belong to two messages at once (a payload range cut out of a reply) are shared: a
// second Buffer views the same storage, and the pool frees the storage when the last view goes.
//
// Ownership: exactly one Chain (or one local variable on its way into one) owns a Buffer at any moment. Threads: a Chain may be
// handed from thread to thread, never used by two; BufferPool::release and share may be called by any thread.
// Failure: pools are bounded; allocate and share return nothing when the pool is empty and the caller backs off or drops,
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace cw {

class BufferPool;

struct Buffer {
  static constexpr uint32_t kHeadroomBytes = 128;  // of one that was just allocated

  Buffer* next = nullptr;       // next in the chain that owns this one
  uint8_t* data = nullptr;      // first valid byte
  uint32_t size = 0;            // valid bytes from data on
  uint32_t capacity_bytes = 0;  // bytes from data on that this Buffer may write; == size for a view (read only)
  BufferPool* pool = nullptr;   // where release() gives it back; set once by the pool
  // Bytes before data that it may write. Where there are any, nobody else sees what lies before and behind the valid bytes:
  // headers are put in front, a whole frame is built around a message. 0 for a view, and once bytes were cut off that somebody
  // may see (trim_front). Those of a packet that came are its headers, which nobody reads any more.
  uint32_t headroom_bytes = 0;

  [[nodiscard]] Bytes bytes() const { return {data, size}; }
  // Bytes after the valid ones that may still be written.
  [[nodiscard]] MutableBytes tailroom() const { return {data + size, capacity_bytes - size}; }
  // Appends what fits and says how much that was.
  uint32_t append(Bytes more);
  // Drops bytes at the front (headers that were consumed). Precondition: count <= size.
  void trim_front(uint32_t count) {
    CW_DASSERT(count <= size);
    data += count;
    size -= count;
    capacity_bytes -= count;
    headroom_bytes = 0;
  }
  // The same of bytes that nobody else sees either: they become headroom. Precondition: count <= size.
  void give_up_front(uint32_t count) {
    CW_DASSERT(count <= size);
    data += count;
    size -= count;
    capacity_bytes -= count;
    headroom_bytes += count;
  }
  // Makes `count` bytes in front valid; they are to be written. Precondition: count <= headroom_bytes.
  void extend_front(uint32_t count) {
    CW_DASSERT(count <= headroom_bytes);
    data -= count;
    size += count;
    capacity_bytes += count;
    headroom_bytes -= count;
  }
};

class BufferPool {
 public:
  virtual ~BufferPool() = default;
  // Fills `out` with empty, writable, unlinked Buffers (size 0, headroom kHeadroomBytes). All or nothing; false when the pool
  // cannot give that many.
  [[nodiscard]] virtual bool allocate(std::span<Buffer*> out) = 0;
  // A new read-only Buffer over [offset, offset + size) of `of`, which may itself be a view. nullptr when none is left.
  [[nodiscard]] virtual Buffer* share(const Buffer& of, uint32_t offset, uint32_t size) = 0;
  // Takes back a linked list of Buffers that all came from this pool.
  virtual void release(Buffer* list) = 0;
  // Bytes that one freshly allocated Buffer can hold.
  [[nodiscard]] virtual uint32_t buffer_bytes() const = 0;

  [[nodiscard]] Buffer* allocate_one() {
    Buffer* one = nullptr;
    return allocate(std::span<Buffer*>(&one, 1)) ? one : nullptr;
  }
};

// Gives back a linked list whose Buffers may come from several pools.
void release_list(Buffer* list);
inline void release_buffers(Buffer* list) {
  if (list != nullptr && list->next == nullptr) [[likely]] {
    list->pool->release(list);
  } else {
    release_list(list);
  }
}

class Chain {
 public:
  Chain() = default;
  // Takes ownership of a linked list.
  explicit Chain(Buffer* list);
  Chain(Chain&& other) noexcept { take(other); }
  // Several times per message: nearly always into an empty chain.
  [[gnu::always_inline]] Chain& operator=(Chain&& other) noexcept {
    if (head_ != nullptr) [[unlikely]] {
      replace(other);
    } else {
      take(other);  // an empty chain may take from itself
    }
    return *this;
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() { clear(); }

  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint32_t buffer_count() const { return count_; }
  [[nodiscard]] const Buffer* head() const { return head_; }
  [[nodiscard]] Buffer* head() { return head_; }
  [[nodiscard]] Buffer* tail() { return tail_; }

  // Takes ownership of one unlinked Buffer.
  void push_back(Buffer* buffer);
  void push_front(Buffer* buffer);
  // Takes ownership of one unlinked Buffer, which comes behind `before`, a Buffer of this chain; nullptr: at the front.
  void insert_after(Buffer* before, Buffer* buffer);
  // Takes out what comes behind `before`, a Buffer of this chain; nullptr: everything.
  [[nodiscard]] Chain cut_after(Buffer* before);
  // Takes everything out of `other`, behind what is here.
  void append(Chain&& other);
  // Gives the list away; the chain is empty afterwards.
  [[nodiscard]] Buffer* detach();
  void clear();

  // Drops bytes at the front as trim_front() does, but nobody else sees them: they become headroom, if the first Buffer has some
  // already and is longer. Precondition: count <= bytes().
  void give_up_front(uint64_t count) {
    if (head_ != nullptr && head_->headroom_bytes > 0 && count < head_->size) [[likely]] {
      head_->give_up_front(static_cast<uint32_t>(count));
      bytes_ -= count;
      return;
    }
    trim_front(count);
  }
  // `count` more bytes at the front, in the first Buffer's headroom, which has so many; to be written.
  [[nodiscard]] MutableBytes extend_front(uint32_t count) {
    head_->extend_front(count);
    bytes_ += count;
    return {head_->data, count};
  }
  // Bytes behind the last one that may still be written; none when the chain is empty.
  [[nodiscard]] MutableBytes tail_room() const { return tail_ == nullptr ? MutableBytes() : tail_->tailroom(); }
  // The first `count` bytes of tail_room() were written and belong to the chain now. Precondition: it has so many.
  void extend_back(uint32_t count) {
    CW_DASSERT(count <= tail_room().size());
    if (count > 0) {
      tail_->size += count;
      bytes_ += count;
    }
  }
  // Drops bytes at the front, releasing Buffers that become empty. Precondition: count <= bytes().
  void trim_front(uint64_t count) {
    if (head_ != nullptr && count < head_->size) [[likely]] {
      bytes_ -= count;
      head_->trim_front(static_cast<uint32_t>(count));
      return;
    }
    trim_front_of_many(count);
  }
  // Drops bytes at the end. Precondition: count <= bytes().
  void trim_back(uint64_t count);
  // Moves the first `count` bytes into `front` (which must be empty). A Buffer astride the cut is shared, not copied. False,
  // and nothing moved, when the pool has no view left. Precondition: count <= bytes().
  [[nodiscard]] bool split_front(uint64_t count, Chain& front);
  // Views of [offset, offset + count) appended to `out`; this chain keeps everything. False, and nothing appended, when the pool
  // has no view left. Precondition: offset + count <= bytes().
  [[nodiscard]] bool share_range(uint64_t offset, uint64_t count, Chain& out) const;
  // Copies bytes out. Precondition: offset + out.size() <= bytes().
  void copy_to(uint64_t offset, MutableBytes out) const {
    if (head_ != nullptr && offset + out.size() <= head_->size) [[likely]] {
      std::memcpy(out.data(), head_->data + offset, out.size());
      return;
    }
    copy_from_many(offset, out);
  }
  // Appends by copying into tail room and, when that is full, into new Buffers of `pool`. False, and unchanged in
  // meaning (a part may have been appended and trimmed off again), when the pool is empty.
  [[nodiscard]] bool append_copy(BufferPool& pool, Bytes more);

 private:
  void trim_front_of_many(uint64_t count);
  void copy_from_many(uint64_t offset, MutableBytes out) const;
  [[gnu::cold]] void replace(Chain& other) noexcept;
  void take(Chain& other) noexcept {
    head_ = std::exchange(other.head_, nullptr);
    tail_ = std::exchange(other.tail_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    count_ = std::exchange(other.count_, 0);
  }

  Buffer* head_ = nullptr;
  Buffer* tail_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t count_ = 0;
};

// Several times per message each, hence here.

inline void Chain::push_back(Buffer* buffer) {
  CW_DASSERT(buffer->next == nullptr);
  if (tail_ == nullptr) {
    head_ = buffer;
  } else {
    tail_->next = buffer;
  }
  tail_ = buffer;
  bytes_ += buffer->size;
  ++count_;
}

inline void Chain::append(Chain&& other) {
  if (other.empty()) {
    return;
  }
  if (empty()) {
    take(other);
    return;
  }
  tail_->next = other.head_;
  tail_ = other.tail_;
  bytes_ += other.bytes_;
  count_ += other.count_;
  other.head_ = nullptr;
  other.tail_ = nullptr;
  other.bytes_ = 0;
  other.count_ = 0;
}

inline Buffer* Chain::detach() {
  Buffer* list = head_;
  head_ = nullptr;
  tail_ = nullptr;
  bytes_ = 0;
  count_ = 0;
  return list;
}

inline void Chain::clear() {
  if (head_ != nullptr) {
    release_buffers(detach());
  }
}

}  // namespace cw
