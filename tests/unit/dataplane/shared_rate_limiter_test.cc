#include "dataplane/shared_rate_limiter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/random.h"
#include "dataplane/shared_rate_shares.h"

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
  threads.reserve(4);
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

TEST(SharedRateShares, CountAsLocalOnesDo) {
  SharedRateShares shared(2, 3);
  rpcrdma::LocalRateShares local(2, 3);
  SeededRandom random(7);
  for (int i = 0; i < 1000; ++i) {
    const size_t listener = random.next_u64() % 2;
    const size_t section = random.next_u64() % 3;
    const auto amount = static_cast<int64_t>(random.next_u64() % 1000);
    for (rpcrdma::RateShares* shares : {static_cast<rpcrdma::RateShares*>(&shared), static_cast<rpcrdma::RateShares*>(&local)}) {
      shares->begin_to_wait(listener, section);
      shares->go(listener, section, amount);
      shares->settle(listener, section, -amount / 2);
      if (amount % 2 == 0) {
        shares->end_to_wait(listener, section);
      }
      if (i == 500) {
        shares->forget();
      }
    }
    ASSERT_EQ(shared.clock(listener, section), local.clock(listener, section)) << i;
    ASSERT_EQ(shared.is_waiting(listener, section), local.is_waiting(listener, section)) << i;
    ASSERT_EQ(shared.lines_waiting(listener), local.lines_waiting(listener)) << i;
  }
}

// Nothing that several threads do to one clock is lost.
TEST(SharedRateShares, ThreadsMoveOneClock) {
  SharedRateShares shares(1, 2);
  constexpr int kCalls = 20'000;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&shares, section = i % 2] {
      for (int call = 0; call < kCalls; ++call) {
        shares.begin_to_wait(0, section);
        const int64_t before = shares.clock(0, section);
        shares.go(0, section, 3);
        shares.end_to_wait(0, section);
        EXPECT_GE(shares.clock(0, section), before + 3);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(shares.lines_waiting(0), 0u);
  for (size_t section = 0; section < 2; ++section) {
    EXPECT_FALSE(shares.is_waiting(0, section));
    EXPECT_GE(shares.clock(0, section), 2 * kCalls * 3);
    EXPECT_LE(shares.clock(0, section), 4 * kCalls * 3) << "no further than all of both";
  }
}

}  // namespace
}  // namespace cw::dataplane
