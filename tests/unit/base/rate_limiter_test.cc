#include "base/rate_limiter.h"

#include <gtest/gtest.h>

namespace cw {
namespace {

constexpr Instant kStart = Instant::from_ns(5'000'000'000);

TEST(RateLimiter, WithoutARateEverythingGoes) {
  LocalRateLimiter limiter;
  EXPECT_FALSE(limiter.is_on());
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(limiter.next_at(), kStart);
    limiter.charge(kStart, 1'000'000);
  }
}

TEST(RateLimiter, WhatGoesPutsTheNextOffByWhatItCosts) {
  LocalRateLimiter limiter;
  limiter.set(1000);
  EXPECT_LE(limiter.next_at(), kStart);
  limiter.charge(kStart, 10);
  EXPECT_EQ(limiter.next_at(), kStart) << "10 ms were saved up";
  limiter.charge(kStart, 5);
  EXPECT_EQ(limiter.next_at() - kStart, Duration::ms(5));
  limiter.charge(kStart, 2000);
  EXPECT_EQ(limiter.next_at() - kStart, Duration::ms(2005)) << "however much it costs";
  limiter.refund(1000);
  EXPECT_EQ(limiter.next_at() - kStart, Duration::ms(1005));
}

TEST(RateLimiter, NoMoreThanABurstIsSavedUp) {
  LocalRateLimiter limiter;
  limiter.set(1000);
  limiter.charge(kStart, 1);
  const Instant later = kStart + Duration::seconds(3600);
  uint32_t at_once = 0;
  while (limiter.next_at() <= later) {
    limiter.charge(later, 1);
    ++at_once;
  }
  EXPECT_EQ(at_once, 11u) << "10 ms worth, and the one that goes when it is due";
}

// A reload corrects a mistaken rate: nobody waits for what that would have taken.
TEST(RateLimiter, AnotherRateBeginsAnew) {
  LocalRateLimiter limiter;
  limiter.set(1);
  limiter.charge(kStart, 1'000'000);
  limiter.set(1);
  EXPECT_GT(limiter.next_at() - kStart, Duration::seconds(999'000)) << "the same one goes on";
  limiter.set(0);
  EXPECT_LE(limiter.next_at(), kStart);
  limiter.set(10'000);
  limiter.charge(kStart, 200);
  EXPECT_EQ(limiter.next_at() - kStart, Duration::ms(10));
}

}  // namespace
}  // namespace cw
