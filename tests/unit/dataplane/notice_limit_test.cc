#include "dataplane/notice_limit.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

using gateway::ConnectionResult;

TEST(NoticeLimit, AFloodOfRefusalsHasABurstOfLinesAndThenAFewPerSecond) {
  NoticeLimit limit;
  uint32_t lines = 0;
  uint64_t left_out = 0;
  uint32_t reports = 0;
  for (uint32_t ms = 0; ms < 10'000; ++ms) {
    const Instant now = Instant() + Duration::ms(ms);
    lines += limit.admits(now, ms % 2 == 0 ? ConnectionResult::kRefusedAcl : ConnectionResult::kFailedHandshake) ? 1 : 0;
    const uint64_t more = limit.take_left_out(now);
    reports += more > 0 ? 1 : 0;
    left_out += more;
  }
  left_out += limit.take_left_out(Instant() + Duration::seconds(20));
  EXPECT_NEAR(lines, NoticeLimit::kRefusals.burst + 10 * NoticeLimit::kRefusals.per_second, 5);
  EXPECT_EQ(lines + left_out, 10'000u) << "nothing is lost without being counted";
  EXPECT_LE(reports, 10u);
}

TEST(NoticeLimit, WhoWasConnectedHasAllItsLines) {
  NoticeLimit limit;
  for (uint32_t i = 0; i < 1000; ++i) {
    for (const ConnectionResult result :
         {ConnectionResult::kAccepted, ConnectionResult::kClosedByPeer, ConnectionResult::kFailedTransport}) {
      EXPECT_TRUE(limit.admits(Instant(), result));
    }
  }
  EXPECT_EQ(limit.take_left_out(Instant() + Duration::seconds(5)), 0u);
}

}  // namespace
}  // namespace cw::dataplane
