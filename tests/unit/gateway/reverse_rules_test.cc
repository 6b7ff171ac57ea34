// Rules of RFC 8167 for whole connections: who opens them, how long they stay, who says that the other may call, and what a
// message costs that nobody is prepared for.
#include "apps/sim/rc_pair.h"
#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "tests/unit/gateway/link_listener.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;

WorldOptions callbacks(uint32_t bytes, uint32_t window) {
  WorldOptions options;
  options.load.operation = BenchProcedure::kCallback;
  options.load.bytes = bytes;
  options.load.window = window;
  options.backend = gateway::BackendKind::kTcp;
  return options;
}

bool all_answered(World& world) {
  return world.server->backend.callbacks_pending() == 0 && world.server->gateway.rpcrdma_stats().reverse_credits_in_use == 0;
}

// Proves BIDI-2-5: with calls of the server under way, waiting, and then without a connection for them, it is the client alone
// that asks for one.
TEST(ReverseRules, TheServerNeverAsksForAConnection) {
  WorldOptions options = callbacks(100, 16);
  options.reverse_credits = 1;  // most of the server's calls wait
  World world(options);
  LinkListener heard(world);
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  EXPECT_GT(world.server->backend.callbacks_pending(), 0u);
  EXPECT_EQ(heard.requests_to(0), 1u);
  world.link.faults.loss = 1000;
  world.run_for(Duration::seconds(20));
  EXPECT_EQ(world.peer->driver.stats().lost, 1u) << "and the client does not come back";
  world.link.faults = {};
  world.run_for(Duration::seconds(120));
  EXPECT_EQ(heard.requests_to(1), 0u);
  EXPECT_EQ(heard.requests_to(0), 1u);
  world.peer->driver.stop();
  expect_nothing_left(world);
}

// Proves BIDI-5.4-6: a client that has opened the reverse direction keeps its connection, idle for ten minutes, and the server's
// next call comes over it.
TEST(ReverseRules, AnIdleConnectionStaysForTheServersCalls) {
  World world(callbacks(100, 1));
  LinkListener heard(world);
  world.start();
  ASSERT_TRUE(world.run_calls(10));
  ASSERT_TRUE(world.finish());
  ASSERT_TRUE(world.run_until(Duration::seconds(10), all_answered));
  const uint64_t answered = world.server->backend.callbacks().right;
  const size_t messages = heard.messages.size();
  world.run_for(Duration::seconds(600));
  EXPECT_EQ(heard.messages.size(), messages) << "idle";
  world.peer->driver.resume(world.now);
  ASSERT_TRUE(world.run_calls(1));
  ASSERT_TRUE(world.finish());
  ASSERT_TRUE(world.run_until(Duration::seconds(10), all_answered));
  EXPECT_GT(world.server->backend.callbacks().right, answered);
  EXPECT_EQ(world.peer->driver.stats().connected, 1u);
  EXPECT_EQ(world.peer->driver.stats().lost, 0u);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
  EXPECT_EQ(heard.requests_to(0), 1u);
  expect_nothing_left(world);
}

// Proves BIDI-6-4: no bit of the private data, known or reserved, opens the reverse direction: a call of the upper layer does.
TEST(ReverseRules, OnlyTheUpperLayerOpensTheReverseDirection) {
  for (uint32_t bit = 0; bit < 32; ++bit) {
    SCOPED_TRACE(bit);
    std::vector<uint8_t> raw = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3};
    raw[4 + bit / 8] = static_cast<uint8_t>(raw[4 + bit / 8] ^ (1u << bit % 8));
    WorldOptions options = callbacks(100, 2);
    options.client_private_data = raw;
    options.client_reverse_credits = 8;
    options.small_tables = true;
    options.packet_buffers = 1024;
    options.large_buffers = 64;
    options.load.operation = BenchProcedure::kEcho;
    World world(options);
    world.server->backend.talks_nonsense = true;  // calls of its own among it
    world.start();
    ASSERT_TRUE(world.run_calls(20));
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().reverse_calls, 0u);
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().reverse_credits_granted, 0u);
    EXPECT_EQ(world.peer->client.rpcrdma_stats().reverse_calls, 0u);
    // The same client, after the call that says so.
    options.load.operation = BenchProcedure::kCallback;
    World asking(options);
    asking.start();
    ASSERT_TRUE(asking.run_calls(5));
    EXPECT_GT(asking.server->gateway.rpcrdma_stats().reverse_calls, 0u);
  }
}

// Proves BIDI-7-2: for the server's calls alone the client opens a connection, at the port that the service has; after the one
// call that says that it is ready only the server calls.
TEST(ReverseRules, AReverseOnlyConnectionIsOpenedByTheClient) {
  WorldOptions options = callbacks(1000, 1);
  options.gateway_ports = 2;
  options.load.service_port = GatewayHost::kPort + 1;
  World world(options);
  LinkListener heard(world);
  world.server->backend.call_delay = Duration::ms(200);
  world.start();
  ASSERT_TRUE(world.run_calls(1));
  world.peer->driver.stop();
  ASSERT_TRUE(world.run_until(Duration::seconds(30), [](World& w) {
    return w.peer->driver.in_flight() == 0 && w.server->backend.callbacks().right >= 1 && all_answered(w);
  }));
  EXPECT_EQ(heard.requests_to(0), 1u);
  EXPECT_EQ(heard.requests_to(1), 0u);
  gateway::ConnectionInfo info;
  ASSERT_EQ(world.server->gateway.describe(world.now, {&info, 1}), 1u);
  EXPECT_EQ(info.listener_port, GatewayHost::kPort + 1);
  EXPECT_LE(info.calls, 2u);
  EXPECT_EQ(world.server->gateway.stats().reverse_calls, world.server->backend.callbacks().sent);
  expect_nothing_left(world);
}

// Proves BIDI-4-1, BIDI-4.3-2, BIDI-6-2: a reverse NULL to an endpoint with one receive arrives; the next one meets none, is
// repeated as often as agreed, and then the connection is lost, forward calls and all.
TEST(ReverseRules, AMessageThatMeetsNoReceiveCostsTheConnection) {
  RcPairOptions options;
  options.connect.rnr_retry = 3;
  RcPair pair(options);
  rpcrdma::RpcRdmaStats stats;
  rpcrdma::ServerShared shared(16, pair.nodes[0]->payload_pool);
  rpcrdma::ServerOptions server_options;
  server_options.reverse_credits = 4;
  rpcrdma::ServerEndpoint server(shared, *pair.qps[0], server_options, rpcrdma::InlineThresholds{});
  server.start();
  server.enable_reverse();  // as if the client had asked for it
  const auto call = [&](uint32_t xid) {
    const uint32_t words[] = {xid, 0, 2, rpcrdma::kBenchProgram, 1, 0, 0, 0, 0, 0};
    std::vector<uint8_t> raw(sizeof(words));
    for (size_t i = 0; i < std::size(words); ++i) {
      store_be32(raw.data() + 4 * i, words[i]);
    }
    return pair.payload(0, raw);
  };
  // Unprepared: one receive, for the reply of a forward call, which is not posted again in time.
  pair.qps[1]->post_receives(1);
  ASSERT_TRUE(server.submit_reverse(pair.now, call(1)).ok());
  pair.run_for(Duration::ms(20));
  server.on_completions(pair.now);
  verbs::Completion completion;
  ASSERT_TRUE(pair.qps[1]->poll_completion(completion));
  EXPECT_EQ(completion.opcode, verbs::WcOpcode::kReceive);
  // A Reply to the first, so that the second may go.
  const std::vector<uint8_t> reply = [] {
    const uint32_t words[] = {1, 1, 4, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0};
    std::vector<uint8_t> raw(sizeof(words));
    for (size_t i = 0; i < std::size(words); ++i) {
      store_be32(raw.data() + 4 * i, words[i]);
    }
    return raw;
  }();
  ASSERT_TRUE(pair.qps[1]->post_send({.payload = pair.payload(1, reply)}).ok());
  pair.run_for(Duration::ms(20));
  server.on_completions(pair.now);
  EXPECT_FALSE(server.failed());
  EXPECT_EQ(server.reverse_credits_granted(), 4u);
  ASSERT_TRUE(server.submit_reverse(pair.now, call(2)).ok());
  ASSERT_TRUE(pair.run(
      [&] {
        server.on_completions(pair.now);
        return server.failed();
      },
      Duration::seconds(30)));
  EXPECT_EQ(pair.qps[0]->error().cause, rc::QpErrorCause::kRnrRetryExceeded);
  EXPECT_EQ(pair.stats(1).rnr_naks_sent, 4u) << "the first time, and three repetitions";
  EXPECT_EQ(server.credits_granted(), server_options.credits) << "granted, and of no use any more";
  EXPECT_EQ(server.submit_reverse(pair.now, call(3)).error(), Error::kBadState);
  while (pair.qps[1]->poll_completion(completion)) {
    completion.payload.clear();
  }
  completion.payload.clear();
}

}  // namespace
}  // namespace cw::sim
