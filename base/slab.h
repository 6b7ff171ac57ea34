// A fixed number of T, allocated once, handed out and taken back in O(1) by one thread. Empty is an answer, not an error. Memory
// that no T has needed yet is not touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/assert.h"
#include "base/sanitizers.h"
#include "base/table_memory.h"

#ifdef CW_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace cw {

template <typename T>
class Slab {
 public:
  explicit Slab(uint32_t capacity)
      : storage_(static_cast<Slot*>(allocate_table(size_t{capacity} * sizeof(Slot), alignof(Slot)))), capacity_(capacity) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    CW_ASSERT(in_use_ == 0);
    for (uint32_t i = 0; i < touched_; ++i) {
      allow_access(storage_ + i);
    }
    free_table(storage_, size_t{capacity_} * sizeof(Slot), alignof(Slot));
  }

  // Constructs a T, or returns nullptr when all are in use.
  template <typename... Args>
  [[nodiscard]] T* create(Args&&... args) {
    Slot* slot = free_;
    if (slot != nullptr) [[likely]] {
      free_ = slot->next_free;
    } else if (touched_ < capacity_) {
      slot = storage_ + touched_++;
    } else {
      return nullptr;
    }
    ++in_use_;
    allow_access(slot);
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
    forbid_access(slot);
  }

  [[nodiscard]] uint32_t in_use() const { return in_use_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }

 private:
  union Slot {
    Slot* next_free;
    alignas(T) unsigned char object[sizeof(T)];
  };
  // The AddressSanitizer finds who uses what was given back, as it does with memory of the heap.
  static void allow_access([[maybe_unused]] Slot* slot) {
#ifdef CW_ADDRESS_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(slot, sizeof(Slot));
#endif
  }
  static void forbid_access([[maybe_unused]] Slot* slot) {
#ifdef CW_ADDRESS_SANITIZER
    ASAN_POISON_MEMORY_REGION(slot->object + sizeof(Slot*), sizeof(Slot) - sizeof(Slot*));
#endif
  }
  Slot* storage_;
  Slot* free_ = nullptr;  // of those that were in use
  uint32_t touched_ = 0;  // slots that ever were
  uint32_t in_use_ = 0;
  uint32_t capacity_;
};

}  // namespace cw
