#include "base/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"

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

TEST(TimerWheel, DeadlineThatMovedAwayComesBack) {
  TimerWheel wheel;
  TimerNode node;
  TimerNode other;
  EXPECT_EQ(wheel.pop_expired(at_us(0)), nullptr);
  wheel.arm(other, at_us(60'000));
  for (int64_t t = 0; t < 50'000; t += 500) {
    wheel.arm(node, at_us(t + 200));         // a request has gone
    wheel.arm(node, at_us(t + 30'000'000));  // and been acknowledged
    EXPECT_EQ(wheel.next_deadline(), at_us(60'000)) << t;
    EXPECT_EQ(wheel.pop_expired(at_us(t + 400)), nullptr) << t;
  }
  wheel.arm(node, at_us(50'300));
  EXPECT_EQ(wheel.next_deadline(), at_us(50'300));
  EXPECT_EQ(wheel.pop_expired(at_us(50'299)), nullptr);
  EXPECT_EQ(wheel.pop_expired(at_us(50'300)), &node);
  wheel.cancel(other);
}

TEST(TimerWheel, DisarmedNodeNeverFiresAndIsNotCounted) {
  TimerWheel wheel;
  TimerNode node;
  EXPECT_EQ(wheel.pop_expired(at_us(0)), nullptr);
  wheel.arm(node, at_us(300));
  wheel.arm(node, Instant::never());
  EXPECT_FALSE(node.is_armed());
  EXPECT_EQ(wheel.armed_count(), 0U);
  EXPECT_TRUE(wheel.next_deadline().is_never());
  EXPECT_EQ(wheel.pop_expired(at_us(100'000)), nullptr);
  wheel.arm(node, at_us(100'001));
  EXPECT_EQ(wheel.armed_count(), 1U);
  EXPECT_EQ(wheel.pop_expired(at_us(100'001)), &node);
}

// A node's place goes to the next one; the wheel may go before its nodes.
TEST(TimerWheel, PlacesAreUsedAgain) {
  TimerNode left_over;
  TimerWheel wheel(2);
  for (int64_t round = 1; round < 10; ++round) {
    TimerNode first;
    TimerNode second;
    wheel.arm(first, at_us(1000 * round));
    wheel.arm(second, at_us(1000 * round + 1));
    EXPECT_EQ(wheel.pop_expired(at_us(1000 * round)), &first);
    wheel.cancel(second);
    EXPECT_EQ(wheel.pop_expired(at_us(1000 * round + 500)), nullptr);
  }
  wheel.arm(left_over, at_us(20'000));
  EXPECT_EQ(wheel.armed_count(), 1U);
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

// Else a poll core that waits for a deadline spins through its whole tick.
TEST(TimerWheel, NextDeadlineIsExactWithinATurn) {
  TimerWheel wheel;
  TimerNode near;
  TimerNode nearer;
  wheel.arm(near, at_us(10'060));
  wheel.arm(nearer, at_us(10'055));
  EXPECT_EQ(wheel.next_deadline(), at_us(10'055));
  EXPECT_EQ(wheel.pop_expired(at_us(10'050)), nullptr);
  EXPECT_EQ(wheel.next_deadline(), at_us(10'055));
  EXPECT_EQ(wheel.pop_expired(at_us(10'055)), &nearer);
  EXPECT_EQ(wheel.next_deadline(), at_us(10'060));
  wheel.cancel(near);
}

// Else it spins whenever the wheel's hand passes a timer that is seconds away.
TEST(TimerWheel, NextDeadlineSeesPastNodesOfLaterTurns) {
  constexpr int64_t kTurnUs = 65536 * 1024 / 1000;
  TimerWheel wheel;
  TimerNode later;
  TimerNode next;
  EXPECT_EQ(wheel.pop_expired(at_us(1'000)), nullptr);
  wheel.arm(later, at_us(2'000 + 20 * kTurnUs));
  wheel.arm(next, at_us(40'000));
  EXPECT_EQ(wheel.next_deadline(), at_us(40'000));
  wheel.cancel(later);
  wheel.cancel(next);
}

TEST(TimerWheel, NextDeadlineStaysABoundOnACrowdedWheel) {
  TimerWheel wheel;
  std::vector<TimerNode> nodes(1000);
  for (size_t i = 0; i < nodes.size(); ++i) {
    wheel.arm(nodes[i], at_us(10'060 - static_cast<int64_t>(i % 7)));
  }
  EXPECT_LE(wheel.next_deadline(), at_us(10'054));
  EXPECT_GT(wheel.next_deadline(), at_us(9'900));
  for (TimerNode& node : nodes) {
    wheel.cancel(node);
  }
}

// A nearer deadline moves the search back, or a shell would sleep through it.
TEST(TimerWheel, NextDeadlineHoldsWhenANearerNodeFollowsAFarOne) {
  TimerWheel wheel;
  TimerNode far_node;
  TimerNode node;
  wheel.arm(far_node, at_us(67'000));
  wheel.arm(node, at_us(1000));
  EXPECT_LE(wheel.next_deadline(), at_us(1000));
  EXPECT_EQ(wheel.pop_expired(at_us(1000)), &node);
  wheel.arm(node, at_us(2000));
  EXPECT_LE(wheel.next_deadline(), at_us(2000));
  EXPECT_EQ(wheel.pop_expired(at_us(70'000)) != nullptr, true);
  EXPECT_EQ(wheel.pop_expired(at_us(70'000)) != nullptr, true);
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
      const Instant first = *std::min_element(wanted.begin(), wanted.end());
      EXPECT_LE(wheel.next_deadline(), first) << "seed " << seed;
      if (first - now < Duration::ms(67)) {
        EXPECT_EQ(wheel.next_deadline(), first) << "seed " << seed;
      }
    }
    for (auto& node : nodes) {
      wheel.cancel(*node);
    }
  }
}

}  // namespace
}  // namespace cw
