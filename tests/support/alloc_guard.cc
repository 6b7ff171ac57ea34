// Replaces operator new in the executable that lists this file. Arrays and the nothrow forms end up in these by the standard's
// defaults.
#include "tests/support/alloc_guard.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) {
    std::abort();
  }
  cw::test::note_allocation(bytes, malloc_usable_size(memory));
  return memory;
}

void give_back(void* memory) {
  cw::test::note_free(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}
