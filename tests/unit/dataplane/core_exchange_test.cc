#include "dataplane/core_exchange.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>

namespace cw::dataplane {
namespace {

// Frames here are numbers in the clothes of addresses: nobody looks behind them, and all are taken out again.
rte_mbuf* number(uint64_t value) {
  return reinterpret_cast<rte_mbuf*>(value * alignof(rte_mbuf));
}
uint64_t number_of(const CoreExchange::Frame& frame) {
  return reinterpret_cast<uint64_t>(frame.mbuf) / alignof(rte_mbuf);
}

bool is_woken(const Wakeup& wakeup) {
  pollfd polled{wakeup.fd(), POLLIN, 0};
  return poll(&polled, 1, 0) == 1;
}

TEST(CoreExchange, BringsFramesInOrderToTheCoreThatTheyAreFor) {
  std::array<Wakeup, 3> wakeups;
  CoreExchange exchange({&wakeups[0], &wakeups[1], &wakeups[2]});
  ASSERT_TRUE(exchange.give_received(0, 2, {number(1), 5, 0}));
  ASSERT_TRUE(exchange.give_received(0, 2, {number(2), 6, 0}));
  ASSERT_TRUE(exchange.give_received(1, 2, {number(3), 7, 0}));
  std::array<CoreExchange::Frame, 4> out;
  EXPECT_EQ(exchange.take_received(0, 1, out), 0u);
  EXPECT_EQ(exchange.take_received(1, 0, out), 0u);
  EXPECT_EQ(exchange.take_received(2, 2, out), 0u) << "a core gives itself nothing";
  ASSERT_EQ(exchange.take_received(2, 0, out), 2u);
  EXPECT_EQ(number_of(out[0]), 1u);
  EXPECT_EQ(out[0].port, 5u);
  EXPECT_EQ(number_of(out[1]), 2u);
  ASSERT_EQ(exchange.take_received(2, 1, out), 1u);
  EXPECT_EQ(number_of(out[0]), 3u);
}

TEST(CoreExchange, KeepsWhatIsToBeSentAndMessagesApart) {
  std::array<Wakeup, 2> wakeups;
  CoreExchange exchange({&wakeups[0], &wakeups[1]});
  ASSERT_TRUE(exchange.give_to_send(0, 1, {number(1), 0, 0}));
  gateway::CoreMessage message;
  message.xid = 77;
  ASSERT_TRUE(exchange.give_message(0, 1, message));
  std::array<CoreExchange::Frame, 1> frames;
  EXPECT_EQ(exchange.take_received(1, 0, frames), 0u);
  EXPECT_TRUE(exchange.has_input(1));
  EXPECT_FALSE(exchange.has_input(0));
  CoreExchange::Frame frame;
  ASSERT_TRUE(exchange.take_to_send(1, 0, frame));
  EXPECT_EQ(number_of(frame), 1u);
  EXPECT_FALSE(exchange.take_to_send(1, 0, frame));
  message.xid = 0;
  ASSERT_TRUE(exchange.take_message(1, 0, message));
  EXPECT_EQ(message.xid, 77u);
  EXPECT_FALSE(exchange.has_input(1));
}

TEST(CoreExchange, AFullRingLeavesTheFrameToWhoeverGives) {
  std::array<Wakeup, 2> wakeups;
  CoreExchange exchange({&wakeups[0], &wakeups[1]});
  uint64_t given = 0;
  while (given < 100'000 && exchange.give_received(0, 1, {number(given + 1), 0, 0})) {
    ++given;
  }
  EXPECT_GE(given, 1000u);
  EXPECT_LT(given, 100'000u);
  EXPECT_TRUE(exchange.give_received(1, 0, {number(1), 0, 0})) << "the other direction has a ring of its own";
  std::array<CoreExchange::Frame, 64> out;
  uint64_t taken = 0;
  while (const uint32_t count = exchange.take_received(1, 0, out)) {
    taken += count;
  }
  EXPECT_EQ(taken, given);
  EXPECT_EQ(exchange.take_received(0, 1, out), 1u);
}

TEST(CoreExchange, WakesASleepingCoreOncePerKick) {
  std::array<Wakeup, 3> wakeups;
  CoreExchange exchange({&wakeups[0], &wakeups[1], &wakeups[2]});
  wakeups[1].prepare();
  wakeups[2].prepare();
  ASSERT_TRUE(exchange.give_received(0, 1, {number(1), 0, 0}));
  EXPECT_FALSE(is_woken(wakeups[1])) << "the turn goes on";
  exchange.kick(0);
  EXPECT_TRUE(is_woken(wakeups[1]));
  EXPECT_FALSE(is_woken(wakeups[2]));
  wakeups[1].awake(true);
  wakeups[1].prepare();
  exchange.kick(0);
  EXPECT_FALSE(is_woken(wakeups[1])) << "nothing new";
  std::array<CoreExchange::Frame, 1> out;
  EXPECT_EQ(exchange.take_received(1, 0, out), 1u);
}

// For the sanitizer, and for order: two cores give each other numbers at once.
TEST(CoreExchange, TwoCoresAtOnce) {
  constexpr uint64_t kFrames = 20'000;
  std::array<Wakeup, 2> wakeups;
  CoreExchange exchange({&wakeups[0], &wakeups[1]});
  std::array<bool, 2> in_order{true, true};
  const auto core = [&](uint32_t own) {
    uint64_t given = 0;
    uint64_t taken = 0;
    while (given < kFrames || taken < kFrames) {
      if (given < kFrames && exchange.give_received(own, 1 - own, {number(given + 1), 0, 0})) {
        ++given;
      }
      exchange.kick(own);
      std::array<CoreExchange::Frame, 8> out;
      const uint32_t count = exchange.take_received(own, 1 - own, out);
      for (uint32_t i = 0; i < count; ++i) {
        in_order[own] = in_order[own] && number_of(out[i]) == ++taken;
      }
      if (count == 0) {
        std::this_thread::yield();
      }
    }
  };
  std::thread other([&] { core(1); });
  core(0);
  other.join();
  EXPECT_TRUE(in_order[0]);
  EXPECT_TRUE(in_order[1]);
}

}  // namespace
}  // namespace cw::dataplane
