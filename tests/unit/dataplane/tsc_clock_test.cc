#include "dataplane/tsc_clock.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cw::dataplane {
namespace {

TEST(TscClock, StartsAtOneHourAndNeverGoesBack) {
  const TscClock clock;
  EXPECT_GT(clock.hz(), 100'000'000u);
  Instant before = clock.now();
  EXPECT_GE(before, Instant::from_ns(3'600'000'000'000));
  EXPECT_LT(before, Instant::from_ns(3'700'000'000'000));
  for (int i = 0; i < 10'000; ++i) {
    const Instant now = clock.now();
    EXPECT_GE(now, before);
    before = now;
  }
}

// Each poll core has its own, and moments of one are compared with those of another.
TEST(TscClock, AllTellTheSameTime) {
  const TscClock first;
  const Instant begun = first.now();
  while (first.now() - begun < Duration::ms(1)) {
  }
  const TscClock second;
  const uint64_t cycles = first.cycles();
  EXPECT_EQ(first.at(cycles), second.at(cycles));
}

TEST(TscClock, ACpuMayBeALittleBehind) {
  const TscClock clock;
  const Duration before = clock.at(clock.cycles()) - clock.at(clock.cycles() - clock.hz() * 4000);
  EXPECT_NEAR(before.to_seconds(), 4000, 1);
}

// Over ten years the scaled clock strays from the frequency it was given by less than a microsecond per second, and does not
// overflow.
TEST(TscClock, ScalesCyclesToNanosecondsOverYears) {
  const TscClock clock;
  const uint64_t origin = clock.cycles();
  const Instant start = clock.at(origin);
  for (const uint64_t seconds : {uint64_t{1}, uint64_t{86'400}, uint64_t{315'576'000}}) {
    const Duration passed = clock.at(origin + seconds * clock.hz()) - start;
    const double error = static_cast<double>(passed.to_ns()) / 1e9 - static_cast<double>(seconds);
    EXPECT_LT(std::abs(error), 1e-6 * static_cast<double>(seconds)) << seconds;
  }
}

}  // namespace
}  // namespace cw::dataplane
