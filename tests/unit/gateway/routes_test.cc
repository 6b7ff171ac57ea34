// Listeners with routes: one connection of a client, several backends.
#include <optional>
#include <set>
#include <vector>

#include "apps/load/bench_workload.h"
#include "gateway/listener_lanes.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "tests/unit/gateway/gateway_on_fake.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::BackendEvent;
using gateway::BackendRequest;
using gateway::ConnectionResult;
using gateway::kAlice;
using gateway::kBob;
using gateway::LinkId;
using gateway::ListenerLanes;
using gateway::ListenerOptions;
using load::BenchProcedure;
using rpcrdma::kBenchProgram;
using verbs::ConnectionId;

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

// Backend 0 is the listener's own, the bench program goes to backend 1.
class Routes : public gateway::GatewayOnAFakeTransport {
 protected:
  Routes() {
    options.backends.push_back({.name = "bench", .kind = gateway::BackendKind::kTcp});
    listener().routes = {{kBenchProgram, 1, kBenchRoute}};
  }
  void expect_no_links_left() {
    for (const uint32_t backend : {0u, 1u}) {
      EXPECT_EQ(backend_stats(backend).links, 0u);
      EXPECT_EQ(backend_stats(backend).calls_in_flight, 0u);
      EXPECT_EQ(backend_stats(backend).server_calls[0], 0u);
      EXPECT_EQ(backend_stats(backend).server_links[0], 0u);
    }
  }
  uint64_t route_calls(uint32_t route) { return gateway->stats().route_calls[route]; }
};

TEST_F(Routes, OneConnectionTalksToTwoBackendsByProgram) {
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1, kOtherProgram);
  expect_forwarded(opened.link, 1, kOtherProgram);
  call(opened.id, 2);
  const LinkId bench = expect_opening(1);
  EXPECT_NE(bench, opened.link);
  expect_forwarded(bench, 2);  // the worker keeps it until the backend connection is there
  worker_says(bench, BackendEvent::Kind::kOpened);
  worker_replies(opened.link, 2);
  EXPECT_TRUE(transport.qp(opened.id).posted().empty()) << "it is the other backend's to answer";
  EXPECT_EQ(gateway->stats().replies_unmatched, 1u);
  worker_replies(bench, 2);
  expect_replied(opened.id, 2);
  acknowledge(opened.id);
  worker_replies(opened.link, 1);
  expect_replied(opened.id, 1);
  acknowledge(opened.id);
  call(opened.id, 3);
  expect_forwarded(bench, 3);
  worker_replies(bench, 3);
  expect_replied(opened.id, 3);
  acknowledge(opened.id);
  EXPECT_EQ(gateway->stats().calls_unrouted, 0u);
  EXPECT_EQ(backend_stats(0).calls, 1u);
  EXPECT_EQ(backend_stats(1).calls, 2u);
  EXPECT_EQ(route_calls(0), 1u);
  EXPECT_EQ(route_calls(kBenchRoute), 2u);
  EXPECT_EQ(ended(ConnectionResult::kAccepted), 1u);
  transport.peer_leaves(opened.id);
  turn();
  turn(gateway::Orphans::kAnswerSettles);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), bench);
  expect_no_request();
  expect_no_links_left();
}

TEST_F(Routes, ProgramsOfAListenerWithoutBackendAreUnavailableUnlessRouted) {
  listener().backend = ListenerOptions::kNoBackend;
  start();
  const ConnectionId id = ask(kAlice);
  confirm(id);
  call(id, 1, kOtherProgram);
  expect_no_request();
  expect_answered(id, 1, rpcrdma::AcceptStatus::kProgramUnavailable);
  acknowledge(id);
  EXPECT_EQ(gateway->stats().calls_unrouted, 1u);
  EXPECT_EQ(route_calls(0), 1u) << "it came without a route";
  call(id, 2);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 2);
  worker_says(bench, BackendEvent::Kind::kOpened);
  worker_replies(bench, 2);
  expect_replied(id, 2);
  EXPECT_EQ(gateway->stats().calls_unrouted, 1u);
  EXPECT_EQ(backend_stats(1).replies, 1u);
  EXPECT_EQ(backend_stats(0).opens + backend_stats(0).open_failures, 0u);
  gateway->close_all(now);
  turn(gateway::Orphans::kAnswerSettles);
  expect_no_links_left();
}

TEST_F(Routes, ABackendThatCannotBeReachedCostsItsCallsAndNoOther) {
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1);
  const LinkId failed = expect_opening(1);
  expect_forwarded(failed, 1);
  worker_says(failed, BackendEvent::Kind::kFailed);
  expect_answered(opened.id, 1, rpcrdma::AcceptStatus::kSystemError);
  acknowledge(opened.id);
  EXPECT_EQ(gateway->stats().lane_failures, 1u);
  EXPECT_EQ(backend_stats(1).calls_in_flight, 0u);
  EXPECT_EQ(backend_stats(1).up, 0u);
  EXPECT_EQ(backend_stats(0).up, 1u);
  call(opened.id, 2, kOtherProgram);
  expect_forwarded(opened.link, 2, kOtherProgram);
  // It comes: the next call reaches it.
  call(opened.id, 3);
  const LinkId bench = expect_opening(1);
  EXPECT_NE(bench, failed);
  expect_forwarded(bench, 3);
  worker_says(bench, BackendEvent::Kind::kOpened);
  EXPECT_EQ(backend_stats(1).up, 1u);
  worker_says(failed, BackendEvent::Kind::kClosed);  // nobody's any more
  EXPECT_EQ(backend_stats(1).links, 1u);
  worker_replies(bench, 3);
  expect_replied(opened.id, 3);
  EXPECT_EQ(transport.at(opened.id).disconnects, 0u);
  EXPECT_EQ(ended(ConnectionResult::kAccepted), 1u);
}

// A server whose SYNs are answered by nobody.
TEST_F(Routes, ABackendThatTakesNoConnectionInTimeIsGivenUp) {
  options.backends[0].open_timeout = Duration::ms(300);
  options.backends[1].open_timeout = Duration::ms(700);
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 1);
  turn(Duration::ms(690));
  expect_no_request();
  turn(Duration::ms(20));
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), bench);
  expect_answered(opened.id, 1, rpcrdma::AcceptStatus::kSystemError);
  EXPECT_EQ(gateway->stats().lane_failures, 1u);
  EXPECT_EQ(backend_stats(1).calls_in_flight, 0u);
  EXPECT_EQ(backend_stats(1).open_failures, 1u);
  EXPECT_EQ(open_count(), 1u);
  // The first one is the connection's own.
  const ConnectionId id = ask(kBob);
  confirm(id);
  (void)expect_opening(0);
  turn(Duration::ms(290));
  EXPECT_EQ(transport.at(id).disconnects, 0u);
  turn(Duration::ms(20));
  expect_disconnected(id, ConnectionResult::kRefusedBackend);
}

TEST_F(Routes, AnIdleBackendConnectionThatIsClosedIsMadeAnewByTheNextCall) {
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 1);
  worker_says(bench, BackendEvent::Kind::kOpened);
  worker_replies(bench, 1);
  acknowledge(opened.id);
  EXPECT_EQ(backend_stats(1).links, 1u);
  worker_says(bench, BackendEvent::Kind::kClosed);
  EXPECT_EQ(backend_stats(1).links, 0u);
  EXPECT_EQ(backend_stats(1).closes, 1u);
  EXPECT_EQ(open_count(), 1u);
  expect_no_request();
  call(opened.id, 2);
  const LinkId again = expect_opening(1);
  EXPECT_NE(again, bench);
  expect_forwarded(again, 2);
  worker_says(again, BackendEvent::Kind::kOpened);
  worker_replies(again, 2);
  expect_replied(opened.id, 2);
  EXPECT_EQ(backend_stats(1).opens, 2u);
  EXPECT_EQ(backend_stats(1).links, 1u);
  EXPECT_EQ(ended(ConnectionResult::kAccepted), 1u);
}

TEST_F(Routes, EachBackendHasItsOwnTimeLimitForCalls) {
  options.backends[1].call_timeout = Duration::seconds(2);
  listener().server.call_timeout = Duration::seconds(120);
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1, kOtherProgram);
  expect_forwarded(opened.link, 1, kOtherProgram);
  turn(Duration::seconds(3));
  EXPECT_EQ(open_count(), 1u) << "the other backend may take longer";
  call(opened.id, 2);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 2);
  worker_says(bench, BackendEvent::Kind::kOpened);
  turn(Duration::ms(1900));
  EXPECT_EQ(open_count(), 1u);
  turn(Duration::ms(200));
  expect_disconnected(opened.id, ConnectionResult::kFailedBackendTimeout);
  EXPECT_EQ(backend_stats(1).call_timeouts, 1u);
  EXPECT_EQ(backend_stats(0).call_timeouts, 0u);
}

// A call that may have to open its lane wants room for two requests. When there is room for one, its connection waits, and the
// core turns. Each call here opens the lane again, since none of them got through, and the ring has an odd number of places.
TEST_F(Routes, WorkersThatStandStillHoldCallsUpAndNotTheCore) {
  constexpr uint32_t kCalls = 8;  // with two requests each
  options.connections_max = 1;
  options.calls_in_flight_max = 2 * kCalls;  // besides one place for opening a lane
  listener().backend = ListenerOptions::kNoBackend;
  start();
  const ConnectionId id = ask(kAlice);
  confirm(id);
  for (uint32_t xid = 1; xid <= kCalls; ++xid) {
    call(id, xid);
    turn(options.backends[1].open_timeout);
    expect_answered(id, xid, rpcrdma::AcceptStatus::kSystemError);
    acknowledge(id);
  }
  EXPECT_EQ(backend_stats(1).open_failures, kCalls);
  call(id, kCalls + 1);
  turn();
  EXPECT_EQ(backend_stats(1).calls, kCalls);
  EXPECT_EQ(open_count(), 1u);
  std::vector<BackendRequest::Kind> asked;
  while (const std::optional<BackendRequest> next = request()) {
    asked.push_back(next->kind);
  }
  EXPECT_EQ(asked.size(), 3 * kCalls) << "an opening, a call and a close each";
  turn();
  EXPECT_EQ(backend_stats(1).calls, kCalls + 1);
  expect_forwarded(expect_opening(1), kCalls + 1);
}

TEST_F(Routes, ADrainAnswersTheCallsOfAllBackendsFirst) {
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1, kOtherProgram);
  expect_forwarded(opened.link, 1, kOtherProgram);
  call(opened.id, 2);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 2);
  worker_says(bench, BackendEvent::Kind::kOpened);
  gateway->drain(now);
  worker_replies(opened.link, 1);
  expect_replied(opened.id, 1);
  acknowledge(opened.id);
  turn(Duration::ms(50));
  ASSERT_EQ(open_count(), 1u) << "the other backend has not answered";
  worker_replies(bench, 2);
  expect_replied(opened.id, 2);
  acknowledge(opened.id);
  turn(Duration::ms(50));
  expect_disconnected(opened.id, ConnectionResult::kDrained);
  turn(gateway::Orphans::kAnswerSettles);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), bench);
  expect_no_links_left();
  gateway->end_drain(now);
  const Opened next = open_at(kAlice, 0);
  call(next.id, 3, kOtherProgram);
  expect_forwarded(next.link, 3, kOtherProgram);
}

// Calls of every second connection are of a program that the servers do not know.
class TwoPrograms final : public load::Workload {
 public:
  explicit TwoPrograms(BufferPool* pool) : pool_(pool) {}
  void prepare(load::Slot& slot, const load::CallMix& mix) override { bench().prepare(slot, mix); }
  bool build(const load::MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, load::Slot& slot,
             load::CallDraft& draft) override {
    if (!bench().build(entry, thresholds, slot, draft)) {
      return false;
    }
    if (slot.lane % 2 == 1) {
      others_.insert(slot.sequence);
      store_be32(draft.call.message.head()->data + 12, kOtherProgram);
    }
    return true;
  }
  bool check(const load::MixEntry& entry, const rpcrdma::ClientReply& reply, const load::Slot& slot, bool in_full) override {
    return others_.contains(slot.sequence) ? rpcrdma::parse_rpc_reply(reply.message).ok()
                                           : bench().check(entry, reply, slot, in_full);
  }

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

TEST(RoutesOnAWire, ABackendThatClosesWithCallsEndsTheConnectionAndTheClientRepeatsThem) {
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

TEST(RoutesOnAWire, CallsOfABackendBehindARouteReachTheClientAndItsRepliesGoBackThere) {
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

// The backend of every second connection's calls says nothing: the other one's go on. Both have the same listener.
TEST(RoutesOnAWire, ABackendThatHangsLeavesCallsToTheOthers) {
  HeapBufferPool calls(256, 16384, 256);
  TwoPrograms programs(&calls);
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

}  // namespace
}  // namespace cw::sim
