#include "apps/load/arrival_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace cw::load {
namespace {

constexpr Instant kStart = Instant::from_ns(5'000'000'000);

std::vector<double> seconds_of(const char* rate, Arrivals arrivals, uint32_t burst, double until) {
  Profile profile;
  std::string problem;
  EXPECT_TRUE(profile.parse(rate, problem)) << problem;
  SeededRandom random(3);
  ArrivalSchedule schedule(profile, arrivals, burst, random);
  EXPECT_TRUE(schedule.next().is_never());
  schedule.start(kStart);
  std::vector<double> out;
  while (!schedule.next().is_never() && (schedule.next() - kStart).to_seconds() < until) {
    out.push_back((schedule.next() - kStart).to_seconds());
    schedule.take();
  }
  return out;
}

TEST(ArrivalSchedule, AConstantRateIsEvenAndDoesNotDrift) {
  const std::vector<double> at = seconds_of("3", Arrivals::kConstant, 1, 1000);
  ASSERT_EQ(at.size(), 2999u);
  for (size_t i = 0; i < at.size(); ++i) {
    ASSERT_NEAR(at[i], static_cast<double>(i + 1) / 3, 2e-9);
  }
}

TEST(ArrivalSchedule, PoissonArrivalsHaveTheRateAndTheSpreadOfChance) {
  const std::vector<double> at = seconds_of("1k", Arrivals::kPoisson, 1, 100);
  EXPECT_NEAR(static_cast<double>(at.size()), 100'000, 4 * std::sqrt(100'000));
  // Of an exponential distribution the standard deviation is the mean, and 1/e of all gaps are longer than it.
  double square = 0;
  size_t longer = 0;
  for (size_t i = 1; i < at.size(); ++i) {
    const double gap = at[i] - at[i - 1];
    square += gap * gap;
    longer += gap > 0.001 ? 1 : 0;
  }
  const double count = static_cast<double>(at.size() - 1);
  EXPECT_NEAR(square / count, 2e-6, 1e-7);
  EXPECT_NEAR(static_cast<double>(longer) / count, std::exp(-1), 0.01);
}

TEST(ArrivalSchedule, FollowsARampInBothManners) {
  for (const Arrivals arrivals : {Arrivals::kConstant, Arrivals::kPoisson}) {
    const std::vector<double> at = seconds_of("0, 10s:2k", arrivals, 1, 20);
    const auto before = [&](double time) {
      return static_cast<double>(std::count_if(at.begin(), at.end(), [&](double t) { return t < time; }));
    };
    EXPECT_NEAR(before(5), 2'500, 4 * 50);
    EXPECT_NEAR(before(10), 10'000, 4 * 100);
    EXPECT_NEAR(before(20), 30'000, 4 * 174);
  }
}

TEST(ArrivalSchedule, ABurstIsDueAtOneInstantAndKeepsTheRate) {
  const std::vector<double> at = seconds_of("800", Arrivals::kConstant, 32, 10.001);
  ASSERT_EQ(at.size(), 8000u);
  EXPECT_EQ(at[0], at[31]);
  EXPECT_NEAR(at[32] - at[0], 0.04, 1e-9);
}

TEST(ArrivalSchedule, EndsWithTheRate) {
  const std::vector<double> at = seconds_of("10, 1s=0", Arrivals::kConstant, 1, 1000);
  EXPECT_EQ(at.size(), 10u);
}

}  // namespace
}  // namespace cw::load
