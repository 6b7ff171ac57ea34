#include "dataplane/entropy.h"

#include <gtest/gtest.h>

#include <bit>
#include <unordered_set>

namespace cw::dataplane {
namespace {

TEST(Entropy, TwoSourcesShareNothing) {
  Entropy one;
  Entropy other;
  std::unordered_set<uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(seen.insert(one.next_u64()).second);
    EXPECT_TRUE(seen.insert(other.next_u64()).second);
  }
}

// Not a test of ChaCha20, but a stuck bit or block would show.
TEST(Entropy, SetsEachBitHalfOfTheTime) {
  constexpr int kDraws = 20'000;
  constexpr int kHalf = kDraws / 2;
  Entropy source;
  std::array<int, 64> set{};
  for (int i = 0; i < kDraws; ++i) {
    uint64_t value = source.next_u64();
    for (int bit = 0; bit < 64; ++bit, value >>= 1) {
      set[static_cast<size_t>(bit)] += static_cast<int>(value & 1);
    }
  }
  for (const int count : set) {
    EXPECT_NEAR(count, kHalf, 800);  // 11 standard deviations
  }
}

}  // namespace
}  // namespace cw::dataplane
