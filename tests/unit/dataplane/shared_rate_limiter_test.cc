#include "dataplane/shared_rate_limiter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cw::dataplane {
namespace {

constexpr Instant kStart = Instant::from_ns(5'000'000'000);

TEST(SharedRateLimiter, CountsAsALocalOneDoes) {
  SharedRateLimiter shared;
  LocalRateLimiter local;
  for (RateLimiter* limiter : {static_cast<RateLimiter*>(&shared), static_cast<RateLimiter*>(&local)}) {
    EXPECT_FALSE(limiter->is_on());
    limiter->charge(kStart, 1000);
    limiter->set(1000);
  }
  for (uint64_t i = 0; i < 100; ++i) {
    const Instant now = kStart + Duration::ms(static_cast<int64_t>(i * i % 37));
    for (RateLimiter* limiter : {static_cast<RateLimiter*>(&shared), static_cast<RateLimiter*>(&local)}) {
      limiter->charge(now, i % 7);
      limiter->refund(i % 3);
    }
    ASSERT_EQ(shared.next_at(), local.next_at()) << i;
  }
}

// Nothing is lost or counted twice when several threads charge.
TEST(SharedRateLimiter, ThreadsShareOneRate) {
  SharedRateLimiter limiter;
  limiter.set(1'000'000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&limiter] {
      for (int call = 0; call < 10'000; ++call) {
        limiter.charge(kStart, 3);
        limiter.refund(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GE(limiter.next_at() - kStart, Duration::ms(70));
  EXPECT_LE(limiter.next_at() - kStart, Duration::ms(80));
}

}  // namespace
}  // namespace cw::dataplane
