// A gateway that is followed by another one: its clients keep their connections, and notice a pause.
#include <cstdint>
#include <vector>

#include "control/config/ip_text.h"
#include "tests/support/sanitized.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;

constexpr Duration kPatience = Duration::seconds(1);
constexpr Duration kAway = Duration::ms(700);
constexpr uint8_t kTwoSeconds = 19;  // acknowledgement timeout, as Linux clients have it

WorldOptions busy(BenchProcedure operation, uint32_t bytes) {
  WorldOptions options;
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.window = 8;
  options.load.connections = 4;
  options.load.reconnect = true;
  options.backend = gateway::BackendKind::kTcp;
  options.ack_timeout = kTwoSeconds;
  return options;
}

// Whatever is called, the calls go on as soon as the next gateway is there, although the clients' own timeouts are far away.
TEST(HandOver, EveryConnectionGoesOn) {
  for (const BenchProcedure operation : {BenchProcedure::kEcho, BenchProcedure::kSink, BenchProcedure::kSource}) {
    for (const uint32_t bytes : {100u, 100'000u}) {
      for (const bool is_standard : {false, true}) {
        SCOPED_TRACE(testing::Message() << load::to_string(operation) << " of " << bytes << (is_standard ? ", standard" : ""));
        WorldOptions options = busy(operation, bytes);
        options.client_recovers_selectively = !is_standard;
        World world(options);
        world.server->backend.call_delay = Duration::ms(1);
        world.start();
        ASSERT_TRUE(world.run_calls(200));
        const Instant before = world.now;
        EXPECT_EQ(world.hand_over_gateway(kPatience, kAway), 4u);
        EXPECT_LT(world.now - before, kAway + Duration::ms(100)) << "handing over took long";
        world.server->backend.call_delay = Duration::ms(1);
        ASSERT_TRUE(world.run_calls(32, Duration::ms(100)));
        ASSERT_TRUE(world.run_calls(400));
        EXPECT_EQ(ended(world, gateway::ConnectionResult::kTakenOver), 4u);
        EXPECT_EQ(ended(world, gateway::ConnectionResult::kAccepted), 0u);
        ASSERT_TRUE(world.finish());
        const load::LoadStats& stats = world.peer->driver.stats();
        EXPECT_EQ(failures(stats), 0u);
        EXPECT_EQ(stats.connected, 4u);
        EXPECT_EQ(stats.resent, 0u) << "no call is made again";
        EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u);
        EXPECT_EQ(world.server->node.endpoint().stats().rnr_naks_sent, 0u);
        expect_nothing_left(world);
      }
    }
  }
}

// Again and again, over IPv6 and a VLAN, and a wire that loses and reorders packets.
TEST(HandOver, ManyTimes) {
  WorldOptions options = busy(BenchProcedure::kEcho, 10'000);
  options.ipv6 = true;
  options.vlan = 7;
  options.ack_timeout = 14;
  World world(options);
  world.link.faults.loss = 5;
  world.link.faults.reorder = 20;
  world.start();
  for (int turn = 0; turn < 10; ++turn) {
    ASSERT_TRUE(world.run_calls(100));
    EXPECT_EQ(world.hand_over_gateway(kPatience, Duration::ms(20)), 4u);
  }
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.peer->driver.stats().connected, 4u);
  world.link.faults = {};
  expect_nothing_left(world);
}

// One that nothing is sent on hears that a packet is missing, which is not so, and goes on all the same.
TEST(HandOver, IdleConnectionsGoOn) {
  World world(busy(BenchProcedure::kNull, 0));
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  world.run_for(Duration::ms(10));
  EXPECT_EQ(world.hand_over_gateway(kPatience, kAway), 4u);
  world.run_for(Duration::seconds(5));
  EXPECT_EQ(world.server->gateway.stats().connections_open, 4u);
  EXPECT_EQ(world.peer->driver.stats().lost, 0u);
  expect_nothing_left(world);
}

// A call whose backend does not answer holds up its own connection, and that until the time is up.
TEST(HandOver, WhoOwesAnAnswerStaysBehind) {
  World world(busy(BenchProcedure::kEcho, 100));
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  world.server->backend.silent = true;
  world.run_for(Duration::ms(10));
  EXPECT_TRUE(world.end_handing_over(Duration::ms(200)).empty());
}

// The next gateway grants less: what the client was granted before counts until it has been told.
TEST(HandOver, AGrantOutlivesItsGateway) {
  WorldOptions options = busy(BenchProcedure::kEcho, 100);
  options.load.window = 32;
  options.credits = 32;
  World world(options);
  world.server->backend.call_delay = Duration::ms(1);
  world.start();
  ASSERT_TRUE(world.run_calls(500));
  world.options().credits = 4;
  EXPECT_EQ(world.hand_over_gateway(kPatience, kAway), 4u);
  ASSERT_TRUE(world.run_calls(500));
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().credits_granted, 4u * 4u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u);
  EXPECT_EQ(world.server->node.endpoint().stats().rnr_naks_sent, 0u);
  expect_nothing_left(world);
}

// The next gateway does not want the client, or has no place for it: the client is told, and need not wait for a timeout.
TEST(HandOver, WhoIsNotWantedAnyMoreIsTold) {
  for (const bool is_denied : {false, true}) {
    SCOPED_TRACE(is_denied);
    World world(busy(BenchProcedure::kEcho, 100));
    world.start();
    ASSERT_TRUE(world.run_calls(100));
    if (is_denied) {
      world.options().allow = {{IpAddress::v4(0x0a63'0000u), 16}};
    } else {
      world.options().connections_max = 1;
    }
    EXPECT_EQ(world.hand_over_gateway(kPatience, kAway), is_denied ? 0u : 1u);
    const uint64_t lost = is_denied ? 4 : 3;
    EXPECT_TRUE(world.run_until(Duration::ms(50), [&](World& w) { return w.peer->driver.stats().lost == lost; }));
  }
}

// The next gateway has another address, or other tables: nothing goes on, and nothing breaks.
TEST(HandOver, AnotherGatewayTakesNothing) {
  World world(busy(BenchProcedure::kEcho, 100));
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  world.options().vlan = 9;
  EXPECT_EQ(world.hand_over_gateway(kPatience, kAway), 0u);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 0u);
  EXPECT_EQ(world.server->node.endpoint().qp_count(), 0u);
}

// What was written down is read with suspicion.
TEST(HandOver, BytesThatWereChangedDoNoHarm) {
  WorldOptions options = busy(BenchProcedure::kEcho, 100);
  options.small_tables = true;  // thousands of gateways are made
  options.packet_buffers = 512;
  options.large_buffers = 64;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  const std::vector<std::vector<uint8_t>> saved = world.end_handing_over(kPatience);
  ASSERT_EQ(saved.size(), 4u);
  const std::vector<uint8_t>& one = saved.front();
  const size_t step = test::kSanitized ? 13 : 1;
  for (size_t length = 0; length < one.size(); length += step) {
    world.restart_gateway();
    EXPECT_FALSE(world.server->gateway.take_over(world.now, Bytes(one).first(length))) << length;
  }
  for (size_t bit = 0; bit < 8 * one.size(); bit += step) {
    SCOPED_TRACE(bit);
    std::vector<uint8_t> changed = one;
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ (1u << bit % 8));
    world.restart_gateway();
    (void)world.server->gateway.take_over(world.now, changed);
    (void)world.server->gateway.take_over(world.now, changed);
    EXPECT_LE(world.server->gateway.stats().connections_open, 1u) << "the same twice";
    EXPECT_TRUE(world.server->node.cm().is_consistent());
    world.server->node.endpoint().for_each_qp([](const rc::RcQp& qp) { EXPECT_TRUE(qp.is_consistent()); });
  }
}

}  // namespace
}  // namespace cw::sim
