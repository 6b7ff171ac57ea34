// The gateway empties itself: no call fails, none is executed twice, and clients under load find their way back.
#include <gtest/gtest.h>

#include "tests/unit/gateway/gateway_on_fake.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::BackendRequest;
using gateway::ConnectionResult;
using gateway::kAlice;
using gateway::kBob;
using gateway::LinkId;
using load::BenchProcedure;
using verbs::ConnectionId;

WorldOptions busy(BenchProcedure operation, uint32_t bytes, uint32_t connections) {
  WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.window = 8;
  options.load.connections = connections;
  options.load.reconnect = true;
  options.connections_max = connections;
  return options;
}

// Everything that is not a right answer; connections refused and lost are what a drain is about.
uint64_t failed_calls(const World& world) {
  const load::LoadStats& stats = world.peer->driver.stats();
  return std::accumulate(stats.failed.begin(), stats.failed.end(), stats.wrong);
}

bool is_empty(World& world) {
  return world.server->gateway.stats().connections_open == 0;
}

// Drains a gateway whose connections are all busy, takes the load back, and lets it finish.
void expect_drains(const WorldOptions& options, uint64_t calls) {
  World world(options);
  world.start();
  const auto all_connected = [&](World& w) { return w.peer->driver.connected() == options.load.connections; };
  ASSERT_TRUE(world.run_until(Duration::seconds(60), all_connected));
  ASSERT_TRUE(world.run_calls(calls));
  world.server->gateway.drain(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(10), is_empty));
  EXPECT_EQ(ended(world, ConnectionResult::kDrained), options.load.connections);
  EXPECT_EQ(world.server->gateway.stats().orphaned_calls, 0u) << "a call was with the backend when its connection ended";
  EXPECT_EQ(world.server->gateway.stats().replies_unmatched, 0u);
  world.run_for(Duration::seconds(2));
  EXPECT_EQ(world.server->backend.open_count(), 0u);
  EXPECT_TRUE(is_empty(world)) << "a draining gateway took a connection";
  EXPECT_GT(ended(world, ConnectionResult::kRefusedDraining), 0u);
  EXPECT_EQ(failed_calls(world), 0u);
  // The clients ask again in step. Between two attempts all come back together, and none has to be waited for under full load.
  uint64_t refused = 0;
  while (refused != ended(world, ConnectionResult::kRefusedDraining)) {
    refused = ended(world, ConnectionResult::kRefusedDraining);
    world.run_for(Duration::ms(10));
  }
  world.server->gateway.end_drain(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(60), all_connected));
  ASSERT_TRUE(world.run_calls(calls));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.waiting_to_resend(), 0u);
  EXPECT_EQ(failed_calls(world), 0u);
  EXPECT_EQ(ended(world, ConnectionResult::kClosedByUs), 0u);
}

TEST(DrainOnAWire, NoCallFailsWhateverItCarries) {
  for (const BenchProcedure operation :
       {BenchProcedure::kNull, BenchProcedure::kEcho, BenchProcedure::kSource, BenchProcedure::kSink}) {
    for (const uint32_t bytes : {0u, 3000u, 70'001u}) {
      if (operation != BenchProcedure::kNull || bytes == 0) {
        SCOPED_TRACE(testing::Message() << load::to_string(operation) << " " << bytes);
        expect_drains(busy(operation, bytes, 5), 200);
      }
    }
  }
}

TEST(DrainOnAWire, AThousandBusyConnectionsEndWithoutAFailedCall) {
  WorldOptions options = busy(BenchProcedure::kEcho, 512, 1000);
  options.credits = 8;
  options.reverse_credits = 0;
  options.connections_over = 3000;
  options.load.window = 4;
  options.packet_buffers = 65'536;
  options.large_buffers = 8 * 1000;
  expect_drains(options, 10'000);
}

TEST(DrainOnAWire, AnswersOnTheirWayAreWaitedForWhenPacketsAreLost) {
  WorldOptions options = busy(BenchProcedure::kEcho, 3000, 8);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    options.seed = seed;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(200));
    world.link.faults.loss = 50;
    ASSERT_TRUE(world.run_calls(100));
    world.server->gateway.drain(world.now);
    ASSERT_TRUE(world.run_until(Duration::seconds(30), is_empty)) << seed;
    EXPECT_EQ(ended(world, ConnectionResult::kDrained), 8u) << seed;
    world.link.faults = {};
    world.server->gateway.end_drain(world.now);
    ASSERT_TRUE(world.run_calls(100)) << seed;
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(failed_calls(world), 0u) << seed;
  }
}

class Drain : public gateway::GatewayOnAFakeTransport {};

// The backend keeps what it was sent: only a time limit ends such a drain.
TEST_F(Drain, ASilentBackendIsWaitedForUntilToldOtherwise) {
  start();
  const Opened opened = open(kAlice);
  call(opened.id, 1);
  expect_forwarded(opened.link, 1);
  gateway->drain(now);
  for (int i = 0; i < 30; ++i) {
    turn(Duration::ms(100));
  }
  EXPECT_EQ(open_count(), 1u);
  EXPECT_EQ(transport.at(opened.id).disconnects, 0u);
  gateway->close_all(now);
  EXPECT_EQ(open_count(), 0u);
  expect_disconnected(opened.id, ConnectionResult::kClosedByUs);
  EXPECT_EQ(ended(ConnectionResult::kDrained), 0u);
}

TEST_F(Drain, IdleConnectionsEndAtOnce) {
  start();
  const Opened idle[] = {open(kAlice), open(kBob)};
  expect_served(idle[0], 1);
  gateway->drain(now);
  EXPECT_EQ(open_count(), 0u);
  EXPECT_EQ(ended(ConnectionResult::kDrained), 2u);
  for (const Opened& opened : idle) {
    EXPECT_EQ(transport.at(opened.id).disconnects, 1u);
  }
}

TEST_F(Drain, StoppedInTimeItCostsNothing) {
  start();
  const Opened opened = open(kAlice);
  call(opened.id, 1);
  expect_forwarded(opened.link, 1);
  gateway->drain(now);
  EXPECT_TRUE(gateway->is_draining());
  call(opened.id, 2);
  turn(Duration::ms(50));
  expect_no_request();
  gateway->end_drain(now);
  EXPECT_FALSE(gateway->is_draining());
  expect_forwarded(opened.link, 2);
  worker_replies(opened.link, 1);
  expect_replied(opened.id, 1);
  EXPECT_EQ(open_count(), 1u);
  EXPECT_EQ(transport.at(ask(kBob)).rejected, std::nullopt);
}

// A client whose backend connection is still being made has calls that wait, and none that was taken.
TEST_F(Drain, ConnectionsThatAreBeingMadeEndAtOnce) {
  start();
  const ConnectionId id = ask(kAlice);
  confirm(id);
  const LinkId link = expect_request(BackendRequest::Kind::kOpen);
  call(id, 1);
  expect_no_request();
  ASSERT_EQ(open_count(), 1u);
  gateway->drain(now);
  expect_disconnected(id, ConnectionResult::kDrained);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), link);
  expect_no_request();
  EXPECT_EQ(open_count(), 0u);
  EXPECT_EQ(gateway->rpcrdma_stats().credits_granted, 0u);
  EXPECT_EQ(gateway->slots_in_use(), 0u);
}

}  // namespace
}  // namespace cw::sim
