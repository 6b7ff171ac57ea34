#include "base/buffer.h"

#include <algorithm>
#include <cstring>

namespace cw {

uint32_t Buffer::append(Bytes more) {
  const uint32_t count = static_cast<uint32_t>(std::min<size_t>(more.size(), capacity_bytes - size));
  if (count > 0) {
    std::memcpy(data + size, more.data(), count);
    size += count;
  }
  return count;
}

void release_list(Buffer* list) {
  // One virtual call per run of Buffers from the same pool: nearly always one per message.
  while (list != nullptr) {
    Buffer* last = list;
    while (last->next != nullptr && last->next->pool == list->pool) {
      last = last->next;
    }
    Buffer* rest = std::exchange(last->next, nullptr);
    list->pool->release(list);
    list = rest;
  }
}

Chain::Chain(Buffer* list) {
  while (list != nullptr) {
    Buffer* rest = std::exchange(list->next, nullptr);
    push_back(list);
    list = rest;
  }
}

void Chain::replace(Chain& other) noexcept {
  if (this != &other) {
    clear();
    take(other);
  }
}

void Chain::push_front(Buffer* buffer) {
  CW_DASSERT(buffer->next == nullptr);
  buffer->next = head_;
  head_ = buffer;
  if (tail_ == nullptr) {
    tail_ = buffer;
  }
  bytes_ += buffer->size;
  ++count_;
}

void Chain::insert_after(Buffer* before, Buffer* buffer) {
  if (before == nullptr) {
    push_front(buffer);
    return;
  }
  if (before == tail_) {
    push_back(buffer);
    return;
  }
  CW_DASSERT(buffer->next == nullptr);
  buffer->next = std::exchange(before->next, buffer);
  bytes_ += buffer->size;
  ++count_;
}

Chain Chain::cut_after(Buffer* before) {
  Chain rest;
  if (before == nullptr) {
    rest.take(*this);
    return rest;
  }
  if (before == tail_) {
    return rest;
  }
  rest = Chain(std::exchange(before->next, nullptr));
  tail_ = before;
  bytes_ -= rest.bytes_;
  count_ -= rest.count_;
  return rest;
}

void Chain::trim_front_of_many(uint64_t count) {
  CW_DASSERT(count <= bytes_);
  bytes_ -= count;
  while (head_ != nullptr && count >= head_->size && (count > 0 || head_->size == 0)) {
    count -= head_->size;
    Buffer* gone = head_;
    head_ = gone->next;
    gone->next = nullptr;
    --count_;
    release_buffers(gone);
  }
  if (head_ == nullptr) {
    tail_ = nullptr;
    return;
  }
  head_->trim_front(static_cast<uint32_t>(count));
}

void Chain::trim_back(uint64_t count) {
  CW_DASSERT(count <= bytes_);
  const uint64_t keep = bytes_ - count;
  if (keep == 0) {
    clear();
    return;
  }
  uint64_t seen = 0;
  Buffer* last = head_;
  uint32_t kept_count = 1;
  while (seen + last->size < keep) {
    seen += last->size;
    last = last->next;
    ++kept_count;
  }
  last->size = static_cast<uint32_t>(keep - seen);
  last->headroom_bytes = 0;  // somebody may have a view of what was cut off
  Buffer* gone = std::exchange(last->next, nullptr);
  tail_ = last;
  bytes_ = keep;
  count_ = kept_count;
  if (gone != nullptr) {
    release_buffers(gone);
  }
}

bool Chain::split_front(uint64_t count, Chain& front) {
  CW_DASSERT(count <= bytes_ && front.empty());
  if (count == bytes_) {
    front = std::move(*this);
    return true;
  }
  // Find the Buffer astride the cut and secure its second view before anything moves.
  uint64_t whole = 0;
  Buffer* at = head_;
  while (at != nullptr && whole + at->size <= count) {
    whole += at->size;
    at = at->next;
  }
  Buffer* first_part = nullptr;
  if (whole < count) {
    first_part = at->pool->share(*at, 0, static_cast<uint32_t>(count - whole));
    if (first_part == nullptr) {
      return false;
    }
  }
  while (head_ != at) {
    Buffer* moved = head_;
    head_ = moved->next;
    moved->next = nullptr;
    bytes_ -= moved->size;
    --count_;
    front.push_back(moved);
  }
  if (first_part != nullptr) {
    front.push_back(first_part);
    at->trim_front(first_part->size);
    bytes_ -= first_part->size;
  }
  return true;
}

bool Chain::share_range(uint64_t offset, uint64_t count, Chain& out) const {
  CW_DASSERT(offset + count <= bytes_);
  Chain views;
  const Buffer* at = head_;
  while (count > 0) {
    if (offset >= at->size) {
      offset -= at->size;
    } else {
      const uint32_t take_bytes = static_cast<uint32_t>(std::min<uint64_t>(count, at->size - offset));
      Buffer* view = at->pool->share(*at, static_cast<uint32_t>(offset), take_bytes);
      if (view == nullptr) {
        return false;
      }
      views.push_back(view);
      offset = 0;
      count -= take_bytes;
    }
    at = at->next;
  }
  out.append(std::move(views));
  return true;
}

void Chain::copy_from_many(uint64_t offset, MutableBytes out) const {
  CW_DASSERT(offset + out.size() <= bytes_);
  size_t done = 0;
  for (const Buffer* at = head_; done < out.size(); at = at->next) {
    if (offset >= at->size) {
      offset -= at->size;
      continue;
    }
    const size_t take_bytes = std::min<size_t>(out.size() - done, at->size - offset);
    std::memcpy(out.data() + done, at->data + offset, take_bytes);
    done += take_bytes;
    offset = 0;
  }
}

bool Chain::append_copy(BufferPool& pool, Bytes more) {
  const uint64_t before = bytes_;
  if (tail_ != nullptr) {
    const uint32_t copied = tail_->append(more);
    bytes_ += copied;
    more = more.subspan(copied);
  }
  while (!more.empty()) {
    Buffer* fresh = pool.allocate_one();
    if (fresh == nullptr) {
      trim_back(bytes_ - before);
      return false;
    }
    more = more.subspan(fresh->append(more));
    push_back(fresh);
  }
  return true;
}

}  // namespace cw
