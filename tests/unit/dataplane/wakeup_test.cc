#include "dataplane/wakeup.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>

#include "dataplane/value_ring.h"

namespace cw::dataplane {
namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, timeout_ms) == 1;
}

TEST(Wakeup, CostsNoSystemCallWhileNobodySleeps) {
  Wakeup wakeup;
  wakeup.wake();
  EXPECT_FALSE(is_readable(wakeup.fd(), 0));
}

TEST(Wakeup, WakesASleeperAndIsQuietAfterwards) {
  Wakeup wakeup;
  wakeup.prepare();
  EXPECT_FALSE(is_readable(wakeup.fd(), 0));
  wakeup.wake();
  wakeup.wake();
  EXPECT_TRUE(is_readable(wakeup.fd(), 0));
  wakeup.awake(true);
  EXPECT_FALSE(is_readable(wakeup.fd(), 0));
  wakeup.wake();
  EXPECT_FALSE(is_readable(wakeup.fd(), 0));
}

// Who has not seen a word leaves it where it is.
TEST(Wakeup, AWordThatComesBehindTheLookEndsTheNextSleep) {
  Wakeup wakeup;
  wakeup.prepare();
  const bool seen = is_readable(wakeup.fd(), 0);
  wakeup.wake();
  wakeup.awake(seen);
  wakeup.prepare();
  EXPECT_TRUE(is_readable(wakeup.fd(), 0));
  wakeup.awake(true);
  EXPECT_FALSE(is_readable(wakeup.fd(), 0));
}

// A sleeper that looks into the ring after prepare() never sleeps on a value that is there: with a lost wake-up the poll below
// would run into its timeout.
TEST(Wakeup, LosesNoValueBetweenTheLookAndTheSleep) {
  constexpr uint32_t kValues = 20'000;
  ValueRing<uint32_t> ring("test", 15, RingProducers::kOne);
  Wakeup wakeup;
  std::thread producer([&] {
    for (uint32_t value = 0; value < kValues;) {
      if (ring.push(value)) {
        wakeup.wake();
        ++value;
      } else {
        std::this_thread::yield();
      }
    }
  });
  uint32_t slept_through = 0;
  std::array<uint32_t, 4> burst;
  for (uint32_t got = 0; got < kValues;) {
    const uint32_t taken = ring.pop(burst);
    for (uint32_t i = 0; i < taken; ++i) {
      ASSERT_EQ(burst[i], got++);
    }
    if (taken == 0) {
      wakeup.prepare();
      bool is_woken = false;
      if (ring.empty()) {
        is_woken = is_readable(wakeup.fd(), 5'000);
        slept_through += is_woken ? 0 : 1;
      }
      wakeup.awake(is_woken);
    }
  }
  producer.join();
  EXPECT_EQ(slept_through, 0u);
}

}  // namespace
}  // namespace cw::dataplane
