// A bounded first-in first-out queue of values for one thread. Capacity is fixed at construction; push says when it is full.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace cw {

template <typename T>
class Ring {
 public:
  explicit Ring(uint32_t capacity) : slots_(capacity) {}

  [[nodiscard]] bool push(T&& value) {
    if (size_ == slots_.size()) {
      return false;
    }
    uint32_t at = head_ + size_;
    if (at >= slots_.size()) {
      at -= static_cast<uint32_t>(slots_.size());
    }
    slots_[at] = std::move(value);
    ++size_;
    return true;
  }
  // Precondition: !empty().
  [[nodiscard]] T pop() {
    CW_DASSERT(size_ > 0);
    T value = std::move(slots_[head_]);
    if (++head_ == slots_.size()) {
      head_ = 0;
    }
    --size_;
    return value;
  }
  [[nodiscard]] T& front() {
    CW_DASSERT(size_ > 0);
    return slots_[head_];
  }
  [[nodiscard]] const T& front() const {
    CW_DASSERT(size_ > 0);
    return slots_[head_];
  }
  // The one that was pushed last.
  [[nodiscard]] T& back() {
    CW_DASSERT(size_ > 0);
    const uint32_t at = head_ + size_ - 1;
    return slots_[at >= slots_.size() ? at - static_cast<uint32_t>(slots_.size()) : at];
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return size_ == slots_.size(); }
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t capacity() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  std::vector<T> slots_;
  uint32_t head_ = 0;
  uint32_t size_ = 0;
};

}  // namespace cw
