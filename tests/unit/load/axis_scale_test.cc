#include "apps/load/report/axis_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cw::load {
namespace {

using Values = std::vector<double>;

Values rounded(const AxisScale& scale) {
  Values out;
  for (const double tick : scale.ticks()) {
    out.push_back(std::round(tick * 1e6) / 1e6);
  }
  return out;
}

TEST(AxisScale, StandsAtRoundNumbers) {
  EXPECT_EQ(rounded(AxisScale({.low = 0, .high = 4, .ticks_max = 5}, 0, 100)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(rounded(AxisScale({.low = 0, .high = 2125, .ticks_max = 6}, 0, 100)), (Values{0, 500, 1000, 1500, 2000}));
  EXPECT_EQ(rounded(AxisScale({.low = 0, .high = 0.3, .ticks_max = 4}, 0, 100)), (Values{0, 0.1, 0.2, 0.3}));
}

TEST(AxisScale, GoesOnToTheNextRoundNumberWhenAsked) {
  const AxisScale open({.low = 0, .high = 2125, .round = true, .ticks_max = 6}, 0, 100);
  EXPECT_EQ(rounded(open), (Values{0, 500, 1000, 1500, 2000, 2500}));
  EXPECT_DOUBLE_EQ(open.place(1250), 50);
  // Data that end at a round number need no more room.
  EXPECT_EQ(rounded(AxisScale({.low = 0, .high = 2000, .round = true, .ticks_max = 6}, 0, 100)).back(), 2000);
}

TEST(AxisScale, MayRunDownThePaper) {
  const AxisScale scale({.low = 0, .high = 10}, 200, 0);
  EXPECT_DOUBLE_EQ(scale.place(0), 200);
  EXPECT_DOUBLE_EQ(scale.place(2.5), 150);
  EXPECT_DOUBLE_EQ(scale.place(11), 0) << "what lies outside stands at the end";
}

TEST(AxisScale, GivesEachPowerOfTenTheSameRoomWhenLogarithmic) {
  const AxisScale scale({.logarithmic = true, .low = 1, .high = 1000}, 0, 300);
  EXPECT_NEAR(scale.place(1), 0, 1e-9);
  EXPECT_NEAR(scale.place(10), 100, 1e-9);
  EXPECT_NEAR(scale.place(100), 200, 1e-9);
  EXPECT_FALSE(scale.shows(0));
  EXPECT_TRUE(scale.shows(5));
  const AxisScale round({.logarithmic = true, .low = 80, .high = 8600, .round = true}, 0, 100);
  EXPECT_NEAR(round.place(50), 0, 1e-9);
  EXPECT_NEAR(round.place(10'000), 100, 1e-9);
}

TEST(AxisScale, HasFewTicksWhateverTheRange) {
  EXPECT_EQ(logarithmic_ticks(50, 10'000, 9), (Values{50, 100, 200, 500, 1000, 2000, 5000, 10'000}));
  EXPECT_EQ(logarithmic_ticks(50, 10'000, 6), (Values{100, 1000, 10'000}));
  EXPECT_EQ(logarithmic_ticks(1, 1e8, 5).size(), 5u);
  for (const double high : {1e-6, 0.7, 3.0, 99.0, 12345.0, 7e9}) {
    for (const uint32_t most : {2u, 5u, 9u}) {
      EXPECT_LE(AxisScale({.low = 0, .high = high, .round = true, .ticks_max = most}, 0, 1).ticks().size(), most + 1) << high;
      EXPECT_GE(AxisScale({.low = 0, .high = high, .round = true, .ticks_max = most}, 0, 1).ticks().size(), 2u) << high;
    }
  }
}

}  // namespace
}  // namespace cw::load
