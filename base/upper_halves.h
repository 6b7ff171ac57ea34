// ISA-L comes back with bytes in the upper halves of the vector registers. On Intel's processors each change between SSE and AVX
// instructions, whoever's they are, then costs a hundred cycles and more, for as long as the thread runs.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cw {

#if defined(__x86_64__)
[[gnu::target("avx")]] inline void clear_upper_halves_by_avx() {
  _mm256_zeroupper();
}
inline const bool kHasAvx = __builtin_cpu_supports("avx") != 0;
#endif

// After a call of ISA-L.
inline void clear_upper_halves() {
#if defined(__x86_64__)
  if (kHasAvx) {
    clear_upper_halves_by_avx();
  }
#endif
}

}  // namespace cw
