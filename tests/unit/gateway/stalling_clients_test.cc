// Clients that stop taking part in their own calls: they post no receives for replies, or answer no RDMA Read. Each loses its
// connection in bounded time, and those beside it go on.
#include <vector>

#include "rocev2/wire/packet_view.h"
#include "tests/support/rc_info.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::ConnectionResult;
using load::BenchProcedure;

constexpr uint32_t kClients = 4;

// Calls of one kind on kClients connections that neither end by themselves nor come back. A call takes 40 ms at least, so that a
// minute is soon simulated.
WorldOptions options_of(BenchProcedure operation, uint32_t bytes) {
  WorldOptions options;
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.connections = kClients;
  options.load.window = 4;
  options.client_call_timeout = Duration::seconds(1'000'000);
  return options;
}

void start(World& world) {
  world.link.faults.delay = Duration::ms(20);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
}

std::vector<gateway::ConnectionInfo> connections_of(const World& world) {
  std::vector<gateway::ConnectionInfo> connections(kClients);
  connections.resize(world.server->gateway.describe(world.now, connections));
  return connections;
}

// How long the gateway's queue pair `stalled` lasts, to a tenth of a second. All others have calls answered in each second.
Duration life_of(World& world, verbs::Qpn stalled, Duration limit) {
  const Instant from = world.now;
  while (world.now - from < limit && !testing::Test::HasFailure()) {
    const auto before = connections_of(world);
    for (int tenth = 0; tenth < 10; ++tenth) {
      world.run_for(Duration::ms(100));
      if (world.server->gateway.stats().connections_open < kClients) {
        return world.now - from;
      }
    }
    const auto after = connections_of(world);
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].calls > before[i].calls, after[i].qp.local_qpn != stalled)
          << i << " at " << (world.now - from).to_seconds();
    }
  }
  return world.now - from;
}

void expect_only_one_lost(World& world, ConnectionResult why) {
  EXPECT_EQ(ended(world, why), 1u);
  EXPECT_EQ(world.server->gateway.stats().connections_open, kClients - 1);
  world.run_for(Duration::ms(100));
  EXPECT_EQ(world.peer->driver.stats().lost, 1u);
  ASSERT_TRUE(world.run_calls(100));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  world.link.faults.delay = Duration::us(2);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

// The client asks for RNR retries for ever (7), and the gateway grants them by default: limits.reply_timeout_s is what ends it.
TEST(StallingClient, WithoutReceivesLosesItsConnectionWithinTwoReplyTimeouts) {
  WorldOptions options = options_of(BenchProcedure::kSource, 100'000);
  options.large_buffers = 64;
  const Duration reply_timeout = sim_gateway_options(options).listeners[0].server.reply_timeout;
  World world(options);
  start(world);
  const gateway::ConnectionInfo stalled = connections_of(world).front();
  EXPECT_EQ(test::rc_info(stalled).rnr_retry, 7u);
  world.peer->node.endpoint().for_each_qp([&](rc::RcQp& qp) {
    if (qp.local_qpn() == stalled.qp.remote_qpn) {
      qp.post_receives(0u - qp.info().receives_posted);
    }
  });
  world.run_for(Duration::seconds(1));  // what was under way is answered, as far as it can be
  const Duration life = Duration::seconds(1) + life_of(world, stalled.qp.local_qpn, reply_timeout * 3);
  EXPECT_GT(life, reply_timeout);
  EXPECT_LE(life, reply_timeout * 2 + Duration::ms(100));
  EXPECT_GT(world.server->node.endpoint().stats().rnr_naks_received, 7u);
  EXPECT_EQ(world.server->node.endpoint().stats().rnr_retries_exhausted, 0u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().reply_timeouts, 1u);
  expect_only_one_lost(world, ConnectionResult::kFailedReplyTimeout);
}

bool drop_read_responses(void* context, Instant, uint32_t to, const std::vector<uint8_t>& raw) {
  const auto view = wire::PacketView::parse(raw);
  return to != 0 || !view.ok() || view->traits->kind != wire::OpcodeKind::kReadResponse ||
         view->bth.destination != *static_cast<const verbs::Qpn*>(context);
}

// However long the ACK timeout that the client asks for: with the longest the transport alone would try for minutes.
TEST(StallingClient, ThatAnswersNoReadLosesItsConnectionWithinTheReadTimeout) {
  for (const uint8_t ack_timeout : {uint8_t{20}, uint8_t{31}}) {
    SCOPED_TRACE(int{ack_timeout});
    WorldOptions options = options_of(BenchProcedure::kSink, 100'000);
    options.pull_buffers_max = 1024;  // a quarter of these may be unread, and all four connections want more than that
    options.ack_timeout = ack_timeout;
    const Duration read_timeout = sim_gateway_options(options).listeners[0].server.read_timeout;
    World world(options);
    start(world);
    const gateway::ConnectionInfo stalled = connections_of(world).front();
    verbs::Qpn unanswered = stalled.qp.local_qpn;
    world.link.tap = drop_read_responses;
    world.link.tap_context = &unanswered;
    world.run_for(Duration::seconds(1));
    const Duration life = Duration::seconds(1) + life_of(world, stalled.qp.local_qpn, read_timeout * 3);
    EXPECT_GT(life, read_timeout - Duration::seconds(1));
    EXPECT_LE(life, read_timeout + Duration::ms(200));
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().read_timeouts, 1u);
    expect_only_one_lost(world, ConnectionResult::kFailedReadTimeout);
  }
}

}  // namespace
}  // namespace cw::sim
