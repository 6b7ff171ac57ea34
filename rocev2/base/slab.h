// A fixed number of T, allocated once, handed out and taken back in O(1) by one thread. Empty is an answer, not an error.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "rocev2/base/assert.h"

namespace cw {

template <typename T>
class Slab {
 public:
  explicit Slab(uint32_t capacity) : storage_(std::make_unique<Slot[]>(capacity)), capacity_(capacity) {
    for (uint32_t i = capacity; i > 0; --i) {
      storage_[i - 1].next_free = free_;
      free_ = &storage_[i - 1];
    }
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { CW_ASSERT(in_use_ == 0); }

  // Constructs a T, or returns nullptr when all are in use.
  template <typename... Args>
  [[nodiscard]] T* create(Args&&... args) {
    if (free_ == nullptr) {
      return nullptr;
    }
    Slot* slot = free_;
    free_ = slot->next_free;
    ++in_use_;
    if constexpr (sizeof...(Args) == 0) {
      // Without parentheses, which would clear the whole object before its members are initialised.
      return ::new (static_cast<void*>(slot->object)) T;
    } else {
      return ::new (static_cast<void*>(slot->object)) T(std::forward<Args>(args)...);
    }
  }

  void destroy(T* object) {
    object->~T();
    Slot* slot = reinterpret_cast<Slot*>(object);
    slot->next_free = free_;
    free_ = slot;
    --in_use_;
  }

  [[nodiscard]] uint32_t in_use() const { return in_use_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }

 private:
  union Slot {
    Slot* next_free;
    alignas(T) unsigned char object[sizeof(T)];
  };
  std::unique_ptr<Slot[]> storage_;
  Slot* free_ = nullptr;
  uint32_t in_use_ = 0;
  uint32_t capacity_;
};

}  // namespace cw
