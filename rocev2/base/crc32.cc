// ISA-L sums long runs as fast as memory gives them. Runs under 256 octets, which is what small calls and acknowledgements
// are, it folds 16 octets after 16 octets, each step waiting for the one before. Here their steps are independent of each
// other: the CRC is linear, so each 16 octets are multiplied straight by the power of x for their distance to the end, and the
// products are added up.
#include "rocev2/base/crc32.h"

#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cstring>

namespace cw {
namespace {

#if defined(__x86_64__)

constexpr size_t kStep = 16;
constexpr size_t kStepsMax = 16;
constexpr uint32_t kPolynomial = 0xedb8'8320;

// x^n modulo the polynomial as a multiplier for carry-less products of reflected numbers, which come out one bit too low.
constexpr uint64_t power_of_x(size_t n) {
  uint32_t power = 0x8000'0000;
  for (size_t i = 0; i < n; ++i) {
    power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  }
  return uint64_t{power} << 1;
}

// [d]: moves 16 octets over d times 16 octets; one multiplier per half, whose distances differ by 64 bits.
struct alignas(16) Multipliers {
  uint64_t low = 0;
  uint64_t high = 0;
};
constexpr std::array<Multipliers, kStepsMax> kMove = [] {
  std::array<Multipliers, kStepsMax> table{};
  for (size_t d = 1; d < kStepsMax; ++d) {
    table[d] = {power_of_x(128 * d + 32), power_of_x(128 * d - 32)};
  }
  return table;
}();

// Barrett reduction: floor(x^64 / P) and P, both reflected in 33 bits.
constexpr uint64_t kQuotient = 0x1'f701'1641;
constexpr uint64_t kModulus = 0x1'db71'0641;

// A window into it shifts a register by any number of octets, or keeps its last ones.
alignas(16) constexpr std::array<uint8_t, 48> kSlide = [] {
  std::array<uint8_t, 48> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = i >= 16 && i < 32 ? static_cast<uint8_t>(i - 16) : 0x80;  // 0x80: a zero comes here
  }
  return table;
}();

[[gnu::target("avx,pclmul")]] inline __m128i load(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

[[gnu::target("avx,pclmul")]] inline __m128i moved(__m128i octets, size_t steps) {
  const __m128i multipliers = load(&kMove[steps]);
  return _mm_xor_si128(_mm_clmulepi64_si128(octets, multipliers, 0x00), _mm_clmulepi64_si128(octets, multipliers, 0x11));
}

// 128 bits to 32.
[[gnu::target("avx,pclmul")]] inline uint32_t reduced(__m128i sum) {
  const __m128i low_words = _mm_set_epi32(0, -1, 0, -1);
  const __m128i to_96 = _mm_set_epi64x(0, static_cast<long long>(kMove[1].high));
  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, to_96, 0x00));
  const __m128i to_64 = _mm_set_epi64x(0, static_cast<long long>(power_of_x(64)));
  sum = _mm_xor_si128(_mm_srli_si128(sum, 4), _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), to_64, 0x00));
  const __m128i barrett = _mm_set_epi64x(static_cast<long long>(kQuotient), static_cast<long long>(kModulus));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1));
}

// Precondition: kStep <= count < kStep * kStepsMax.
[[gnu::target("avx,pclmul")]] uint32_t crc32_short(uint32_t start, const uint8_t* octets, size_t count) {
  const size_t steps = count / kStep;
  const size_t rest = count % kStep;
  __m128i at = _mm_xor_si128(load(octets), _mm_cvtsi32_si128(static_cast<int>(~start)));
  __m128i sum = _mm_setzero_si128();
  for (size_t left = steps - 1; left > 0; --left) {
    sum = _mm_xor_si128(sum, moved(at, left));
    octets += kStep;
    at = load(octets);
  }
  sum = _mm_xor_si128(sum, at);
  if (rest > 0) {
    // The sum stands for 16 octets: its first `rest` are moved over the last 16 that then remain, whose end is the rest.
    const __m128i front = _mm_shuffle_epi8(sum, load(&kSlide[rest]));
    const __m128i keep = load(&kSlide[rest + 16]);  // 0x80 in the last `rest` octets
    const __m128i back = _mm_blendv_epi8(_mm_shuffle_epi8(sum, keep), load(octets + rest), keep);
    sum = _mm_xor_si128(moved(front, 1), back);
  }
  return ~reduced(sum);
}

const bool has_avx = __builtin_cpu_supports("avx") != 0;
const bool has_clmul = has_avx && __builtin_cpu_supports("pclmul");

[[gnu::target("avx")]] void clear_upper_halves() {
  _mm256_zeroupper();
}

#endif

// ISA-L comes back with octets in the upper halves of the vector registers. On Intel's processors each change between SSE and
// AVX instructions, whoever's they are, then costs a hundred cycles and more, for as long as the thread runs.
uint32_t crc32_long(uint32_t start, const uint8_t* octets, size_t count) {
  const uint32_t crc = crc32_gzip_refl(start, octets, count);
#if defined(__x86_64__)
  if (has_avx) {
    clear_upper_halves();
  }
#endif
  return crc;
}

}  // namespace

uint32_t crc32(uint32_t start, const uint8_t* octets, size_t count) {
#if defined(__x86_64__)
  if (count >= kStep && count < kStep * kStepsMax && has_clmul) {
    return crc32_short(start, octets, count);
  }
#endif
  return crc32_long(start, octets, count);
}

}  // namespace cw
