// Fetches what will be needed soon, while something else is done.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cw {

inline constexpr size_t kCacheLineBytes = 64;

// Fewer queue pairs or connections than this stay in the nearest caches by themselves: fetching them ahead would be work for
// nothing.
inline constexpr uint32_t kForeseeFrom = 64;

// Every line of an object that is going to be written. A hint: any address will do.
template <typename T>
inline void prefetch_object(const T& object) {
  const char* first = reinterpret_cast<const char*>(&object);
  for (size_t at = 0; at < sizeof(T) + kCacheLineBytes - 1; at += kCacheLineBytes) {
    __builtin_prefetch(first + at, 1);
  }
}

}  // namespace cw
