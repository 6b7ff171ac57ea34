#include "base/crc32.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace cw {
namespace {

// The definition, bit by bit.
uint32_t slow_crc32(uint32_t start, const uint8_t* raw, size_t count) {
  uint32_t crc = ~start;
  for (size_t i = 0; i < count; ++i) {
    crc ^= raw[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb8'8320u : 0u);
    }
  }
  return ~crc;
}

std::vector<uint8_t> random_bytes(SeededRandom& random, size_t count) {
  std::vector<uint8_t> raw(count);
  for (uint8_t& byte : raw) {
    byte = static_cast<uint8_t>(random.next_u64());
  }
  return raw;
}

TEST(Crc32, OfTheCheckStringIsTheCheckValue) {
  const char* check = "123456789";
  EXPECT_EQ(crc32(0, reinterpret_cast<const uint8_t*>(check), 9), 0xcbf4'3926u);
}

TEST(Crc32, OfNothingIsItsStart) {
  const uint8_t byte = 0;
  EXPECT_EQ(crc32(0, &byte, 0), 0u);
  EXPECT_EQ(crc32(0x1234'5678, &byte, 0), 0x1234'5678u);
}

// Each length goes another way through the kernels for short and long runs; those around 256 change over from one to the other.
TEST(Crc32, EqualsTheDefinitionAtEveryLengthAndAlignment) {
  SeededRandom random(7);
  const std::vector<uint8_t> raw = random_bytes(random, 4300);
  for (size_t count = 0; count <= 4200; count += count < 600 ? 1 : 13) {
    for (const size_t offset : {count % 17, size_t{64}}) {
      const uint32_t start = random.next_u32();
      ASSERT_EQ(crc32(start, raw.data() + offset, count), slow_crc32(start, raw.data() + offset, count)) << count << " bytes";
    }
  }
}

TEST(Crc32, OfACopyIsThatOfTheBytesAndNothingElseIsWritten) {
  SeededRandom random(9);
  const std::vector<uint8_t> raw = random_bytes(random, 4300);
  for (size_t count = 0; count <= 4200; count += count < 600 ? 1 : 13) {
    for (const size_t offset : {count % 17, size_t{64}}) {
      constexpr uint8_t kFill = 0xa5;
      std::vector<uint8_t> out(count + 2 * offset, kFill);
      const uint32_t start = random.next_u32();
      const Bytes from = Bytes(raw).subspan(offset, count);
      ASSERT_EQ(crc32_copy(start, from.data(), count, out.data() + offset), crc32(start, from.data(), count))
          << count << " bytes";
      ASSERT_TRUE(std::ranges::equal(from, Bytes(out).subspan(offset, count))) << count << " bytes";
      const auto is_untouched = [](uint8_t byte) { return byte == kFill; };
      ASSERT_TRUE(std::ranges::all_of(Bytes(out).first(offset), is_untouched)) << count << " bytes";
      ASSERT_TRUE(std::ranges::all_of(Bytes(out).last(offset), is_untouched)) << count << " bytes";
    }
  }
}

TEST(Crc32, ReadsNothingBehindTheEnd) {
  SeededRandom random(8);
  for (size_t count = 1; count < 600; ++count) {
    const std::vector<uint8_t> raw = random_bytes(random, count);  // the sanitizers watch its ends
    ASSERT_EQ(crc32(0, raw.data(), count), slow_crc32(0, raw.data(), count)) << count << " bytes";
  }
}

TEST(Crc32, OfTwoRunsIsThatOfBothInARow) {
  SeededRandom random(9);
  const std::vector<uint8_t> raw = random_bytes(random, 400);
  const uint32_t whole = crc32(0, raw.data(), raw.size());
  for (size_t cut = 0; cut <= raw.size(); ++cut) {
    ASSERT_EQ(crc32(crc32(0, raw.data(), cut), raw.data() + cut, raw.size() - cut), whole) << "cut at " << cut;
  }
}

#if defined(__x86_64__)
// XINUSE: which parts of the register file are not in their initial state.
[[gnu::target("xsave")]] uint64_t parts_in_use() {
  return _xgetbv(1);
}
constexpr uint64_t kUpperHalves = 1 << 2 | 1 << 6;  // of ymm0 to ymm15, of zmm0 to zmm15

bool processor_tells_parts_in_use() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0xd), "c"(1));
  return __builtin_cpu_supports("avx") && (a & 1u << 2) != 0;
}

[[gnu::target("avx")]] void clear_upper_halves() {
  _mm256_zeroupper();
}

// Else every change between SSE and AVX code, in whatever library, costs Intel's processors a hundred cycles from then on: half
// of what a small call takes.
TEST(Crc32, LeavesTheUpperHalvesOfTheVectorRegistersClear) {
  if (!processor_tells_parts_in_use()) {
    GTEST_SKIP() << "this processor does not say";
  }
  clear_upper_halves();
  if ((parts_in_use() & kUpperHalves) != 0) {
    GTEST_SKIP() << "this processor does not say when they are clear";
  }
  const std::vector<uint8_t> raw(4096, 0x5a);
  for (const size_t count : {4u, 64u, 300u, 4096u}) {
    (void)crc32(0, raw.data(), count);
    EXPECT_EQ(parts_in_use() & kUpperHalves, 0u) << count << " bytes";
  }
}
#endif

}  // namespace
}  // namespace cw
