// What a peer may ask of the device's patience with it.
#include "rnic/retry_limits.h"

#include <gtest/gtest.h>

namespace cw::rnic {
namespace {

constexpr RetryLimits kLimits{.timeout_min = 14, .retries_max = 5, .rnr_retries_max = 6};

TEST(RnicRetryLimits, TheAckTimeoutIsThePeersBetweenOursAndTheLongest) {
  EXPECT_EQ(within({.timeout = 1}, kLimits).timeout, 14);
  EXPECT_EQ(within({.timeout = 14}, kLimits).timeout, 14);
  EXPECT_EQ(within({.timeout = 17}, kLimits).timeout, 17);
  EXPECT_EQ(within({.timeout = 20}, kLimits).timeout, 20);
  EXPECT_EQ(within({.timeout = 21}, kLimits).timeout, 20);
  EXPECT_EQ(within({.timeout = 31}, kLimits).timeout, 20);
}

// It would wait for ever for the answer of a peer that is gone.
TEST(RnicRetryLimits, NeverCountsAsTheLongest) {
  EXPECT_EQ(within({.timeout = 0}, kLimits).timeout, 20);
}

TEST(RnicRetryLimits, RetriesAreTheFewerOfThePeersAndOurs) {
  EXPECT_EQ(within({.retries = 7}, kLimits).retries, 5);
  EXPECT_EQ(within({.retries = 2}, kLimits).retries, 2);
  EXPECT_EQ(within({.rnr_retries = 7}, kLimits).rnr_retries, 6);
  EXPECT_EQ(within({.rnr_retries = 0}, kLimits).rnr_retries, 0);
}

TEST(RnicRetryLimits, OursBeyondTheLongestAreTheLongest) {
  EXPECT_EQ(within({.timeout = 3}, {.timeout_min = 25}).timeout, 20);
}

}  // namespace
}  // namespace cw::rnic
