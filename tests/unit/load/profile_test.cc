#include "apps/load/profile.h"

#include <gtest/gtest.h>

namespace cw::load {
namespace {

Profile parsed(std::string_view text) {
  Profile profile;
  std::string problem;
  EXPECT_TRUE(profile.parse(text, problem)) << problem;
  return profile;
}

TEST(Profile, OneNumberHoldsForAllTime) {
  const Profile profile = parsed("5k");
  EXPECT_TRUE(profile.is_constant());
  EXPECT_EQ(profile.at(Duration()), 5000);
  EXPECT_EQ(profile.at(Duration::seconds(1000)), 5000);
  EXPECT_EQ(profile.max(), 5000);
}

TEST(Profile, AColonIsReachedInAStraightLineAndHeld) {
  const Profile profile = parsed("1k, 10s:21k");
  EXPECT_DOUBLE_EQ(profile.at(Duration::seconds(5)), 11'000);
  EXPECT_DOUBLE_EQ(profile.at(Duration::seconds(10)), 21'000);
  EXPECT_DOUBLE_EQ(profile.at(Duration::seconds(99)), 21'000);
}

TEST(Profile, AnEqualsSignIsAJump) {
  const Profile profile = parsed("100, 500ms=200, 2s=50");
  EXPECT_EQ(profile.at(Duration::ms(499)), 100);
  EXPECT_EQ(profile.at(Duration::ms(500)), 200);
  EXPECT_EQ(profile.at(Duration::ms(1999)), 200);
  EXPECT_EQ(profile.at(Duration::seconds(2)), 50);
  EXPECT_EQ(profile.max(), 200);
}

TEST(Profile, NothingHappensBeforeAFirstJump) {
  const Profile profile = parsed("2s=50");
  EXPECT_EQ(profile.at(Duration::seconds(1)), 0);
  EXPECT_EQ(profile.at(Duration::seconds(3)), 50);
}

TEST(Profile, FindsWhereTheAreaIsReached) {
  EXPECT_EQ(parsed("10").when_area(Duration(), 5), Duration::ms(500));
  // A triangle of 10 s up to 100: half the area at 10 s / sqrt(2).
  const auto half = parsed("0, 10s:100").when_area(Duration(), 250);
  ASSERT_TRUE(half.has_value());
  EXPECT_NEAR(half->to_seconds(), 7.0710678, 1e-6);
  // Across a jump: 10 in the first second, then 100 a second.
  EXPECT_EQ(parsed("10, 1s=100").when_area(Duration(), 60), Duration::ms(1500));
  EXPECT_EQ(parsed("10, 1s=100").when_area(Duration::ms(900), 51), Duration::ms(1500));
  // Downhill and at the bottom.
  EXPECT_FALSE(parsed("10, 2s:0").when_area(Duration(), 10.5).has_value());
  EXPECT_FALSE(Profile().when_area(Duration(), 1).has_value());
}

TEST(Profile, SaysWhatIsWrongAndKeepsWhatItHad) {
  Profile profile(7);
  for (const char* text : {"", "fast", "10,20", "1, 5s:2, 3s:1", "-1", "1,,2", "10 s=3=4", "1, 5h:2"}) {
    std::string problem;
    EXPECT_FALSE(profile.parse(text, problem)) << text;
    EXPECT_NE(problem.find("write a number"), std::string::npos) << problem;
    EXPECT_EQ(profile.at(Duration()), 7);
  }
}

}  // namespace
}  // namespace cw::load
