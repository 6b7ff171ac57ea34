// Backends and surroundings that behave badly, tried on a whole gateway with its client: lists B and P of
// tests/requirements/hostile.md. Each test is named after its row.
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;

WorldOptions echo_of(uint32_t bytes) {
  WorldOptions options;
  options.load.operation = BenchProcedure::kEcho;
  options.load.bytes = bytes;
  options.load.window = 8;
  options.load.reconnect = true;
  options.backend = gateway::BackendKind::kTcp;
  return options;
}

// Unmatched and repeated replies, messages too short to be RPC, and calls from the wrong side, among the right answers.
TEST(HostileWorld, B2_RepliesThatBelongToNoCallAreDroppedAndCounted) {
  for (const uint32_t bytes : {100u, 20'000u}) {
    World world(echo_of(bytes));
    world.server->backend.talks_nonsense = true;
    world.server->backend.repeats_itself = true;
    world.server->backend.call_jitter = Duration::us(50);
    world.start();
    ASSERT_TRUE(world.run_calls(300));
    ASSERT_TRUE(world.finish());
    world.run_for(Duration::ms(10));
    const gateway::GatewayStats& stats = world.server->gateway.stats();
    EXPECT_GE(stats.replies_unmatched, 300u) << "each reply came twice";
    EXPECT_GT(stats.messages_malformed, 20u);
    EXPECT_GT(stats.reverse_calls_dropped[static_cast<size_t>(gateway::ReverseDrop::kNotEnabled)], 20u);
    EXPECT_EQ(stats.backends[0].calls_in_flight, 0u);
    EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
    expect_nothing_left(world);
  }
}

// The backend closes all its connections at any moment: while they are opened, while calls are pulled, pending and answered.
// Clients lose their connection, come back and repeat what they had.
TEST(HostileWorld, B4_ABackendThatClosesInAnyStateCostsConnectionsAndNoCall) {
  uint64_t closed = 0;
  for (uint32_t moment_us = 0; moment_us < 3000; moment_us += 199) {
    SCOPED_TRACE(moment_us);
    WorldOptions options = echo_of(20'000);
    options.load.connections = 2;
    options.packet_buffers = 4096;
    World world(options);
    world.server->backend.open_delay = Duration::us(400);
    world.server->backend.call_delay = Duration::us(300);
    world.start();
    ASSERT_TRUE(world.run_until(Duration::seconds(1), [](World& w) { return w.server->gateway.stats().connections_open > 0; }));
    world.run_for(Duration::us(moment_us));
    world.server->backend.close_all(world.now);
    ASSERT_TRUE(world.run_calls(60));
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    closed += ended(world, gateway::ConnectionResult::kFailedBackend);
    EXPECT_EQ(world.peer->driver.stats().resent, world.peer->driver.stats().interrupted);
    EXPECT_EQ(world.peer->driver.stats().all_failed(), 0u);
    expect_nothing_left(world);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(closed, 12u);
}

// Out of packet buffers: as many as a few calls need. Frames are lost for want of them and repeated; nobody starves for good.
TEST(HostileWorld, P1_TooFewPacketBuffersDelayAndLoseNothing) {
  uint64_t without = 0;
  for (const uint32_t buffers : {26u, 28u, 32u, 48u}) {
    SCOPED_TRACE(buffers);
    WorldOptions options = echo_of(20'000);
    options.path_mtu = 1024;
    options.small_tables = true;
    options.load.window = 4;
    options.pull_buffers_max = buffers / 2;
    World world(options);
    Chain hog;  // what others hold
    while (world.server->packets.in_use() + buffers < options.packet_buffers) {
      hog.push_back(world.server->packets.allocate_one());
    }
    world.start();
    ASSERT_TRUE(world.run_calls(40, Duration::seconds(600)));
    ASSERT_TRUE(world.finish(Duration::seconds(600)));
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    const rpcrdma::RpcRdmaStats& stats = world.server->gateway.rpcrdma_stats();
    without += world.undeliverable + stats.no_buffer + stats.read_stalls;
    hog.clear();
    expect_nothing_left(world);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(without, 0u) << "nobody had to do without";
}

// More connections than there are queue pairs: what is too much is refused, those that are there work, and when they leave their
// places are free.
TEST(HostileWorld, P2_ConnectionsBeyondTheQueuePairsAreRefused) {
  WorldOptions options = echo_of(100);
  options.small_tables = true;
  options.load.connections = 8;
  options.load.reconnect = false;
  options.load.window = 2;
  World world(options);
  // Queue pairs of others on the same core: three are left.
  std::vector<rc::RcQp*> others;
  while (true) {
    const auto qp = world.server->node.endpoint().create_qp(rc::RcOptions{});
    if (!qp.ok()) {
      break;
    }
    others.push_back(*qp);
  }
  for (int free = 0; free < 3; ++free) {
    world.server->node.endpoint().destroy_qp(*others.back());
    others.pop_back();
  }
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  EXPECT_EQ(world.peer->driver.stats().refused, 5u);
  EXPECT_EQ(world.peer->driver.last_rejection().reason, verbs::RejectReason::kNoResources);
  EXPECT_EQ(ended(world, gateway::ConnectionResult::kRefusedResources), 5u);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 3u);
  EXPECT_EQ(world.server->backend.open_count(), 3u) << "and no backend connection is left over";
  ASSERT_TRUE(world.finish());
  for (rc::RcQp* qp : others) {
    world.server->node.endpoint().destroy_qp(*qp);
  }
  expect_nothing_left(world);
}

// The clock jumps ahead, by up to a day, as after a suspension: what was due is done once, connections may be lost, calls are
// not.
TEST(HostileWorld, P3_AClockThatJumpsLosesNoCall) {
  for (const int64_t jump_s : {int64_t{1}, int64_t{30}, int64_t{3600}, int64_t{86'400}}) {
    SCOPED_TRACE(jump_s);
    World world(echo_of(3000));
    world.start();
    ASSERT_TRUE(world.run_calls(50));
    for (int i = 0; i < 3; ++i) {
      world.now = world.now + Duration::seconds(jump_s);
      ASSERT_TRUE(world.run_calls(50));
      EXPECT_TRUE(world.server->node.cm().is_consistent());
    }
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    expect_nothing_left(world);
  }
}

// The link goes and comes: for moments that recovery bridges, and for longer than connections live.
TEST(HostileWorld, P4_ALinkThatFlapsLosesNoCall) {
  uint64_t lost = 0;
  for (const int64_t down_ms : {int64_t{1}, int64_t{20}, int64_t{300}, int64_t{5000}}) {
    SCOPED_TRACE(down_ms);
    WorldOptions options = echo_of(20'000);
    options.load.connections = 2;
    World world(options);
    world.start();
    for (int flap = 0; flap < 5; ++flap) {
      ASSERT_TRUE(world.run_calls(40));
      world.link.faults.loss = 1000;
      world.run_for(Duration::ms(down_ms));
      world.link.faults.loss = 0;
    }
    ASSERT_TRUE(world.run_calls(40));
    ASSERT_TRUE(world.finish());
    const load::LoadStats& stats = world.peer->driver.stats();
    EXPECT_EQ(stats.wrong, 0u);
    EXPECT_EQ(stats.resent, stats.interrupted) << "all of them again";
    EXPECT_EQ(stats.all_failed(), 0u);
    EXPECT_EQ(stats.lost > 0, down_ms >= 5000) << stats.lost;
    lost += stats.lost;
    expect_nothing_left(world);
  }
  EXPECT_GT(lost, 0u);
}

// svcrdma's error path of a listener freed what was not its own, and took down what had never been set up: a gateway whose last
// listener finds no place says so, gives back the others', and touches nobody else's.
TEST(CveShapes, CVE_2026_89527_AListenerThatCannotBeSetUpTakesDownNothingElse) {
  World world(echo_of(100));
  world.start();
  ASSERT_TRUE(world.run_calls(10));
  gateway::GatewayOptions options;
  options.backends.emplace_back();
  for (uint32_t i = 0; i < cm::CmOptions{}.service_max; ++i) {  // one place is taken
    options.listeners.emplace_back();
    options.listeners.back().port = static_cast<uint16_t>(30'000 + i);
  }
  options.connections_max = 4;
  options.calls_in_flight_max = 16;
  for (int i = 0; i < 3; ++i) {
    node::RoceTransport transport({}, world.server->node, world.server->random);
    gateway::Gateway second(options, transport, world.server->packets, world.server->large, world.server->programs,
                            world.server->random);
    EXPECT_FALSE(second.start().ok()) << i;
  }
  EXPECT_TRUE(world.server->node.cm().is_consistent());
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
  // All places but the one that was taken can be had.
  options.listeners.pop_back();
  node::RoceTransport transport({}, world.server->node, world.server->random);
  gateway::Gateway third(options, transport, world.server->packets, world.server->large, world.server->programs,
                         world.server->random);
  EXPECT_TRUE(third.start().ok());
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
