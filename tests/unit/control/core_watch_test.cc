#include "control/service/core_watch.h"

#include <gtest/gtest.h>

#include <array>

namespace cw::control {
namespace {

constexpr Duration kTimeout = Duration::ms(2000);  // so a period of 500 ms

class CoreWatchTest : public testing::Test {
 protected:
  CoreNews after_ms(int64_t ms) { return watch_.poll(start_ + Duration::ms(ms)); }
  void turn(size_t core, uint32_t connections = 0) {
    Heartbeat& heartbeat = heartbeats_[core];
    if (heartbeat.is_asked()) {
      heartbeat.answer(connections);
    }
  }

  std::array<Heartbeat, 2> heartbeats_;
  std::array<Heartbeat*, 2> cores_ = {&heartbeats_[0], &heartbeats_[1]};
  CoreWatch watch_{cores_, kTimeout};
  Instant start_ = Instant::from_ns(7);
};

TEST_F(CoreWatchTest, ThePeriodIsAQuarterOfTheTimeoutAndAtMostASecond) {
  EXPECT_EQ(watch_.period(), Duration::ms(500));
  EXPECT_EQ(CoreWatch(cores_, Duration::seconds(30)).period(), Duration::seconds(1));
  EXPECT_EQ(CoreWatch(cores_).period(), Duration::seconds(1));
}

TEST_F(CoreWatchTest, NobodyIsAskedBeforeTheFirstPoll) {
  EXPECT_FALSE(heartbeats_[0].is_asked());
  EXPECT_EQ(after_ms(0), CoreNews::kNone);
  EXPECT_TRUE(heartbeats_[0].is_asked());
  EXPECT_TRUE(heartbeats_[1].is_asked());
}

TEST_F(CoreWatchTest, CoresThatTurnFeedTheWatchdogOncePerPeriod) {
  (void)after_ms(0);
  turn(0);
  turn(1);
  EXPECT_EQ(after_ms(499), CoreNews::kNone);
  EXPECT_EQ(after_ms(500), CoreNews::kTurning);
  turn(0);
  turn(1);
  EXPECT_EQ(after_ms(501), CoreNews::kNone);
  EXPECT_EQ(after_ms(1000), CoreNews::kTurning);
}

TEST_F(CoreWatchTest, OneCoreThatHangsIsEnoughToStarveIt) {
  (void)after_ms(0);
  turn(0);
  EXPECT_EQ(after_ms(500), CoreNews::kStalled);
  EXPECT_EQ(watch_.stalled_core(), 1U);
  EXPECT_EQ(watch_.asked_at(), start_);
  EXPECT_TRUE(watch_.is_stalled());
  for (int64_t ms = 600; ms < 10'000; ms += 100) {
    turn(0);
    EXPECT_EQ(after_ms(ms), CoreNews::kNone) << ms;  // said once, never fed
  }
}

TEST_F(CoreWatchTest, ACoreThatComesBackIsBelieved) {
  (void)after_ms(0);
  turn(0);
  EXPECT_EQ(after_ms(500), CoreNews::kStalled);
  turn(1);
  EXPECT_EQ(after_ms(4000), CoreNews::kTurning);
  EXPECT_FALSE(watch_.is_stalled());
  turn(0);
  EXPECT_EQ(after_ms(4500), CoreNews::kStalled);  // it has to answer the next question too
}

TEST_F(CoreWatchTest, ConnectionsAreThoseOfTheLastAnswers) {
  (void)after_ms(0);
  EXPECT_EQ(watch_.connections(), 0U);
  turn(0, 3);
  turn(1, 4);
  EXPECT_EQ(watch_.connections(), 7U);
}

}  // namespace
}  // namespace cw::control
