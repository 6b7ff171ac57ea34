#include "dataplane/burst_split.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

TEST(BurstSplit, HalvesWhatComesAfterATurnWithoutPacketsAndNothingElse) {
  BurstSplit split;
  EXPECT_EQ(split.first_part(32), 16u);
  EXPECT_EQ(split.first_part(31), 16u);
  EXPECT_EQ(split.first_part(1), 1u) << "a single frame is served at once";
  split.end_turn(true);
  EXPECT_EQ(split.first_part(32), 32u);
  split.end_turn(false);
  EXPECT_EQ(split.first_part(32), 16u);
}

}  // namespace
}  // namespace cw::dataplane
