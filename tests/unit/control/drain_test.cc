#include "control/service/drain.h"

#include <gtest/gtest.h>

namespace cw::control {
namespace {

constexpr Instant at(int64_t ms) {
  return Instant::from_ns(ms * 1'000'000);
}

TEST(DrainWatch, IsOverWhenNoConnectionIsLeft) {
  Drain drain;
  EXPECT_EQ(drain.poll(at(0), 0), DrainNews::kNone) << "nobody drains";
  drain.start(at(10), std::nullopt);
  EXPECT_EQ(drain.state(), DrainState::kDraining);
  EXPECT_EQ(drain.poll(at(20), 3), DrainNews::kNone);
  EXPECT_EQ(drain.poll(at(1'000'000), 1), DrainNews::kNone) << "without a limit it takes as long as it takes";
  EXPECT_EQ(drain.poll(at(1'000'010), 0), DrainNews::kOver);
  EXPECT_EQ(drain.poll(at(1'000'020), 0), DrainNews::kNone) << "said once";
  EXPECT_EQ(drain.state(), DrainState::kDrained);
  EXPECT_EQ(drain.elapsed(at(2'000'000)), Duration::ms(1'000'000));
}

TEST(DrainWatch, TimeIsUpOnce) {
  Drain drain;
  drain.start(at(0), Duration::seconds(2));
  EXPECT_EQ(drain.poll(at(1999), 5), DrainNews::kNone);
  EXPECT_EQ(drain.poll(at(2000), 5), DrainNews::kTimeUp);
  EXPECT_EQ(drain.poll(at(2020), 5), DrainNews::kNone);
  EXPECT_EQ(drain.poll(at(2040), 0), DrainNews::kOver);
}

TEST(DrainWatch, ANewLimitCountsFromWhenItWasGiven) {
  Drain drain;
  drain.start(at(0), std::nullopt);
  drain.start(at(5000), Duration::seconds(1));
  EXPECT_EQ(drain.poll(at(5999), 1), DrainNews::kNone);
  EXPECT_EQ(drain.poll(at(6000), 1), DrainNews::kTimeUp);
  EXPECT_EQ(drain.elapsed(at(6000)), Duration::seconds(6));
}

TEST(DrainWatch, StoppedItBeginsAnew) {
  Drain drain;
  drain.start(at(0), Duration::seconds(1));
  drain.stop();
  EXPECT_EQ(drain.state(), DrainState::kServing);
  EXPECT_EQ(drain.poll(at(5000), 1), DrainNews::kNone);
  EXPECT_EQ(drain.elapsed(at(5000)), Duration());
  drain.start(at(6000), std::nullopt);
  EXPECT_EQ(drain.elapsed(at(6500)), Duration::ms(500));
}

}  // namespace
}  // namespace cw::control
