// Fetches what will be needed soon, while something else is done.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cw {

inline constexpr size_t kCacheLineBytes = 64;

// Fewer queue pairs or connections than this stay in the nearest caches by themselves: fetching them ahead would be work for
// nothing.
inline constexpr uint32_t kPrefetchFrom = 64;

// Of a row of them that are served one after the other, so many are fetched before it is their turn.
inline constexpr size_t kFetchAhead = 4;

// Every line of [begin, end), which is going to be written. `begin` is where a line begins. A hint: any address will do.
inline void prefetch_range(const void* begin, const void* end) {
  for (const char* at = static_cast<const char*>(begin); at < end; at += kCacheLineBytes) {
    __builtin_prefetch(at, 1);
  }
}

}  // namespace cw
