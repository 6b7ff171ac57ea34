// Several backends share the table of calls: one that does not answer leaves room to the others, and one alone gets most of it.
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

constexpr uint32_t kCalls = 64;         // of the table
constexpr uint32_t kOfOneBackend = 52;  // four times as many as are left, and the first of those
constexpr uint32_t kOfOneClient = 60;   // all but a sixteenth, which is kept for other clients

// Connections to each listener in turn. Those of one want more calls than there are, even with a quarter of their credits, which
// is what a gateway short of slots grants.
WorldOptions crowd(uint16_t listeners) {
  WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.backends = listeners;
  options.gateway_ports = listeners;
  options.own_backends = true;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 100;
  options.load.services = listeners;
  options.load.connections = 64u * listeners;
  options.load.window = 4;
  options.connections_max = options.load.connections;
  options.calls_in_flight_max = kCalls;
  return options;
}

// When clients have been granted their credits, some backends hang.
void hang(World& world, uint32_t backends) {
  world.start();
  ASSERT_TRUE(world.run_calls(1'000));
  world.server->backend.silent_backends = backends;
  world.run_for(Duration::ms(100));
}

TEST(BackendShares, ABackendThatHangsLeavesCallsToTheOthers) {
  World world(crowd(2));
  hang(world, 1);
  EXPECT_GT(stats_of(world, 0).calls_in_flight, kCalls / 4);
  EXPECT_LE(stats_of(world, 0).calls_in_flight, kOfOneBackend);
  const uint64_t before = stats_of(world, 1).replies;
  world.run_for(Duration::ms(100));
  EXPECT_GT(stats_of(world, 1).replies, before + 1'000);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 128u);
}

// Each of those that hang has four times what they leave together, of which a sixteenth of all is kept for other clients: three
// calls at a time are left to the third.
TEST(BackendShares, TwoThatHangLeaveCallsToTheThird) {
  World world(crowd(3));
  hang(world, 3);
  EXPECT_LE(stats_of(world, 0).calls_in_flight + stats_of(world, 1).calls_in_flight, kCalls * 8 / 9 + 1);
  const uint64_t before = stats_of(world, 2).replies;
  world.run_for(Duration::ms(100));
  EXPECT_GT(stats_of(world, 2).replies, before + 300);
}

TEST(BackendShares, TheOnlyOneOfTheOnlyClientLeavesASixteenth) {
  World world(crowd(1));
  hang(world, 1);
  EXPECT_EQ(stats_of(world, 0).calls_in_flight, kOfOneClient);
}

// The others' clients want nothing.
TEST(BackendShares, AloneItGetsMost) {
  WorldOptions options = crowd(2);
  options.load.services = 1;
  World world(options);
  hang(world, 1);
  EXPECT_EQ(stats_of(world, 0).calls_in_flight, kOfOneBackend);
}

TEST(BackendShares, WhatItHeldIsTheOthersWhenItAnswers) {
  WorldOptions options = crowd(2);
  options.load.connections = 64;
  World world(options);
  world.server->backend.slow_backends = 1;
  world.server->backend.slow_by = Duration::ms(20);
  world.start();
  ASSERT_TRUE(world.run_calls(5'000));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_GT(stats_of(world, 0).replies, 0u);
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
