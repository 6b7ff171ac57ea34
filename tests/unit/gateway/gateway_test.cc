// The whole gateway against the whole client, over a simulated link.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/rc_info.h"
#include "tests/support/sanitized.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;

WorldOptions options_for(BenchProcedure operation, uint32_t bytes) {
  WorldOptions options;
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.window = 8;
  return options;
}

TEST(Gateway, AnswersEveryOperationAndSizeOverEveryMtu) {
  for (const uint32_t mtu : {256u, 1024u, 4096u}) {
    for (const BenchProcedure operation :
         {BenchProcedure::kNull, BenchProcedure::kEcho, BenchProcedure::kSource, BenchProcedure::kSink}) {
      for (const uint32_t bytes : {0u, 1u, 63u, 1001u, 4000u, 4096u, 70'001u}) {
        if (operation == BenchProcedure::kNull && bytes > 0) {
          continue;
        }
        WorldOptions options = options_for(operation, bytes);
        options.path_mtu = mtu;
        World world(options);
        world.start();
        ASSERT_TRUE(world.run_calls(50)) << load::to_string(operation) << " " << bytes << " mtu " << mtu;
        ASSERT_TRUE(world.finish());
        EXPECT_EQ(failures(world.peer->driver.stats()), 0u) << load::to_string(operation) << " " << bytes << " mtu " << mtu;
        expect_nothing_left(world);
      }
    }
  }
}

TEST(Gateway, MovesAMegabyteThroughChunksAndCountsItByList) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 1'048'577);
  options.load.window = 2;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(4));
  ASSERT_TRUE(world.finish());
  const uint64_t calls = world.peer->driver.stats().calls;
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  const auto& chunks = world.server->gateway.rpcrdma_stats().chunks;
  EXPECT_EQ(chunks[static_cast<size_t>(rpcrdma::ChunkKind::kRead)].bytes, calls * 1'048'577);
  EXPECT_EQ(chunks[static_cast<size_t>(rpcrdma::ChunkKind::kWrite)].bytes, calls * 1'048'577);
  EXPECT_EQ(chunks[static_cast<size_t>(rpcrdma::ChunkKind::kReply)].bytes, 0u);
  expect_nothing_left(world);
}

TEST(Gateway, ServesIpv6AndVlan) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 9000);
  options.ipv6 = true;
  options.vlan = 42;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

TEST(Gateway, WorksWithPeersThatNegotiateNothing) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 3000);
  options.load.inline_bytes = 1024;
  options.remote_invalidate = false;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().remote_invalidations, 0u);
  expect_nothing_left(world);
}

// Proves RPCRDMA-4-3.
TEST(Gateway, ForwardsToABackendAndMatchesRepliesByXid) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 20'000);
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->backend.open_count(), 1u);
  EXPECT_EQ(world.server->gateway.stats().replies_unmatched, 0u);
  EXPECT_EQ(world.server->gateway.stats().backends[0].calls_in_flight, 0u);
  expect_nothing_left(world);
  EXPECT_EQ(world.server->backend.open_count(), 0u);
}

TEST(Gateway, RunsProgramsOnWorkers) {
  WorldOptions options = options_for(BenchProcedure::kSource, 20'000);
  options.run_on_workers = true;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.stats().backends[0].calls_in_flight, 0u);
  expect_nothing_left(world);
}

// The first client finds out, by a connection that ends at once; those after it are told by REJ, for a second. Then the next one
// tries again, and so on until one gets through.
TEST(Gateway, RejectsConnectionsWhenTheBackendIsKnownToBeDown) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  options.load.reconnect = true;
  World world(options);
  const gateway::GatewayStats& stats = world.server->gateway.stats();
  world.server->backend.refuses = true;
  world.start();
  ASSERT_TRUE(world.run_until(Duration::ms(500), [](World& w) { return w.peer->driver.stats().refused > 0; }));
  EXPECT_EQ(world.peer->driver.stats().lost, 1u);
  EXPECT_EQ(world.peer->driver.last_rejection().reason, verbs::RejectReason::kRefused);
  EXPECT_EQ(stats.backends[0].open_failures, 1u);
  EXPECT_EQ(stats.backends[0].up, 0u);
  world.run_for(Duration::ms(3200));
  EXPECT_GT(stats.backends[0].open_failures, 1u);
  EXPECT_LE(stats.backends[0].open_failures, 4u);
  EXPECT_EQ(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kRefusedBackend)],
            world.peer->driver.stats().lost + world.peer->driver.stats().refused);
  EXPECT_EQ(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kAccepted)], 0u);
  EXPECT_EQ(stats.connections_open, 0u);
  world.server->backend.refuses = false;
  EXPECT_TRUE(world.run_until(Duration::seconds(2), [](World& w) { return w.peer->driver.stats().calls > 10; }));
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

// A server may refuse one client's address, or have no way back to it: whoever comes again and again keeps nobody else out.
TEST(Gateway, AFailureToConnectFromAClientsAddressRejectsNobody) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  options.backend_from_client = true;
  options.load.reconnect = true;
  World world(options);
  const gateway::GatewayStats& stats = world.server->gateway.stats();
  world.server->backend.refuses = true;
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(2), [](World& w) { return w.peer->driver.stats().lost >= 3; }));
  EXPECT_EQ(world.peer->driver.stats().refused, 0u);
  EXPECT_EQ(stats.backends[0].open_failures, 3u);
  EXPECT_EQ(stats.backends[0].up, 0u);
  // Another core found the same.
  world.server->gateway.on_core_message(world.now, {.kind = gateway::CoreMessage::Kind::kBackendUp, .index = 0, .value = 0});
  world.server->backend.refuses = false;
  ASSERT_TRUE(world.run_calls(10));
  EXPECT_EQ(world.peer->driver.stats().refused, 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

// The calls that come meanwhile wait in their endpoint.
TEST(Gateway, ConnectionsWaitWhileTheBackendIsSlow) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.server->backend.open_delay = Duration::seconds(3);
  world.start();
  world.run_for(Duration::seconds(2));
  EXPECT_EQ(world.peer->driver.connected(), 1u);
  EXPECT_EQ(world.peer->driver.stats().calls, 0u);
  ASSERT_TRUE(world.run_calls(10));
  EXPECT_EQ(world.peer->driver.stats().refused + world.peer->driver.stats().lost, 0u);
}

// Nothing comes back on the connection, not even the completion of a SEND: only the client's own clock can end the call.
// As a rule until a connection of this client before has its last answer, which takes longer than connecting may.
TEST(Gateway, ABackendConnectionThatWaitsForItsPortIsNotABackendThatDoesNotAnswer) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.server->backend.port_busy_for = Duration::seconds(9);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(12), [](World& w) { return w.peer->driver.stats().calls >= 10; }));
  EXPECT_GT(world.now, Instant() + Duration::seconds(9));
  EXPECT_EQ(world.peer->driver.stats().connected, 1u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(Gateway, AWaitForAPortIsBoundedToo) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.server->backend.port_busy_for = Duration::ms(1);
  world.server->backend.silent = true;
  world.start();
  EXPECT_TRUE(
      world.run_until(Duration::seconds(25), [](World& w) { return ended(w, gateway::ConnectionResult::kRefusedBackend) > 0; }));
  EXPECT_GT(world.now, Instant() + Duration::seconds(15));
}

TEST(Gateway, CallsTimeOutWhenTheBackendSaysNothingAnyMore) {
  for (uint32_t calls_before = 0; calls_before < 20; ++calls_before) {
    WorldOptions options = options_for(BenchProcedure::kNull, 0);
    options.backend = gateway::BackendKind::kTcp;
    options.load.window = 1;
    options.client_call_timeout = Duration::ms(300);
    options.small_tables = true;
    options.packet_buffers = 512;
    options.large_buffers = 16;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(1 + calls_before));
    world.server->backend.silent = true;
    EXPECT_TRUE(world.run_until(Duration::seconds(1), [](World& w) {
      return w.peer->driver.stats().failed[static_cast<size_t>(rpcrdma::CallStatus::kTimeout)] == 1;
    })) << calls_before;
  }
}

TEST(Gateway, ABackendThatKeepsACallTooLongIsTheReasonOfTheEnd) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.backend = gateway::BackendKind::kTcp;
  options.load.window = 1;
  options.server_call_timeout = Duration::seconds(1);
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(1));
  world.server->backend.silent = true;
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.server->gateway.stats().connections_open == 0; }));
  const auto& stats = world.server->gateway.stats();
  EXPECT_EQ(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kFailedBackendTimeout)], 1u);
  EXPECT_EQ(stats.connections[static_cast<size_t>(gateway::ConnectionResult::kFailedProtocol)], 0u)
      << "the client did nothing wrong";
  EXPECT_EQ(stats.backends[0].call_timeouts, 1u);
}

// Proves RPCRDMA-5-7.
TEST(Gateway, RejectsAnUnknownPort) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.load.service_port = 20050;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.is_dead(); }));
  EXPECT_EQ(world.peer->driver.last_rejection().reason, verbs::RejectReason::kNoListener);
  expect_nothing_left(world);
}

// Proves RPCRDMA-8.1.1-2.
TEST(Gateway, RejectsClientsOutsideTheAllowList) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.allow.push_back({sim_ip(false, 77), 32});
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.is_dead(); }));
  EXPECT_EQ(world.server->gateway.stats().connections[static_cast<size_t>(gateway::ConnectionResult::kRefusedAcl)], 1u);
}

// Queue pairs of others on the same core hold all send works, and their peer answers nothing. The reply that found none goes out
// soon after works are free again; no completion of its own connection tells it so.
TEST(Gateway, AReplyThatFoundNoSendWorkGoesOutWhenThereAreSomeAgain) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 100);
  options.load.window = 1;
  options.small_tables = true;
  options.client_call_timeout = Duration::seconds(1'000'000);
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(20));
  gateway::ConnectionInfo info;
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&](World& w) {  // else its own work would come back to it
    return w.server->gateway.describe(w.now, {&info, 1}) == 1 && test::rc_info(info).works_queued == 0;
  }));
  Endpoint& endpoint = world.server->node.endpoint();
  std::vector<rc::RcQp*> others;
  for (bool posted = true; posted;) {  // until one finds no work for its first SEND
    const auto qp = endpoint.create_qp(rc::RcOptions{});
    ASSERT_TRUE(qp.ok());
    const auto number = static_cast<uint32_t>(others.size());
    const rc::RcConnect connect{
        .path = test::rc_info(info).path, .remote_qpn = verbs::Qpn(0x777 + number), .ack_timeout = rc::kAckTimeoutMax};
    ASSERT_TRUE(endpoint.connect_qp(**qp, connect).ok());
    posted = false;
    while ((*qp)->post_send({}).ok()) {
      posted = true;
    }
    others.push_back(*qp);
  }
  world.run_for(Duration::ms(1));
  const uint64_t before = world.peer->driver.stats().calls;
  world.run_for(Duration::seconds(1));
  EXPECT_EQ(world.peer->driver.stats().calls, before);
  EXPECT_GT(world.server->gateway.rpcrdma_stats().no_send_work, 0u);
  for (rc::RcQp* qp : others) {
    endpoint.destroy_qp(*qp);
  }
  EXPECT_TRUE(world.run_calls(20, Duration::ms(20)));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

// All three ask while there are places: one comes last, and is told by DREQ. When it asks again there is none, and it gets a REJ.
TEST(Gateway, RejectsMoreConnectionsThanTheListenerAllows) {
  WorldOptions options = options_for(BenchProcedure::kNull, 0);
  options.load.connections = 3;
  options.load.reconnect = true;
  options.connections_max = 2;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.stats().refused > 0; }));
  EXPECT_EQ(world.peer->driver.stats().lost, 1u);
  EXPECT_EQ(world.peer->driver.last_rejection().reason, verbs::RejectReason::kNoResources);
  EXPECT_EQ(world.peer->driver.connected(), 2u);
  EXPECT_EQ(world.server->gateway.stats().connections[static_cast<size_t>(gateway::ConnectionResult::kRefusedLimit)],
            1u + world.peer->driver.stats().refused);
}

TEST(Gateway, EndsTheConnectionWhenTheBackendClosesAndServesTheNext) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 100);
  options.backend = gateway::BackendKind::kTcp;
  options.load.reconnect = true;
  World world(options);
  world.server->backend.close_after_calls = 50;
  world.start();
  ASSERT_TRUE(world.run_calls(300));
  EXPECT_GT(world.peer->driver.stats().lost, 3u);
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  world.server->backend.close_after_calls = 0;
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(Gateway, ClientsComeBackAfterTheGatewayDied) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 10'000);
  options.load.reconnect = true;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  world.restart_gateway();
  ASSERT_TRUE(world.run_calls(100, Duration::seconds(120)));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  EXPECT_EQ(world.peer->driver.stats().lost, 1u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(Gateway, ShutsDownInOrder) {
  WorldOptions options = options_for(BenchProcedure::kEcho, 10'000);
  options.load.connections = 5;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  world.server->gateway.shut_down(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(3), [](World& w) { return w.server->gateway.is_quiet(); }));
  ASSERT_TRUE(world.run_until(Duration::seconds(3), [](World& w) { return w.peer->driver.is_dead(); }));
  EXPECT_EQ(world.peer->driver.stats().lost, 5u);
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  world.run_for(Duration::seconds(1));
  EXPECT_EQ(world.server->packets.in_use(), 0u);
  EXPECT_EQ(world.server->large.in_use(), 0u);
}

TEST(Gateway, SurvivesASmallReplyPool) {
  WorldOptions options = options_for(BenchProcedure::kSource, 200'000);
  options.load.window = 16;
  options.large_buffers = 20;  // two replies at a time
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

// Eight clients write 1 MB each, eight times at once, into a pool that holds a fraction of it: without a common budget each
// would hold a part of every call and none could be finished.
TEST(Gateway, ManyLargeCallsShareASmallReceivePool) {
  WorldOptions options = options_for(BenchProcedure::kSink, 1'000'000);
  options.load.connections = 8;
  options.path_mtu = 1024;
  options.packet_buffers = 4096;
  options.pull_buffers_max = 2048;
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.undeliverable, 0u);
  EXPECT_GT(world.server->gateway.rpcrdma_stats().read_stalls, 0u);
}

// A few calls fit at once. Those who have just pulled one would find room again before those who only look now and then.
TEST(Gateway, ClientsTakeTurnsAtASmallReceivePool) {
  WorldOptions options = options_for(BenchProcedure::kSink, 256'000);
  options.load.connections = 16;
  options.path_mtu = 1024;
  options.packet_buffers = 4096;
  options.pull_buffers_max = 1024;
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(800));
  std::array<gateway::ConnectionInfo, 16> infos;
  ASSERT_EQ(world.server->gateway.describe(world.now, infos), infos.size());
  const auto [fewest, most] = std::ranges::minmax(infos, {}, &gateway::ConnectionInfo::calls);
  EXPECT_GT(2 * fewest.calls, most.calls);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
}

TEST(Gateway, RecoversSelectivelyWhenBothSidesOfferIt) {
  for (uint32_t sides = 0; sides < 4; ++sides) {
    WorldOptions options = options_for(BenchProcedure::kEcho, 3000);
    options.path_mtu = 1024;
    options.gateway_recovers_selectively = (sides & 1) != 0;
    options.client_recovers_selectively = (sides & 2) != 0;
    options.load.window = 16;
    World world(options);
    world.link.faults.loss = 20;
    world.start();
    ASSERT_TRUE(world.run_calls(500)) << sides;
    world.link.faults = {};
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(failures(world.peer->driver.stats()), 0u) << sides;
    const rc::RcStats& server = world.server->node.endpoint().stats();
    const rc::RcStats& client = world.peer->node.endpoint().stats();
    const bool agreed = sides == 3;
    // Either keeps what comes behind a gap on its own account; it says so in gap reports only where both have agreed.
    EXPECT_EQ(server.gap_reports_sent > 0, agreed) << sides;
    EXPECT_EQ(client.gap_reports_sent > 0, agreed) << sides;
    expect_nothing_left(world);
  }
}

// Proves RPCRDMA-2.3.2-9, RPCRDMA-4.5.5-1: Loss, duplication, reordering and corruption on the wire, then none: every call is
// answered rightly and exactly once.
TEST(Gateway, EveryCallIsAnsweredRightlyUnderFaults) {
  for (uint64_t seed = 1; seed <= (cw::test::kSanitized ? 20 : 60); ++seed) {
    SeededRandom random(seed);
    WorldOptions options = options_for(static_cast<BenchProcedure>(random.next_below(4)), 0);
    options.seed = seed;
    if (options.load.operation != BenchProcedure::kNull) {
      options.load.bytes = random.next_below(2) == 0 ? random.next_below(4000) : random.next_below(100'000);
    }
    options.path_mtu = 256u << random.next_below(5);
    options.load.connections = 1 + random.next_below(4);
    options.load.window = 1 + random.next_below(16);
    options.credits = 1 + random.next_below(32);
    options.ipv6 = random.next_below(2) == 0;
    options.backend = random.next_below(2) == 0 ? gateway::BackendKind::kTcp : gateway::BackendKind::kBuiltin;
    options.load.reconnect = true;
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
    ASSERT_TRUE(world.finish()) << "seed " << seed;
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u) << "seed " << seed;
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u) << "seed " << seed;
    SCOPED_TRACE(seed);
    expect_nothing_left(world);
  }
}

}  // namespace
}  // namespace cw::sim
