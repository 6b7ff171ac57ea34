// A gateway and a client that take the express paths send what two send that do not, frame by frame, and count the same.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/bench/rpc_pair.h"

namespace cw::bench {
namespace {

using load::BenchProcedure;

struct Mix {
  const char* name;
  BenchProcedure operation;
  uint32_t bytes;
  uint32_t window;
  uint32_t connections;
  bool all_direct;  // nearly
};

constexpr Mix kMixes[] = {
    {"Null", BenchProcedure::kNull, 0, 32, 1, true},
    {"NullOneAtATime", BenchProcedure::kNull, 0, 1, 1, true},
    {"EchoOfManyConnections", BenchProcedure::kEcho, 64, 4, 8, true},
    {"EchoLongerThanACopy", BenchProcedure::kEcho, 400, 8, 3, false},
    {"EchoInChunks", BenchProcedure::kEcho, 9'000, 8, 3, false},
};

// What passes by, folded.
struct Passed {
  uint64_t frames = 0;
  uint64_t hash = 0xcbf2'9ce4'8422'2325;
  static void see(void* self, const wire::TxPacket& packet, const Buffer& frame) {
    Passed& passed = *static_cast<Passed*>(self);
    (void)packet;
    ++passed.frames;
    for (const uint8_t byte : frame.bytes()) {
      passed.hash = (passed.hash ^ byte) * 0x100'0000'01b3;
    }
  }
};

struct Pair {
  Pair(const Mix& mix, bool express) : pair(options_of(mix, express)) {
    pair.to_server.tap = Passed::see;
    pair.to_server.tap_context = &to_server;
    pair.to_client.tap = Passed::see;
    pair.to_client.tap_context = &to_client;
  }
  static sim::WorldOptions options_of(const Mix& mix, bool express) {
    sim::WorldOptions options;
    options.load.operation = mix.operation;
    options.load.bytes = mix.bytes;
    options.load.window = mix.window;
    options.load.connections = mix.connections;
    options.express = express;
    return options;
  }
  Passed to_server;
  Passed to_client;
  RpcPair pair;
};

void expect_same_use(const gateway::ClientUse& one, const gateway::ClientUse& other) {
  EXPECT_EQ(one.calls, other.calls);
  EXPECT_EQ(one.replies, other.replies);
  EXPECT_EQ(one.errors, other.errors);
  EXPECT_EQ(one.call_bytes, other.call_bytes);
  EXPECT_EQ(one.reply_bytes, other.reply_bytes);
}

class ExpressPair : public testing::TestWithParam<Mix> {};

TEST_P(ExpressPair, SendsAndCountsTheSame) {
  Pair with(GetParam(), true);
  Pair without(GetParam(), false);
  ASSERT_TRUE(with.pair.run_calls(20));
  ASSERT_TRUE(without.pair.run_calls(20));
  for (uint32_t turn = 0; turn < 1'500 && !HasFailure(); ++turn) {
    for (Pair* one : {&with, &without}) {
      one->pair.now = one->pair.now + Duration::us(1);
      one->pair.turn();
    }
    ASSERT_EQ(with.to_server.frames, without.to_server.frames) << turn;
    ASSERT_EQ(with.to_client.frames, without.to_client.frames) << turn;
    ASSERT_EQ(with.to_server.hash, without.to_server.hash) << turn;
    ASSERT_EQ(with.to_client.hash, without.to_client.hash) << turn;
    ASSERT_EQ(with.pair.server.packets.in_use(), without.pair.server.packets.in_use()) << turn;
    ASSERT_EQ(with.pair.server.gateway.next_deadline(), without.pair.server.gateway.next_deadline()) << turn;
  }
  const gateway::Gateway& one = with.pair.server.gateway;
  const gateway::Gateway& other = without.pair.server.gateway;
  const gateway::GatewayStats& stats = one.stats();
  const gateway::GatewayStats& others = other.stats();
  expect_same_use(stats.listeners[0].use, others.listeners[0].use);
  EXPECT_EQ(stats.backends[0].calls, others.backends[0].calls);
  EXPECT_EQ(stats.backends[0].replies, others.backends[0].replies);
  EXPECT_EQ(stats.backends[0].errors, others.backends[0].errors);
  EXPECT_EQ(stats.backends[0].bytes_in, others.backends[0].bytes_in);
  EXPECT_EQ(stats.backends[0].bytes_out, others.backends[0].bytes_out);
  EXPECT_EQ(stats.backends[0].calls_in_flight, others.backends[0].calls_in_flight);
  EXPECT_EQ(stats.route_calls, others.route_calls);
  EXPECT_EQ(std::memcmp(&one.rpcrdma_stats(), &other.rpcrdma_stats(), sizeof(rpcrdma::RpcRdmaStats)), 0);
  EXPECT_EQ(std::memcmp(&one.stage_durations(), &other.stage_durations(), sizeof(rpcrdma::StageDurations)), 0);
  EXPECT_EQ(with.pair.peer.driver.stats().calls, without.pair.peer.driver.stats().calls);
  EXPECT_EQ(with.pair.failures(), without.pair.failures());
  EXPECT_EQ(with.pair.server.packets.buffer_usage().refused, without.pair.server.packets.buffer_usage().refused);
  const uint64_t calls = with.pair.peer.driver.stats().calls;
  EXPECT_GT(calls, 1'000u);
  EXPECT_EQ(other.calls_direct(), 0u);
  if (GetParam().all_direct) {
    EXPECT_GT(one.calls_direct(), calls - calls / 10);  // else nothing has been compared
  }
}

std::string name_of_mix(const testing::TestParamInfo<Mix>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Mixes, ExpressPair, testing::ValuesIn(kMixes), name_of_mix);

}  // namespace
}  // namespace cw::bench
