// Between two RPCs neither poll core takes anything from the heap, whatever kind the RPCs are and wherever they are answered.
#include <gtest/gtest.h>

#include <string>

#include "tests/bench/rpc_pair.h"
#include "tests/support/alloc_guard.h"

namespace cw::bench {
namespace {

using gateway::BackendKind;
using load::BenchProcedure;

enum class Answers : uint8_t { kOnPollCore, kOnWorkers, kByTcp };

struct Kind {
  const char* name;
  BenchProcedure operation;
  uint32_t bytes;
};

// By size: inline both ways, or data by Read chunk and Write chunk.
constexpr Kind kKinds[] = {
    {"Null", BenchProcedure::kNull, 0},
    {"EchoInline", BenchProcedure::kEcho, 256},
    {"EchoInChunks", BenchProcedure::kEcho, 20'001},
    {"Source", BenchProcedure::kSource, 262'144},
    {"Sink", BenchProcedure::kSink, 262'144},
};

sim::WorldOptions options_of(const Kind& kind, Answers answers) {
  sim::WorldOptions options;
  options.path_mtu = 1024;
  options.load.operation = kind.operation;
  options.load.bytes = kind.bytes;
  options.load.window = 8;
  options.load.connections = 2;
  options.backend = answers == Answers::kByTcp ? BackendKind::kTcp : BackendKind::kBuiltin;
  options.run_on_workers = answers == Answers::kOnWorkers;
  return options;
}

class NoAllocation : public testing::TestWithParam<std::tuple<Kind, Answers>> {};

TEST(AllocGuard, CountsInThisExecutable) {
  const test::CountAllocations counted;
  const auto some = std::make_unique<uint64_t>(1);
  EXPECT_EQ(counted.count(), *some);
}

TEST_P(NoAllocation, HappensBetweenTwoCalls) {
  RpcPair pair(options_of(std::get<0>(GetParam()), std::get<1>(GetParam())));
  ASSERT_TRUE(pair.run_calls(200));
  const uint64_t goal = pair.peer.driver.stats().calls + 200;
  uint64_t by_gateway = 0;
  uint64_t by_client = 0;
  for (uint32_t turns = 0; turns < 200'000 && pair.peer.driver.stats().calls < goal; ++turns) {
    pair.now = pair.now + Duration::us(1);
    {
      const test::CountAllocations counted;
      pair.serve_client();
      by_client += counted.count();
    }
    pair.to_server.carry();
    const test::CountAllocations counted;
    pair.serve_gateway();
    by_gateway += counted.count();
    pair.to_client.carry();
  }
  EXPECT_EQ(by_gateway, 0u);
  EXPECT_EQ(by_client, 0u);
  EXPECT_GE(pair.peer.driver.stats().calls, goal);
  EXPECT_EQ(pair.failures(), 0u);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Kind, Answers>>& test) {
  constexpr const char* kWhere[] = {"OnPollCore", "OnWorkers", "ByTcp"};
  return std::string(std::get<0>(test.param).name) + kWhere[static_cast<size_t>(std::get<1>(test.param))];
}

INSTANTIATE_TEST_SUITE_P(AllKinds, NoAllocation,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::Values(Answers::kOnPollCore, Answers::kOnWorkers, Answers::kByTcp)),
                         name_of);

// The RPCs of many connections in small windows leave through fewer batches than there are queue pairs.
TEST(NoAllocation, HappensWhenManyConnectionsShareTheCore) {
  sim::WorldOptions options;
  options.load.operation = BenchProcedure::kEcho;
  options.load.bytes = 64;
  options.load.window = 2;
  options.load.connections = 60;
  RpcPair pair(options);
  ASSERT_TRUE(pair.run_calls(2'000));
  const test::CountAllocations counted;
  const bool ran = pair.run_calls(2'000);
  EXPECT_EQ(counted.count(), 0u);
  EXPECT_TRUE(ran);
}

// Memory that runs out is waited for; waiting is made of nothing either.
TEST(NoAllocation, HappensWhenBuffersRunOut) {
  sim::WorldOptions options;
  options.load.operation = BenchProcedure::kSource;
  options.load.bytes = 65'536;
  options.load.window = 16;
  options.large_buffers = 12;  // a reply takes three: sixteen of them do not fit
  RpcPair pair(options);
  ASSERT_TRUE(pair.run_calls(100));
  const test::CountAllocations counted;
  const bool ran = pair.run_calls(100);
  EXPECT_EQ(counted.count(), 0u);
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace cw::bench
