// Both directions at once over a simulated link (RFC 8167): a backend that calls its clients back, real gateway, real client.
#include <gtest/gtest.h>

#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::ReverseDrop;
using load::BenchProcedure;

WorldOptions callback_options(uint32_t bytes, gateway::BackendKind backend = gateway::BackendKind::kTcp) {
  WorldOptions options;
  options.load.operation = BenchProcedure::kCallback;
  options.load.bytes = bytes;
  options.load.window = 8;
  options.backend = backend;
  return options;
}

uint64_t dropped(const World& world, ReverseDrop reason) {
  return world.server->gateway.stats().reverse_calls_dropped[static_cast<size_t>(reason)];
}
uint64_t dropped(const World& world) {
  uint64_t sum = 0;
  for (const uint64_t count : world.server->gateway.stats().reverse_calls_dropped) {
    sum += count;
  }
  return sum;
}

bool finish_both(World& world) {
  return world.finish() && world.run_until(Duration::seconds(30), [](World& w) {
    return w.server->backend.callbacks_pending() == 0 && w.server->gateway.rpcrdma_stats().reverse_credits_in_use == 0;
  });
}

// The load's calls and the backend's use the same XIDs at the same time.
// Proves BIDI-1-2, BIDI-1-3, BIDI-2.3-1, BIDI-2.4.1-1, BIDI-2.4.1-2, BIDI-4-2, BIDI-7-3
TEST(Reverse, CallsOfTheBackendAreAnsweredByTheClient) {
  for (const uint32_t bytes : {0u, 101u, 3900u}) {
    for (const uint32_t mtu : {256u, 4096u}) {
      WorldOptions options = callback_options(bytes);
      options.path_mtu = mtu;
      World world(options);
      world.start();
      ASSERT_TRUE(world.run_calls(200)) << bytes << " mtu " << mtu;
      ASSERT_TRUE(finish_both(world)) << bytes << " mtu " << mtu;
      const SimBackend::CallbackStats& callbacks = world.server->backend.callbacks();
      EXPECT_GT(callbacks.sent, 100u);
      EXPECT_EQ(callbacks.right, callbacks.sent) << bytes << " mtu " << mtu;
      EXPECT_EQ(callbacks.wrong, 0u);
      EXPECT_EQ(dropped(world), 0u);
      EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
      EXPECT_EQ(world.peer->driver.stats().called_back, callbacks.sent);
      EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
      expect_nothing_left(world);
    }
  }
}

TEST(Reverse, BuiltinProgramsCallBackToo) {
  World world(callback_options(500, gateway::BackendKind::kBuiltin));
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  ASSERT_TRUE(finish_both(world));
  EXPECT_GE(world.server->gateway.stats().reverse_replies, 200u);
  EXPECT_EQ(world.server->gateway.stats().reverse_replies, world.server->gateway.stats().reverse_calls);
  EXPECT_EQ(dropped(world), 0u);
  expect_nothing_left(world);
}

// Proves BIDI-4.1-2, BIDI-4.1-5, BIDI-4.1-6
TEST(Reverse, DescribeShowsBothDirectionsCredits) {
  WorldOptions options = callback_options(10);
  options.load.window = 5;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(finish_both(world));
  gateway::ConnectionInfo info;
  ASSERT_EQ(world.server->gateway.describe(world.now, {&info, 1}), 1u);
  EXPECT_EQ(info.credits_granted, 64u);
  EXPECT_EQ(info.reverse_credits_granted, 5u);
  EXPECT_EQ(info.reverse_calls_in_flight, 0u);
}

// Proves BIDI-6-6, BIDI-6-8
TEST(Reverse, ABackendThatCallsUnaskedIsAnsweredByTheGateway) {
  WorldOptions options = callback_options(10);
  options.load.operation = BenchProcedure::kEcho;
  World world(options);
  world.server->backend.talks_nonsense = true;
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  ASSERT_TRUE(world.finish());
  EXPECT_GT(dropped(world, ReverseDrop::kNotEnabled), 20u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().reverse_calls, 0u);
  EXPECT_EQ(world.peer->client.rpcrdma_stats().reverse_dropped, 0u);
  expect_nothing_left(world);
}

TEST(Reverse, AGatewayWithoutReverseCreditsRefusesForTheClient) {
  WorldOptions options = callback_options(10);
  options.reverse_credits = 0;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(finish_both(world));
  EXPECT_EQ(world.server->backend.callbacks().refused, world.server->backend.callbacks().sent);
  EXPECT_EQ(dropped(world, ReverseDrop::kNotEnabled), world.server->backend.callbacks().sent);
  expect_nothing_left(world);
}

// Proves BIDI-4.2-2, BIDI-5.3-7
TEST(Reverse, ACallLongerThanAMessageIsRefusedAndNotSent) {
  World world(callback_options(4096));
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(finish_both(world));
  EXPECT_EQ(world.server->backend.callbacks().refused, world.server->backend.callbacks().sent);
  EXPECT_EQ(dropped(world, ReverseDrop::kTooLong), world.server->backend.callbacks().sent);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().reverse_calls, 0u);
  expect_nothing_left(world);
}

// Many calls wait for few credits, in either direction: neither stops the other.
// Proves BIDI-4.1-1, BIDI-4.1-3
TEST(Reverse, OneCreditOneWayDoesNotStallTheOther) {
  WorldOptions options = callback_options(64);
  options.load.window = 24;
  options.reverse_credits = 1;
  World narrow(options);
  narrow.start();
  ASSERT_TRUE(narrow.run_calls(1000));
  ASSERT_TRUE(finish_both(narrow));
  EXPECT_EQ(narrow.server->backend.callbacks().right + narrow.server->backend.callbacks().refused,
            narrow.server->backend.callbacks().sent);
  EXPECT_GT(narrow.server->backend.callbacks().right, 100u);
  options.reverse_credits = 16;
  options.credits = 1;
  World other(options);
  other.start();
  ASSERT_TRUE(other.run_calls(300));
  ASSERT_TRUE(finish_both(other));
  EXPECT_EQ(other.server->backend.callbacks().right, other.server->backend.callbacks().sent);
}

// Proves BIDI-5.4-8, BIDI-2.2-2, BIDI-6-3, BIDI-4.3.2-3
TEST(Reverse, EachConnectionStartsAnew) {
  WorldOptions options = callback_options(64);
  options.load.reconnect = true;
  World world(options);
  world.server->backend.close_after_calls = 50;
  world.start();
  ASSERT_TRUE(world.run_calls(300));
  EXPECT_GT(world.peer->driver.stats().lost, 3u);
  world.server->backend.close_after_calls = 0;
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(finish_both(world));
  EXPECT_EQ(world.server->backend.callbacks().wrong, 0u);
  EXPECT_EQ(dropped(world), 0u);
  expect_nothing_left(world);
}

// Loss, duplication, reordering and corruption on the wire while both directions are busy, then none.
// Proves BIDI-5-2, BIDI-4-2
TEST(Reverse, BothDirectionsAreAnsweredRightlyUnderFaults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    WorldOptions options = callback_options(random.next_below(3000));
    options.seed = seed;
    options.path_mtu = 256u << random.next_below(5);
    options.load.connections = 1 + random.next_below(4);
    options.load.window = 1 + random.next_below(16);
    options.load.reconnect = true;
    options.credits = 1 + random.next_below(32);
    options.reverse_credits = 1 + random.next_below(16);
    options.backend = random.next_below(3) == 0 ? gateway::BackendKind::kBuiltin : gateway::BackendKind::kTcp;
    World world(options);
    world.link.faults = {.loss = random.next_below(30),
                         .duplicate = random.next_below(30),
                         .reorder = random.next_below(30),
                         .corrupt = random.next_below(10),
                         .mark = random.next_below(10),
                         .jitter = Duration::us(1 + random.next_below(20))};
    world.start();
    ASSERT_TRUE(world.run_calls(100, Duration::seconds(300))) << "seed " << seed;
    world.link.faults = {};
    ASSERT_TRUE(world.run_calls(50, Duration::seconds(30))) << "seed " << seed;
    ASSERT_TRUE(finish_both(world)) << "seed " << seed;
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u) << "seed " << seed;
    EXPECT_EQ(world.server->backend.callbacks().wrong, 0u) << "seed " << seed;
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u) << "seed " << seed;
    EXPECT_EQ(world.peer->client.rpcrdma_stats().credit_violations, 0u) << "seed " << seed;
    expect_nothing_left(world);
  }
}

}  // namespace
}  // namespace cw::sim
