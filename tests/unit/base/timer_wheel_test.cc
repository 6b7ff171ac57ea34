#include "rocev2/base/timer_wheel.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "rocev2/base/random.h"

namespace cw {
namespace {

Instant at_us(int64_t us) {
  return Instant::from_ns(us * 1000);
}

TEST(TimerWheel, FiresAtTheDeadlineAndNotBefore) {
  TimerWheel wheel;
  TimerNode node;
  wheel.arm(node, at_us(1000));
  EXPECT_EQ(wheel.pop_expired(at_us(999)), nullptr);
  EXPECT_EQ(wheel.pop_expired(at_us(1000)), &node);
  EXPECT_FALSE(node.is_armed());
  EXPECT_EQ(wheel.pop_expired(at_us(2000)), nullptr);
}

TEST(TimerWheel, ArmingAgainMovesTheDeadline) {
  TimerWheel wheel;
  TimerNode node;
  wheel.arm(node, at_us(100));
  wheel.arm(node, at_us(500'000));
  EXPECT_EQ(wheel.pop_expired(at_us(400'000)), nullptr);
  EXPECT_EQ(wheel.pop_expired(at_us(500'100)), &node);
}

TEST(TimerWheel, DeadlineInThePastFiresAtOnce) {
  TimerWheel wheel;
  TimerNode far_node;
  TimerNode node;
  wheel.arm(far_node, at_us(900'000));
  EXPECT_EQ(wheel.pop_expired(at_us(800'000)), nullptr);
  wheel.arm(node, at_us(5));
  EXPECT_EQ(wheel.pop_expired(at_us(800'000)), &node);
  wheel.cancel(far_node);
}

TEST(TimerWheel, NextDeadlineIsALowerBound) {
  TimerWheel wheel;
  EXPECT_TRUE(wheel.next_deadline().is_never());
  TimerNode node;
  wheel.arm(node, at_us(10'000));
  EXPECT_LE(wheel.next_deadline(), at_us(10'000));
  wheel.cancel(node);
  EXPECT_TRUE(wheel.next_deadline().is_never());
}

// Against a model: every node fires once, never early, at most one step late, whatever the jumps of the clock.
TEST(TimerWheel, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    TimerWheel wheel;
    std::vector<std::unique_ptr<TimerNode>> nodes;
    for (int i = 0; i < 50; ++i) {
      nodes.push_back(std::make_unique<TimerNode>());
    }
    std::vector<Instant> wanted(nodes.size(), Instant::never());
    Instant now = at_us(1'000'000);
    for (int step = 0; step < 2000; ++step) {
      const uint32_t which = random.next_below(static_cast<uint32_t>(nodes.size()));
      if (random.next_below(4) == 0) {
        wheel.cancel(*nodes[which]);
        wanted[which] = Instant::never();
      } else {
        wanted[which] = now + Duration::us(random.next_below(300'000));
        wheel.arm(*nodes[which], wanted[which]);
      }
      now = now + Duration::us(random.next_below(random.next_below(10) == 0 ? 400'000 : 500));
      while (TimerNode* fired = wheel.pop_expired(now)) {
        size_t index = 0;
        while (nodes[index].get() != fired) {
          ++index;
        }
        EXPECT_LE(wanted[index], now) << "early, seed " << seed;
        wanted[index] = Instant::never();
      }
      for (size_t i = 0; i < nodes.size(); ++i) {
        EXPECT_GT(wanted[i], now) << "missed, seed " << seed;
      }
    }
    for (auto& node : nodes) {
      wheel.cancel(*node);
    }
  }
}

}  // namespace
}  // namespace cw
