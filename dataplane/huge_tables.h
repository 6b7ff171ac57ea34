// Tables of the protocol code on huge pages, where the kernel has them to give (transparent_hugepage "madvise" or "always").
#pragma once

#include <sys/mman.h>

#include "base/table_memory.h"

namespace cw::dataplane {

inline void put_tables_on_huge_pages() {
  advise_tables([](void* memory, size_t bytes) { (void)madvise(memory, bytes, MADV_HUGEPAGE); });
}

}  // namespace cw::dataplane
