// Listeners with routes: one connection of a client, several backends.
#include <optional>
#include <set>

#include "apps/load/bench_workload.h"
#include "gateway/listener_lanes.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::ConnectionResult;
using gateway::ListenerLanes;
using gateway::ListenerOptions;
using load::BenchProcedure;
using rpcrdma::kBenchProgram;

constexpr uint32_t kOtherProgram = 100005;
constexpr uint32_t kBenchRoute = 3;  // number; 0 is that of the other programs

TEST(ListenerLanes, ProgramsWithoutRouteGoToTheListenersBackend) {
  ListenerOptions listener;
  listener.backend = 3;
  EXPECT_EQ(ListenerLanes(listener).count(), 1u);
  listener.other_route = 19;
  listener.routes = {{9, 5, 20}, {7, 3, 21}, {8, 5, 22}, {6, 0, 23}};
  const ListenerLanes lanes(listener);
  ASSERT_EQ(lanes.count(), 3u) << "one for each backend";
  const auto backend_for = [&](uint32_t program) { return lanes.backend(lanes.way_for(program).lane); };
  EXPECT_EQ(backend_for(9), 5u);
  EXPECT_EQ(backend_for(8), 5u);
  EXPECT_EQ(backend_for(7), 3u);
  EXPECT_EQ(lanes.way_for(7).lane, 0u);
  EXPECT_EQ(backend_for(6), 0u);
  EXPECT_EQ(backend_for(1), 3u);
  EXPECT_EQ(backend_for(UINT32_MAX), 3u);
  EXPECT_EQ(lanes.way_for(7).route, 21u);
  EXPECT_EQ(lanes.way_for(9).route, 20u);
  EXPECT_EQ(lanes.way_for(1).route, 19u);
  listener.backend = ListenerOptions::kNoBackend;
  EXPECT_EQ(ListenerLanes(listener).backend(0), ListenerOptions::kNoBackend);
  EXPECT_EQ(ListenerLanes(listener).count(), 4u);
}

// Every second call is of a program that the servers do not know.
class TwoPrograms final : public load::Workload {
 public:
  explicit TwoPrograms(BufferPool* pool) : pool_(pool) {}
  void prepare(load::Slot& slot, const load::CallMix& mix) override { bench().prepare(slot, mix); }
  bool build(const load::MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, load::Slot& slot,
             load::CallDraft& draft) override {
    if (!bench().build(entry, thresholds, slot, draft)) {
      return false;
    }
    if ((by_connection ? slot.lane : slot.sequence) % 2 == 1 && asks_other) {
      others_.insert(slot.sequence);
      store_be32(draft.call.message.head()->data + 12, kOtherProgram);
    }
    return true;
  }
  bool check(const load::MixEntry& entry, const rpcrdma::ClientReply& reply, const load::Slot& slot, bool in_full) override {
    if (!others_.contains(slot.sequence)) {
      return bench().check(entry, reply, slot, in_full);
    }
    const auto header = rpcrdma::parse_rpc_reply(reply.message);
    unavailable += header.ok() && header->status == static_cast<uint32_t>(rpcrdma::AcceptStatus::kProgramUnavailable) ? 1 : 0;
    failed += header.ok() && header->status == static_cast<uint32_t>(rpcrdma::AcceptStatus::kSystemError) ? 1 : 0;
    return header.ok();
  }
  bool asks_other = true;
  bool by_connection = false;  // every second connection's calls instead
  uint64_t unavailable = 0;
  uint64_t failed = 0;

 private:
  load::BenchWorkload& bench() {
    if (!bench_) {
      bench_.emplace(*pool_);
    }
    return *bench_;
  }
  BufferPool* pool_;
  std::optional<load::BenchWorkload> bench_;
  std::set<uint64_t> others_;
};

// Backend 0 is the listener's own, the bench program goes to backend 1.
WorldOptions routed(BenchProcedure operation = BenchProcedure::kEcho, uint32_t bytes = 3000) {
  WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.backends = 2;
  options.routes = {{kBenchProgram, 1, kBenchRoute}};
  options.load.operation = operation;
  options.load.bytes = bytes;
  options.load.window = 8;
  options.load.reconnect = true;
  return options;
}

void expect_no_links(const World& world) {
  EXPECT_EQ(world.server->backend.open_count(), 0u);
  for (uint32_t backend = 0; backend < 2; ++backend) {
    EXPECT_EQ(stats_of(world, backend).links, 0u);
    EXPECT_EQ(stats_of(world, backend).calls_in_flight, 0u);
    EXPECT_EQ(stats_of(world, backend).server_calls[0], 0u);
  }
}

TEST(Routes, OneConnectionTalksToTwoBackendsByProgram) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  WorldOptions options = routed();
  options.workload = &programs;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  const SimBackend& backend = world.server->backend;
  EXPECT_EQ(backend.open_count_of(0), 1u);
  EXPECT_EQ(backend.open_count_of(1), 1u);
  EXPECT_GE(backend.calls_of(0, kOtherProgram), 90u);
  EXPECT_GE(backend.calls_of(1, kBenchProgram), 90u);
  EXPECT_EQ(backend.calls_of(0, kBenchProgram) + backend.calls_of(1, kOtherProgram), 0u);
  EXPECT_EQ(programs.unavailable, backend.calls_of(0, kOtherProgram)) << "answered by the server, not by us";
  EXPECT_EQ(world.server->gateway.stats().calls_unrouted, 0u);
  EXPECT_EQ(world.server->gateway.stats().route_calls[0], stats_of(world, 0).calls);
  EXPECT_EQ(world.server->gateway.stats().route_calls[kBenchRoute], stats_of(world, 1).calls);
  EXPECT_EQ(ended(world, ConnectionResult::kAccepted), 1u);
  expect_nothing_left(world);
  expect_no_links(world);
}

TEST(Routes, ProgramsOfAListenerWithoutBackendAreUnavailableUnlessRouted) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  WorldOptions options = routed();
  options.default_backend = false;
  options.workload = &programs;
  World world(options);
  world.server->backend.refusing_backends = 1;  // nobody asks for it
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.stats().calls_unrouted, programs.unavailable);
  EXPECT_EQ(world.server->gateway.stats().route_calls[0], programs.unavailable) << "they came without a route";
  EXPECT_GT(programs.unavailable, 40u);
  EXPECT_GT(stats_of(world, 1).replies, 40u);
  EXPECT_EQ(stats_of(world, 0).opens + stats_of(world, 0).open_failures, 0u);
  expect_nothing_left(world);
  expect_no_links(world);
}

TEST(Routes, ABackendThatCannotBeReachedCostsItsCallsAndNoOther) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  WorldOptions options = routed();
  options.routes = {{kOtherProgram, 1}};
  options.workload = &programs;
  World world(options);
  world.server->backend.refusing_backends = 2;
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_GT(programs.failed, 40u);
  EXPECT_EQ(programs.unavailable, 0u);
  EXPECT_GT(world.server->gateway.stats().lane_failures, 0u);
  EXPECT_EQ(ended(world, ConnectionResult::kAccepted), 1u);
  EXPECT_EQ(stats_of(world, 1).up, 0u);
  EXPECT_EQ(stats_of(world, 0).up, 1u);
  // It comes: the next call reaches it.
  world.server->backend.refusing_backends = 0;
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 50));
  EXPECT_GT(programs.unavailable, 10u);
  EXPECT_EQ(stats_of(world, 1).up, 1u);
  EXPECT_EQ(ended(world, ConnectionResult::kAccepted), 1u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
  expect_no_links(world);
}

// A server whose SYNs are answered by nobody.
TEST(Routes, ABackendThatTakesNoConnectionInTimeIsGivenUp) {
  WorldOptions options = routed();
  World world(options);
  world.server->backend.open_delay = Duration::seconds(1);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.server->gateway.stats().connections_open == 1; }));
  world.run_for(Duration::ms(1));
  world.server->backend.open_delay = Duration::seconds(60);  // of the next one, which the first call asks for
  ASSERT_TRUE(world.run_until(Duration::seconds(20), [](World& w) { return w.server->gateway.stats().lane_failures > 0; }));
  EXPECT_EQ(stats_of(world, 1).calls_in_flight, 0u);
  EXPECT_EQ(stats_of(world, 1).open_failures, 1u);
  EXPECT_EQ(ended(world, ConnectionResult::kAccepted), 1u);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
}

TEST(Routes, AnIdleBackendConnectionThatIsClosedIsMadeAnewByTheNextCall) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  WorldOptions options = routed();
  options.routes = {{kOtherProgram, 1}};
  options.workload = &programs;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  programs.asks_other = false;
  world.run_for(Duration::ms(10));
  ASSERT_EQ(stats_of(world, 1).calls_in_flight, 0u);
  world.server->backend.close_backend(world.now, 1);
  world.run_for(Duration::ms(10));
  EXPECT_EQ(stats_of(world, 1).links, 0u);
  EXPECT_EQ(stats_of(world, 1).closes, 1u);
  const uint64_t before = programs.unavailable;
  programs.asks_other = true;
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 50));
  EXPECT_GT(programs.unavailable, before);
  EXPECT_EQ(stats_of(world, 1).opens, 2u);
  EXPECT_EQ(ended(world, ConnectionResult::kAccepted), 1u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
  expect_no_links(world);
}

TEST(Routes, ABackendThatClosesWithCallsEndsTheConnectionAndTheClientRepeatsThem) {
  World world(routed());
  world.server->backend.close_after_calls = 30;
  world.start();
  ASSERT_TRUE(world.run_calls(200));
  EXPECT_GE(ended(world, ConnectionResult::kFailedBackend), 5u);
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  world.server->backend.close_after_calls = 0;
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
  expect_no_links(world);
}

TEST(Routes, EachBackendHasItsOwnTimeLimitForCalls) {
  WorldOptions options = routed();
  options.backend_call_timeout = Duration::seconds(2);
  options.server_call_timeout = Duration::seconds(120);
  World world(options);
  world.server->backend.silent_backends = 2;
  world.start();
  ASSERT_TRUE(
      world.run_until(Duration::seconds(10), [](World& w) { return ended(w, ConnectionResult::kFailedBackendTimeout) > 0; }));
  EXPECT_EQ(stats_of(world, 1).call_timeouts, 1u);
  EXPECT_EQ(stats_of(world, 0).call_timeouts, 0u);
}

TEST(Routes, CallsOfABackendBehindARouteReachTheClientAndItsRepliesGoBackThere) {
  World world(routed(BenchProcedure::kCallback, 500));
  world.start();
  ASSERT_TRUE(world.run_calls(100));
  ASSERT_TRUE(world.finish());
  ASSERT_TRUE(world.run_until(Duration::seconds(20), [](World& w) {
    return w.server->backend.callbacks_pending() == 0 && w.server->gateway.rpcrdma_stats().reverse_credits_in_use == 0;
  }));
  const SimBackend::CallbackStats& callbacks = world.server->backend.callbacks();
  EXPECT_GT(callbacks.right, 50u);
  EXPECT_EQ(callbacks.wrong, 0u);
  EXPECT_EQ(callbacks.right + callbacks.refused, callbacks.sent);
  expect_nothing_left(world);
  expect_no_links(world);
}

// A call that may have to open its lane wants room for two requests. When there is room for one, its connection waits, and the
// core turns. The first call of each connection takes two, and the ring has an odd number of places: one is left.
TEST(Routes, WorkersThatStandStillHoldCallsUpAndNotTheCore) {
  constexpr uint32_t kConnections = 1450;
  WorldOptions options = routed(BenchProcedure::kEcho, 64);
  options.default_backend = false;
  options.load.connections = kConnections;
  options.load.window = 1;
  options.connections_max = kConnections;
  options.calls_in_flight_max = 1801;  // besides 1024 places for opening lanes; one backend may have 1441
  World world(options);
  world.server->workers_stand_still = true;
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(2), [](World& w) { return stats_of(w, 1).calls_in_flight == 1412; }));
  world.run_for(Duration::ms(1));
  EXPECT_EQ(world.peer->driver.stats().calls, 0u);
  world.server->workers_stand_still = false;
  ASSERT_TRUE(world.run_calls(2 * kConnections));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
}

// The backend of every second connection's calls says nothing: the other one's go on. Both have the same listener.
TEST(Routes, ABackendThatHangsLeavesCallsToTheOthers) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  programs.by_connection = true;
  WorldOptions options = routed(BenchProcedure::kEcho, 100);
  options.workload = &programs;
  options.load.connections = 32;
  options.load.window = 4;
  options.calls_in_flight_max = 16;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(1'000));  // the clients have been granted their credits
  world.server->backend.silent_backends = 1;
  world.run_for(Duration::ms(100));
  EXPECT_GT(stats_of(world, 0).calls_in_flight, 4u);
  EXPECT_LE(stats_of(world, 0).calls_in_flight, 13u);
  const uint64_t before = stats_of(world, 1).replies;
  world.run_for(Duration::ms(100));
  EXPECT_GT(stats_of(world, 1).replies, before + 500);
}

TEST(Routes, ADrainAnswersTheCallsOfAllBackendsFirst) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
  WorldOptions options = routed();
  options.workload = &programs;
  World world(options);
  world.server->backend.call_delay = Duration::ms(50);
  world.start();
  ASSERT_TRUE(world.run_calls(20));
  world.server->gateway.drain(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.server->gateway.stats().connections_open == 0; }));
  EXPECT_EQ(ended(world, ConnectionResult::kDrained), 1u);
  world.run_for(Duration::ms(200));
  expect_no_links(world);
  world.server->gateway.end_drain(world.now);
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 20));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
}

}  // namespace
}  // namespace cw::sim
