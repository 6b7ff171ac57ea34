// Memory for tables that are made once and looked up at random. A core that serves thousands of connections misses the cache of
// the page table with nearly every look when their state lies on ordinary pages: so tables as large as a huge page begin on the
// border of one, and the shell may ask the kernel for huge pages. Pages are taken when they are first touched.
#pragma once

#include <cstddef>

namespace cw {

// Called with each table of huge-page size, aligned to it, before it is used. Set before the first table is made, if at all.
using TableAdvice = void(void* memory, size_t bytes);
void advise_tables(TableAdvice* advise);

// Uninitialised, for free_table() with the same numbers. Never nullptr.
[[nodiscard]] void* allocate_table(size_t bytes, size_t alignment);
void free_table(void* memory, size_t bytes, size_t alignment);

// For containers that are made once.
template <typename T>
struct TableAllocator {
  using value_type = T;
  static constexpr size_t kValueBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): a value may be a pointer

  TableAllocator() = default;
  template <typename U>
  TableAllocator(const TableAllocator<U>&) {}  // NOLINT: implicit as allocators are
  [[nodiscard]] T* allocate(size_t count) { return static_cast<T*>(allocate_table(count * kValueBytes, alignof(T))); }
  void deallocate(T* memory, size_t count) { free_table(memory, count * kValueBytes, alignof(T)); }
  friend bool operator==(TableAllocator, TableAllocator) { return true; }
};

}  // namespace cw
