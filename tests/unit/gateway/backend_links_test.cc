// BackendLinks alone: when a connection's ways to backends are opened, what becomes of calls whose way cannot be had, and what a
// connection leaves behind. Without a gateway no call comes but those that the test gives.
#include "gateway/backend_links.h"

#include <utility>

#include "tests/unit/gateway/parts_alone.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kSecondsProgram = 0x2000'0002;  // a program that goes to the second backend

class BackendLinksAlone : public PartsAlone {
 protected:
  using Kind = BackendRequest::Kind;

  BackendLinksAlone() { options.backends.push_back({.name = "other", .kind = BackendKind::kTcp}); }
  void add_route() { listener().routes = {{.program = kSecondsProgram, .backend = 1}}; }
  BackendLinks& links() { return parts->links; }
  // A connection that takes calls.
  Connection& connect_and_open(const IpAddress& peer = kAlice) {
    Connection& connection = connect(peer);
    links().begin_first(now, connection);
    EXPECT_EQ(expect_opening(0), connection.link);
    links().on_opened(now, connection.first);
    connection.state = ConnectionState::kEstablished;
    return connection;
  }
  // The lane of the route is being opened for these calls of the client's.
  LinkId begin_route(Connection& connection, std::initializer_list<uint32_t> xids) {
    links().open(now, connection, connection.lane(1), *xids.begin());
    const LinkId link = expect_opening(1);
    EXPECT_EQ(link, connection.lane(1).link);
    for (const uint32_t xid : xids) {
      give(connection, connection.lane(1), xid);
    }
    return link;
  }
  // A call of the client's goes to the lane's backend, as CallPath does it.
  void give(Connection& connection, Lane& lane, uint32_t xid) {
    const rpcrdma::Call call = take_call(connection, rpcrdma::rpc_call(xid));
    lane.last_xid = xid;
    lane.pending.add(xid, {.call = call.id, .since = now, .epoch = parts->guard.begin(*lane.client)});
    ++backend_stats(lane.backend).calls_in_flight;
    ++backend_stats(lane.backend).server_calls[lane.server_number];
  }
  // The lane's backend has answered it, and so has the gateway the client.
  void answered(Connection& connection, Lane& lane, uint32_t xid) {
    const std::optional<PendingCall> call = lane.pending.take(xid);
    parts->guard.end(*lane.client, call->epoch);
    lane.answered_at = now;
    --backend_stats(lane.backend).calls_in_flight;
    --backend_stats(lane.backend).server_calls[lane.server_number];
    connection.server->reply(now, call->call, rpcrdma::chain_of(packets, rpcrdma::rpc_reply(xid).bytes()));
    transport.peer_acknowledges(connection.id);
  }
  // The client has these answers, in this order, and no others.
  void expect_system_errors(const Connection& connection, std::initializer_list<uint32_t> xids) {
    for (const uint32_t xid : xids) {
      expect_answered(connection.id, xid, rpcrdma::AcceptStatus::kSystemError);
      transport.qp(connection.id).finish();
    }
    EXPECT_EQ(transport.qp(connection.id).works_pending(), 0u);
  }
  // The client's calls that a backend has been given keep those of its next connection waiting.
  bool has_calls_at(uint32_t backend) {
    ReplayGuard::Client& client = parts->guard.join(kAlice, backend);
    const LinkId nobody = link_id(99, 0, 0, 1);
    const bool has = parts->guard.hold(client, nobody);
    if (has) {
      parts->guard.forget(client, nobody);
    }
    parts->guard.leave(client);
    return has;
  }
  void expect_closing(LinkId link) { EXPECT_EQ(expect_request(Kind::kClose), link); }
  static void expect_closed(const Lane& lane) {
    EXPECT_EQ(lane.state, Lane::State::kClosed);
    EXPECT_TRUE(lane.pending.empty());
  }
};

TEST_F(BackendLinksAlone, TheFirstLaneIsOpenedWithItsConnectionAndNoOther) {
  add_route();
  options.backends[0].servers = {2, 0};
  make_parts();
  Connection& connection = connect();
  expect_no_request();
  EXPECT_EQ(connection.first.link, connection.link);
  EXPECT_EQ(lane_of(connection.lane(1).link), 1u);
  EXPECT_EQ(connection.lane(1).backend, 1u);
  links().begin_first(now, connection);
  EXPECT_EQ(connection.state, ConnectionState::kOpeningBackend);
  const std::optional<BackendRequest> open = request();
  ASSERT_TRUE(open && open->kind == Kind::kOpen);
  EXPECT_EQ(open->link, connection.link);
  EXPECT_EQ(open->backend, 0u);
  EXPECT_EQ(open->server, 2u) << "the preferred one";
  EXPECT_EQ(open->client, kAlice);
  EXPECT_EQ(open->source_port, 0u);
  EXPECT_EQ(connection.deadline(), now + options.backends[0].open_timeout);
  links().open_first(now, connection);
  expect_no_request();  // it is being opened
  EXPECT_EQ(backend_stats().links, 0u);
  links().on_opened(now, connection.first);
  EXPECT_EQ(connection.first.state, Lane::State::kOpen);
  EXPECT_EQ(backend_stats().links, 1u);
  EXPECT_EQ(backend_stats().opens, 1u);
  EXPECT_EQ(backend_stats().server_links[2], 1u);
  EXPECT_EQ(backend_stats().up, 1u);
  EXPECT_EQ(connection.lane(1).state, Lane::State::kClosed);
  expect_no_request();
}

TEST_F(BackendLinksAlone, ALaneToABuiltinProgramIsNoLink) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make_parts();
  Connection& connection = connect();
  EXPECT_EQ(connection.first.client, nullptr);
  EXPECT_EQ(parts->guard.client_count(), 0u);
  free(connection, now + Duration::seconds(1));
  expect_no_request();
}

TEST_F(BackendLinksAlone, ABackendThatCannotBeReachedCostsTheConnectionAndCountsAsDown) {
  make_parts();
  Connection& connection = connect();
  links().begin_first(now, connection);
  (void)expect_opening(0);
  links().on_failed(now, connection, connection.first);
  EXPECT_TRUE(parts->backends.is_known_down(now, 0));
  EXPECT_EQ(backend_stats().open_failures, 1u);
  EXPECT_EQ(parts->stats.lane_failures, 0u);
  expect_ending(connection, ConnectionResult::kRefusedBackend);
  expect_no_request();  // the worker has forgotten the link
}

TEST_F(BackendLinksAlone, ABackendThatDoesNotAnswerInTimeCannotBeReached) {
  make_parts();
  Connection& connection = connect();
  links().begin_first(now, connection);
  const LinkId link = expect_opening(0);
  now = now + (options.backends[0].open_timeout - Duration::ns(1));
  links().check_first(now, connection);
  expect_goes_on(connection);
  now = now + Duration::ns(1);
  links().check_first(now, connection);
  expect_closing(link);
  EXPECT_EQ(backend_stats().open_failures, 1u);
  expect_ending(connection, ConnectionResult::kRefusedBackend);
  expect_no_request();
}

TEST_F(BackendLinksAlone, WhoWaitsForItsSourcePortHasMoreTime) {
  constexpr Duration kPatience = Duration::seconds(14);
  make_parts();
  Connection& connection = connect();
  links().begin_first(now, connection);
  const LinkId link = expect_opening(0);
  links().on_port_busy(now, connection.first, kPatience);
  now = now + options.backends[0].open_timeout;
  EXPECT_EQ(parts->connections.pop_expired(now), &connection);
  links().check_first(now, connection);
  expect_goes_on(connection);
  links().open_first(now, connection);
  EXPECT_EQ(connection.deadline(), now + kPatience);
  now = now + (kPatience - Duration::ns(1));
  links().check_first(now, connection);
  expect_goes_on(connection);
  expect_no_request();
  now = now + Duration::ns(1);
  links().check_first(now, connection);
  expect_closing(link);
  expect_ending(connection, ConnectionResult::kRefusedBackend);
}

TEST_F(BackendLinksAlone, ARoutesLaneThatWaitsForItsSourcePortHasMoreTime) {
  constexpr Duration kPatience = Duration::seconds(14);
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = begin_route(connection, {1});
  links().on_port_busy(now, connection.lane(1), kPatience);
  now = now + options.backends[1].open_timeout;
  links().check_routes(now, connection);
  expect_no_request();
  EXPECT_EQ(connection.lane(1).state, Lane::State::kOpening);
  now = now + kPatience;
  links().check_routes(now, connection);
  expect_closing(link);
  expect_system_errors(connection, {1});
  expect_goes_on(connection);
}

TEST_F(BackendLinksAlone, WithoutRoomForARequestTheFirstLaneIsOpenedLater) {
  make_parts(1);
  parts->requests.push({});
  Connection& connection = connect();
  links().begin_first(now, connection);
  EXPECT_EQ(connection.state, ConnectionState::kOpeningBackend);
  EXPECT_EQ(connection.first.state, Lane::State::kClosed);
  EXPECT_EQ(connection.deadline(), now + Duration::ms(1)) << "it looks again";
  (void)expect_request(Kind::kClose);
  now = now + Duration::ms(1);
  links().check_first(now, connection);
  expect_goes_on(connection);
  links().open_first(now, connection);
  EXPECT_EQ(expect_opening(0), connection.link);
  EXPECT_EQ(connection.first.open_deadline, now + options.backends[0].open_timeout);
}

// Two connections of a client break and come back: the XID of the first call tells which is which.
TEST_F(BackendLinksAlone, WhereItDependsOnTheFirstCallTheLinkWaitsForThat) {
  PortBook ports(40'000, 40'999);
  options.source_ports = &ports;
  make_parts();
  Connection* before[] = {&connect(), &connect()};
  uint16_t had[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    links().begin_first(now, *before[i]);
    const std::optional<BackendRequest> open = request();
    ASSERT_TRUE(open && open->kind == Kind::kOpen);
    had[i] = open->source_port;
    EXPECT_NE(had[i], 0u);
    before[i]->first.last_xid = 1'000'000 * (i + 1);
  }
  EXPECT_NE(had[0], had[1]);
  for (Connection* connection : before) {
    const LinkId link = connection->link;
    free(*connection);
    expect_closing(link);
  }
  EXPECT_EQ(ports.used_count(), 0u);

  Connection& second = connect();
  links().begin_first(now, second);
  expect_no_request();
  EXPECT_EQ(second.deadline(), now + Duration::ms(100));
  client_sends(second, rpcrdma::inline_call(2'000'001, rpcrdma::rpc_call(2'000'001)));
  links().open_first(now, second);
  std::optional<BackendRequest> open = request();
  ASSERT_TRUE(open && open->kind == Kind::kOpen);
  EXPECT_EQ(open->source_port, had[1]);

  Connection& first = connect();
  links().begin_first(now, first);
  now = now + (Duration::ms(100) - Duration::ns(1));
  links().open_first(now, first);
  expect_no_request();
  now = now + Duration::ns(1);
  links().open_first(now, first);
  open = request();
  ASSERT_TRUE(open && open->kind == Kind::kOpen) << "a client that is silent has its link all the same";
  EXPECT_EQ(open->source_port, had[0]);
  links().on_failed(now, first, first.first);
  EXPECT_EQ(ports.used_count(), 1u) << "what a failure leaves is free";
  free_endings();
  free(second);
  EXPECT_EQ(ports.used_count(), 0u);
}

TEST_F(BackendLinksAlone, ARoutesLaneThatFailsAnswersTheCallsThatWantedIt) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  give(connection, connection.first, 9);
  const LinkId failed = begin_route(connection, {1, 2});
  EXPECT_TRUE(has_calls_at(1));
  links().on_failed(now, connection, connection.lane(1));
  expect_system_errors(connection, {1, 2});
  expect_goes_on(connection);
  expect_closed(connection.lane(1));
  EXPECT_FALSE(has_calls_at(1));
  EXPECT_EQ(parts->stats.lane_failures, 1u);
  EXPECT_EQ(backend_stats(1).open_failures, 1u);
  EXPECT_EQ(backend_stats(1).calls_in_flight, 0u);
  EXPECT_EQ(backend_stats(1).server_calls[0], 0u);
  EXPECT_EQ(parts->connections.find(failed), nullptr) << "what its worker may still say is about nobody";
  EXPECT_TRUE(connection.first.pending.has(9)) << "the other backend's";
  expect_no_request();

  const LinkId next = begin_route(connection, {3});
  EXPECT_NE(next, failed);
  EXPECT_EQ(parts->connections.find(next), &connection);
  links().on_opened(now, connection.lane(1));
  EXPECT_EQ(connection.lane(1).state, Lane::State::kOpen);
  EXPECT_TRUE(connection.lane(1).pending.has(3));
  EXPECT_EQ(backend_stats(1).links, 1u);
}

TEST_F(BackendLinksAlone, ARoutesLaneThatIsNotOpenInTimeHasFailed) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = begin_route(connection, {1});
  EXPECT_LE(connection.deadline(), now + options.backends[1].open_timeout);
  now = now + (options.backends[1].open_timeout - Duration::ns(1));
  links().check_routes(now, connection);
  expect_no_request();
  now = now + Duration::ns(1);
  links().check_routes(now, connection);
  expect_closing(link);
  expect_system_errors(connection, {1});
  expect_goes_on(connection);
  EXPECT_EQ(parts->stats.lane_failures, 1u);
}

// The call that said so was answered in the backend's place: the backend has not seen it.
TEST_F(BackendLinksAlone, OfALaneThatFailsNobodyHasSaidThatTheClientTakesCalls) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  (void)begin_route(connection, {1});
  connection.lane(1).reverse_enabled = true;
  links().on_failed(now, connection, connection.lane(1));
  EXPECT_FALSE(connection.lane(1).reverse_enabled);
  expect_system_errors(connection, {1});
}

TEST_F(BackendLinksAlone, ACallThatARoutesBackendKeepsTooLongFailsTheEndpoint) {
  add_route();
  options.backends[1].call_timeout = Duration::seconds(20);
  make_parts();
  Connection& connection = connect_and_open();
  (void)begin_route(connection, {1});
  links().on_opened(now, connection.lane(1));
  now = now + Duration::seconds(19);
  give(connection, connection.lane(1), 2);
  links().check_routes(now, connection);
  expect_goes_on(connection);
  now = now + Duration::seconds(1);
  links().check_routes(now, connection);
  EXPECT_EQ(connection.server->failure(), rpcrdma::EndpointFailure::kCallTimeout);
  links().check_routes(now, connection);
  EXPECT_EQ(backend_stats(1).call_timeouts, 1u);
  EXPECT_EQ(backend_stats(0).call_timeouts, 0u);
}

TEST_F(BackendLinksAlone, WithoutABufferForTheAnswerTheClientComesAgain) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const rpcrdma::Call call = take_call(connection, rpcrdma::rpc_call(1));
  HeapBufferPool none(1, 64, 1);
  const Chain last(none.allocate_one());
  BackendLinks poor({parts->connections, parts->listeners, parts->backends, parts->guard, parts->holds, parts->orphans,
                     parts->requests, parts->stats, none});
  poor.answer(now, connection, call.id, 1, rpcrdma::AcceptStatus::kSystemError);
  EXPECT_TRUE(connection.server->failed());
}

TEST_F(BackendLinksAlone, TheConnectionEndsWithItsFirstLane) {
  make_parts();
  Connection& connection = connect_and_open();
  links().on_closed(connection, connection.first);
  EXPECT_EQ(backend_stats().closes, 1u);
  EXPECT_EQ(backend_stats().links, 0u);
  expect_ending(connection, ConnectionResult::kFailedBackend);
  expect_no_request();  // the worker has forgotten the link
}

TEST_F(BackendLinksAlone, ARoutesBackendThatClosesWhileItOwesRepliesEndsTheConnection) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId first = connection.link;
  (void)begin_route(connection, {1});
  links().on_opened(now, connection.lane(1));
  links().on_closed(connection, connection.lane(1));
  EXPECT_EQ(backend_stats(1).closes, 1u);
  EXPECT_EQ(transport.qp(connection.id).works_pending(), 0u) << "it may have executed the call: nobody answers it";
  expect_ending(connection, ConnectionResult::kFailedBackend);
  expect_closing(first);
  expect_no_request();
  EXPECT_FALSE(has_calls_at(1));
}

TEST_F(BackendLinksAlone, ARoutesBackendThatClosesAndOwesNothingIsOpenedAgainByTheNextCall) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId before = begin_route(connection, {1});
  links().on_opened(now, connection.lane(1));
  answered(connection, connection.lane(1), 1);
  connection.lane(1).reverse_enabled = true;
  links().on_closed(connection, connection.lane(1));
  expect_goes_on(connection);
  EXPECT_FALSE(parts->connections.has_endings());
  expect_closed(connection.lane(1));
  EXPECT_FALSE(connection.lane(1).reverse_enabled);
  EXPECT_EQ(backend_stats(1).closes, 1u);
  EXPECT_EQ(backend_stats(1).links, 0u);
  EXPECT_EQ(parts->stats.lane_failures, 0u);
  EXPECT_EQ(parts->connections.find(before), nullptr);
  EXPECT_NE(begin_route(connection, {2}), before);
}

class WhatAConnectionLeaves : public BackendLinksAlone {
 protected:
  Instant until() const { return now + Duration::seconds(10); }
  void expect_kept(bool kept) {
    EXPECT_EQ(parts->stats.orphans, kept ? 1u : 0u);
    EXPECT_EQ(backend_stats().links, kept ? 1u : 0u);
  }
};

TEST_F(WhatAConnectionLeaves, ALinkWithCallsIsKeptUntilTheyHaveBeenAnswered) {
  PortBook ports(40'000, 40'999);
  options.source_ports = &ports;
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = connection.link;
  give(connection, connection.first, 1);
  free(connection, until());
  expect_no_request();
  expect_kept(true);
  EXPECT_EQ(parts->stats.orphaned_calls, 1u);
  EXPECT_EQ(backend_stats().calls_in_flight, 0u) << "nobody waits for it";
  EXPECT_EQ(ports.used_count(), 0u) << "the client's next connection has it";
  EXPECT_TRUE(has_calls_at(0));
  EXPECT_EQ(parts->orphans.next_deadline(), until());
  BackendEvent event;
  event.kind = BackendEvent::Kind::kMessage;
  event.link = link;
  event.message = rpcrdma::chain_of(packets, rpcrdma::rpc_reply(1).bytes());
  parts->orphans.on_event(now, std::move(event));
  now = now + Orphans::kAnswerSettles;
  parts->orphans.expire(now);
  expect_closing(link);
  expect_kept(false);
  EXPECT_FALSE(has_calls_at(0));
}

TEST_F(WhatAConnectionLeaves, ALinkWithCallsIsClosedWhenNothingIsKept) {
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = connection.link;
  give(connection, connection.first, 1);
  free(connection);
  expect_closing(link);
  expect_kept(false);
  EXPECT_FALSE(has_calls_at(0));
}

TEST_F(WhatAConnectionLeaves, ALinkWhoseLastAnswerIsFreshIsKept) {
  make_parts();
  Connection& connection = connect_and_open();
  give(connection, connection.first, 1);
  answered(connection, connection.first, 1);
  now = now + (Orphans::kAnswerSettles - Duration::ns(1));
  free(connection, until());
  expect_no_request();
  expect_kept(true);
  EXPECT_EQ(parts->stats.orphaned_calls, 0u);
}

TEST_F(WhatAConnectionLeaves, ALinkWhoseLastAnswerIsOldIsClosed) {
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = connection.link;
  give(connection, connection.first, 1);
  answered(connection, connection.first, 1);
  now = now + Orphans::kAnswerSettles;
  free(connection, until());
  expect_closing(link);
  expect_kept(false);
}

TEST_F(WhatAConnectionLeaves, ALinkThatWasNeverUsedIsClosed) {
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId link = connection.link;
  free(connection, until());
  expect_closing(link);
  expect_no_request();
  expect_kept(false);
}

// The worker has the calls, and word that the link is open may be on its way.
class WhatAnOpeningLinkLeaves : public WhatAConnectionLeaves {
 protected:
  // A connection has ended while its route's link was being opened.
  LinkId leave() {
    add_route();
    make_parts();
    Connection& connection = connect_and_open();
    const LinkId first = connection.link;
    const LinkId link = begin_route(connection, {1});
    free(connection, until());
    expect_closing(first);
    expect_no_request();
    EXPECT_EQ(parts->stats.orphans, 1u);
    EXPECT_EQ(backend_stats(1).links, 0u);
    EXPECT_TRUE(has_calls_at(1));
    return link;
  }
  void tell(LinkId link, BackendEvent::Kind kind) {
    BackendEvent event;
    event.kind = kind;
    event.link = link;
    event.backend = 1;
    parts->orphans.on_event(now, std::move(event));
  }
  void expect_gone() {
    EXPECT_EQ(parts->stats.orphans, 0u);
    EXPECT_EQ(backend_stats(1).links, 0u);
    EXPECT_FALSE(has_calls_at(1));
  }
};

TEST_F(WhatAnOpeningLinkLeaves, ItsCallsAreAtTheBackendWhenItOpens) {
  const LinkId link = leave();
  tell(link, BackendEvent::Kind::kPortBusy);
  tell(link, BackendEvent::Kind::kOpened);
  EXPECT_EQ(backend_stats(1).links, 1u);
  EXPECT_TRUE(has_calls_at(1));
  tell(link, BackendEvent::Kind::kClosed);
  expect_gone();
  expect_no_request();
}

TEST_F(WhatAnOpeningLinkLeaves, ItsCallsAreNobodysWhenItFails) {
  tell(leave(), BackendEvent::Kind::kFailed);
  EXPECT_EQ(backend_stats(1).open_failures, 1u);
  expect_gone();
  expect_no_request();
}

TEST_F(WhatAnOpeningLinkLeaves, ItIsClosedAtItsDeadline) {
  const LinkId link = leave();
  now = until();
  parts->orphans.expire(now);
  expect_closing(link);
  expect_gone();
}

TEST_F(WhatAConnectionLeaves, EachLaneIsKeptOrClosedByItself) {
  add_route();
  make_parts();
  Connection& connection = connect_and_open();
  const LinkId first = connection.link;
  (void)begin_route(connection, {1});
  links().on_opened(now, connection.lane(1));
  free(connection, until());
  expect_closing(first);
  expect_no_request();
  EXPECT_EQ(parts->stats.orphans, 1u);
  EXPECT_EQ(backend_stats(1).links, 1u);
  EXPECT_TRUE(has_calls_at(1));
  EXPECT_FALSE(has_calls_at(0));
}

}  // namespace
}  // namespace cw::gateway
