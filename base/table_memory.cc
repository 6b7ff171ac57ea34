#include "base/table_memory.h"

#include <algorithm>
#include <new>

namespace cw {
namespace {

TableAdvice* advice = nullptr;

constexpr size_t kHugePageBytes = size_t{2} << 20;

std::align_val_t alignment_of(size_t bytes, size_t alignment) {
  return std::align_val_t(bytes < kHugePageBytes ? std::max(alignment, size_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__})
                                                 : kHugePageBytes);
}

}  // namespace

void advise_tables(TableAdvice* advise) {
  advice = advise;
}

void* allocate_table(size_t bytes, size_t alignment) {
  void* memory = ::operator new(bytes, alignment_of(bytes, alignment));
  if (bytes >= kHugePageBytes && advice != nullptr) {
    advice(memory, bytes);
  }
  return memory;
}

void free_table(void* memory, size_t bytes, size_t alignment) {
  ::operator delete(memory, alignment_of(bytes, alignment));
}

}  // namespace cw
