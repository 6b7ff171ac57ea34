// Acceptor alone: who is refused and why, and what a connection takes before and after its client has proved its address. Without
// a gateway nothing ends a connection that is over, and nothing is pumped.
#include "gateway/acceptor.h"

#include "tests/unit/gateway/parts_alone.h"

namespace cw::gateway {
namespace {

constexpr uint16_t kNobodysPort = kFakePort + 1;
constexpr control::IpPrefix kAlicesAddress{.address = kAlice, .length_bits = 32};

class AcceptorAlone : public PartsAlone {
 protected:
  void make(uint32_t requests_max = 64) {
    make_parts(requests_max);
    acceptor.emplace(AcceptorParts{transports, parts->connections, parts->listeners, parts->admission, parts->backends,
                                   parts->links, parts->holds, parts->orphans, parts->activity, parts->broken_calls,
                                   parts->grants, parts->drain, parts->requests, parts->shared, parts->log, parts->stats},
                     reserved_packet_bytes);
  }
  verbs::ConnectionId ask(const IpAddress& peer = kAlice, Bytes private_data = {},
                          std::optional<verbs::ConnectionId> rival = std::nullopt, uint16_t port = kFakePort) {
    const verbs::ConnectionId id = transport.peer_asks(peer, port, private_data, rival);
    acceptor->on_request(now, 0, event());
    return id;
  }
  Connection& of(verbs::ConnectionId id) {
    Connection* connection = parts->connections.find(LinkId(transport.at(id).options.context));
    CW_ASSERT(connection != nullptr);
    return *connection;
  }
  Connection& establish(verbs::ConnectionId id) {
    transport.peer_confirms(id);
    (void)event();
    Connection& connection = of(id);
    acceptor->establish(now, connection, held_until());
    return connection;
  }
  Instant held_until() const { return now + Duration::seconds(10); }
  uint64_t counted(ConnectionResult result) { return parts->stats.connections[static_cast<size_t>(result)]; }
  uint64_t counted_in_all() {
    uint64_t sum = 0;
    for (const uint64_t each : parts->stats.connections) {
      sum += each;
    }
    return sum;
  }
  // The only line in the log, or none.
  std::optional<Notice> notice() {
    if (parts->log.next() == nullptr) {
      return std::nullopt;
    }
    const Notice notice = *parts->log.next();
    parts->log.pop();
    EXPECT_EQ(parts->log.next(), nullptr);
    return notice;
  }
  uint32_t connection_count() {
    uint32_t count = 0;
    parts->connections.for_each([&](const Connection&) { ++count; });
    return count;
  }
  // Refused and counted once, with a line in the log, and nothing of it is left.
  void expect_refused(verbs::ConnectionId id, verbs::RejectReason reason, ConnectionResult result, uint32_t before = 0) {
    EXPECT_EQ(transport.at(id).rejected, reason);
    EXPECT_EQ(transport.at(id).qp, nullptr);
    EXPECT_EQ(counted(result), before + 1);
    EXPECT_EQ(connection_count(), connections_before);
    EXPECT_FALSE(parts->connections.has_endings()) << "it never was a connection";
    expect_no_request();
    const std::optional<Notice> line = notice();
    ASSERT_TRUE(line.has_value());
    EXPECT_EQ(line->result, result);
    EXPECT_EQ(line->peer, transport.at(id).peer);
    EXPECT_EQ(line->listener_port, transport.at(id).port);
    EXPECT_EQ(line->backend, 0u);
  }
  // Half open: a queue pair with one receive, and nothing that is scarce.
  void expect_half_open(verbs::ConnectionId id) {
    EXPECT_EQ(transport.at(id).rejected, std::nullopt);
    ASSERT_NE(transport.at(id).qp, nullptr);
    EXPECT_EQ(transport.qp(id).receives(), 1u);
    const Connection& connection = of(id);
    EXPECT_EQ(connection.state, ConnectionState::kAccepting);
    EXPECT_FALSE(connection.has_place);
    EXPECT_FALSE(connection.server.has_value());
    EXPECT_EQ(connection.lanes, nullptr);
    EXPECT_EQ(notice(), std::nullopt);
    expect_no_request();
  }
  // It is over without having had a place; nobody but the gateway counts it, when it frees it.
  void expect_no_place(const Connection& connection, ConnectionResult result) {
    EXPECT_FALSE(connection.has_place);
    EXPECT_FALSE(connection.server.has_value());
    EXPECT_EQ(connection.lanes, nullptr);
    EXPECT_EQ(counted(result), 0u);
    EXPECT_EQ(notice(), std::nullopt);
    expect_ending(connection, result);
    expect_no_request();
  }

  uint32_t reserved_packet_bytes = 256;
  uint32_t connections_before = 0;
  std::optional<Acceptor> acceptor;
};

TEST_F(AcceptorAlone, NobodyListensAtThatPort) {
  make();
  ASSERT_TRUE(transport.listen(kNobodysPort).ok());  // for somebody else
  const verbs::ConnectionId id = ask(kAlice, {}, std::nullopt, kNobodysPort);
  expect_refused(id, verbs::RejectReason::kNoListener, ConnectionResult::kRefusedResources);
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, AGatewayThatShutsDownRefusesAll) {
  make();
  acceptor->shut_down();
  expect_refused(ask(), verbs::RejectReason::kNoResources, ConnectionResult::kRefusedDraining);
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, AGatewayThatDrainsRefusesAllUntilTheDrainEnds) {
  make();
  parts->drain.begin();
  expect_refused(ask(), verbs::RejectReason::kNoResources, ConnectionResult::kRefusedDraining);
  parts->drain.end();
  expect_half_open(ask());
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, AListenerMayAllowOnlySome) {
  listener().allow = {kAlicesAddress};
  make();
  expect_refused(ask(kBob), verbs::RejectReason::kRefused, ConnectionResult::kRefusedAcl);
  expect_half_open(ask(kAlice));
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, AClassMayBeDenied) {
  options.clients = {{.name = "alices", .prefixes = {kAlicesAddress}, .allow = false}};
  make();
  const verbs::ConnectionId id = ask(kAlice);
  EXPECT_EQ(parts->log.next()->client_class, 0u) << "the log names it";
  expect_refused(id, verbs::RejectReason::kRefused, ConnectionResult::kRefusedClientDenied);
  EXPECT_EQ(parts->stats.clients[0].refused_denied, 1u);
  EXPECT_EQ(parts->stats.clients[0].refused_limit, 0u);
  expect_half_open(ask(kBob));
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, WithoutAPlaceNobodyGetsAnAnswerButTheOneWhoseRivalHasIt) {
  options.connections_max = 1;
  make();
  const verbs::ConnectionId first = ask(kAlice);
  (void)establish(first);
  (void)expect_opening(0);
  connections_before = 1;
  expect_refused(ask(kBob), verbs::RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  EXPECT_EQ(counted_in_all(), 1u);
  expect_half_open(ask(kAlice, {}, first));
}

TEST_F(AcceptorAlone, AClassHasAsManyConnectionsAsItMay) {
  options.clients = {{.name = "alices", .prefixes = {kAlicesAddress}, .connections_max = 1}};
  make();
  (void)establish(ask(kAlice));
  (void)expect_opening(0);
  connections_before = 1;
  const verbs::ConnectionId id = ask(kAlice);
  EXPECT_EQ(parts->log.next()->client_class, 0u);
  expect_refused(id, verbs::RejectReason::kNoResources, ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(parts->stats.clients[0].refused_limit, 1u);
  EXPECT_EQ(counted_in_all(), 1u);
  expect_half_open(ask(kBob));
}

TEST_F(AcceptorAlone, ATableThatIsFullRefuses) {
  options.connections_max = 1;
  options.half_open_max = 1;
  make();
  expect_half_open(ask());
  expect_half_open(ask());
  connections_before = 2;
  expect_refused(ask(), verbs::RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  EXPECT_EQ(counted_in_all(), 1u);
  EXPECT_EQ(parts->stats.connections_open, 0u) << "places are free, and of no use to it";
}

TEST_F(AcceptorAlone, WhileTheWorkersAreBehindNobodyIsAccepted) {
  make(1);
  parts->requests.push({});
  const verbs::ConnectionId id = ask();
  (void)expect_request(BackendRequest::Kind::kClose);
  expect_refused(id, verbs::RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  EXPECT_EQ(counted_in_all(), 1u);
}

TEST_F(AcceptorAlone, ABackendThatIsKnownToBeDownRefusesForAWhile) {
  make();
  parts->backends.note(now, 0, false);
  expect_refused(ask(), verbs::RejectReason::kRefused, ConnectionResult::kRefusedBackend);
  EXPECT_EQ(counted_in_all(), 1u);
  now = now + Duration::seconds(1);
  expect_half_open(ask());
}

TEST_F(AcceptorAlone, WithoutAQueuePairItEndsAndTheGatewayTellsThePeer) {
  make();
  transport.accept_error = Error::kNoResources;
  const verbs::ConnectionId id = ask();
  EXPECT_EQ(transport.at(id).rejected, std::nullopt);
  transport.reject(now, id, verbs::RejectReason::kNoResources, {});
  ASSERT_EQ(parts->connections.at(0)->id, id);
  expect_no_place(*parts->connections.at(0), ConnectionResult::kRefusedResources);
  EXPECT_EQ(counted_in_all(), 0u);
}

TEST_F(AcceptorAlone, OneWhosePeerHasGoneMeanwhileEndsSilently) {
  make();
  transport.accept_error = Error::kBadState;
  const verbs::ConnectionId id = ask();
  ASSERT_TRUE(parts->connections.has_endings());
  const Ending ending = parts->connections.take_ending();
  EXPECT_EQ(ending.connection->id, id);
  EXPECT_EQ(ending.result, ConnectionResult::kFailedHandshake);
  EXPECT_TRUE(ending.peer_ended);
  EXPECT_TRUE(ending.silent);
  EXPECT_EQ(notice(), std::nullopt);
  free(*ending.connection);
}

// Anybody can ask in anybody's name.
TEST_F(AcceptorAlone, ARequestTakesNothingThatIsScarce) {
  make();
  for (int i = 0; i < 3; ++i) {
    const verbs::ConnectionId id = ask();
    expect_half_open(id);
    EXPECT_EQ(of(id).id, id);
    EXPECT_EQ(of(id).peer, kAlice);
    EXPECT_EQ(of(id).created, now);
    EXPECT_EQ(transport.at(id).options.context, of(id).link.value());
    EXPECT_EQ(transport.at(id).options.receive_bytes_max, listener().inline_bytes);
  }
  EXPECT_EQ(parts->stats.connections_open, 0u);
  EXPECT_EQ(parts->guard.client_count(), 0u);
  EXPECT_EQ(parts->shared.stats.credits_granted, 0u);
  EXPECT_EQ(counted_in_all(), 0u);
}

TEST_F(AcceptorAlone, TheAnswerSaysWhatTheListenerTakesAndHearsWhatThePeerTakes) {
  make();
  // RFC 8797: version 1, remote invalidation, 3 KiB to send and 2 KiB to receive.
  const uint8_t theirs[] = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 2, 1};
  const std::vector<uint8_t> ours = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3};
  const verbs::ConnectionId id = ask(kAlice, theirs);
  EXPECT_EQ(transport.at(id).private_data, ours);
  EXPECT_EQ(of(id).thresholds.send_bytes, 2048u);
  EXPECT_EQ(of(id).thresholds.receive_bytes, 3072u);
  EXPECT_TRUE(of(id).thresholds.remote_invalidation);
}

TEST_F(AcceptorAlone, AListenerThatSaysNothingCountsAsOneThatTakesTheLeast) {
  listener().private_data = false;
  make();
  const uint8_t theirs[] = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3};
  const verbs::ConnectionId id = ask(kAlice, theirs);
  EXPECT_TRUE(transport.at(id).private_data.empty());
  EXPECT_EQ(of(id).thresholds.send_bytes, 1024u);
  EXPECT_EQ(of(id).thresholds.receive_bytes, 1024u);
  EXPECT_FALSE(of(id).thresholds.remote_invalidation);
}

TEST_F(AcceptorAlone, WhoHasProvedItsAddressHasAPlaceItsCreditsAndItsBackend) {
  make();
  const verbs::ConnectionId id = ask();
  Connection& connection = establish(id);
  EXPECT_TRUE(connection.has_place);
  EXPECT_EQ(parts->stats.connections_open, 1u);
  EXPECT_EQ(connection.state, ConnectionState::kOpeningBackend);
  EXPECT_EQ(expect_opening(0), connection.link);
  expect_no_request();
  EXPECT_EQ(connection.server->credits_granted(), 8u);
  EXPECT_EQ(transport.qp(id).receives(), 8u) << "the one from before among them";
  EXPECT_EQ(parts->guard.client_count(), 1u);
  EXPECT_EQ(connection.holds, 0u);
  EXPECT_EQ(counted_in_all(), 0u) << "not before its backend is there";
  EXPECT_EQ(notice(), std::nullopt);

  parts->links.on_opened(now, connection.first);
  acceptor->take_calls(connection);
  EXPECT_EQ(connection.state, ConnectionState::kEstablished);
  EXPECT_EQ(counted(ConnectionResult::kAccepted), 1u);
  EXPECT_EQ(counted_in_all(), 1u);
  const std::optional<Notice> line = notice();
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->result, ConnectionResult::kAccepted);
  EXPECT_EQ(line->peer, kAlice);
  EXPECT_EQ(line->listener_port, kFakePort);
  EXPECT_EQ(line->local_qpn, transport.describe(id).local_qpn);
  EXPECT_EQ(line->inline_receive_bytes, connection.thresholds.receive_bytes);
}

TEST_F(AcceptorAlone, ABuiltinProgramTakesCallsAtOnce) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make();
  Connection& connection = establish(ask());
  EXPECT_EQ(connection.state, ConnectionState::kEstablished);
  EXPECT_EQ(counted(ConnectionResult::kAccepted), 1u);
  EXPECT_TRUE(notice().has_value());
  expect_no_request();
}

TEST_F(AcceptorAlone, WhoIsEstablishedAfterTheLastPlaceWasTakenEnds) {
  options.connections_max = 1;
  make();
  const verbs::ConnectionId one = ask(kAlice);
  const verbs::ConnectionId other = ask(kBob);
  (void)establish(one);
  (void)expect_opening(0);
  expect_no_place(establish(other), ConnectionResult::kRefusedLimit);
  EXPECT_EQ(parts->stats.connections_open, 1u);
}

TEST_F(AcceptorAlone, WhoIsEstablishedAfterTheLastPlaceOfItsClassWasTakenEnds) {
  options.clients = {{.name = "alices", .prefixes = {kAlicesAddress}, .connections_max = 1}};
  make();
  const verbs::ConnectionId one = ask();
  const verbs::ConnectionId other = ask();
  (void)establish(one);
  (void)expect_opening(0);
  expect_no_place(establish(other), ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(parts->stats.clients[0].refused_limit, 1u);
  EXPECT_EQ(parts->stats.clients[0].connections, 1u);
  EXPECT_EQ(parts->stats.connections_open, 1u);
}

TEST_F(AcceptorAlone, WhoIsEstablishedWhileTheWorkersAreBehindEnds) {
  make(1);
  const verbs::ConnectionId id = ask();
  parts->requests.push({});
  Connection& connection = establish(id);
  (void)expect_request(BackendRequest::Kind::kClose);
  EXPECT_EQ(parts->stats.connections_open, 0u);
  expect_no_place(connection, ConnectionResult::kRefusedLimit);
}

TEST_F(AcceptorAlone, CallsWaitForThoseOfTheClientsConnectionBefore) {
  make();
  Connection& before = establish(ask());
  const uint32_t call = parts->guard.begin(*before.first.client);
  Connection& next = establish(ask());
  EXPECT_EQ(next.holds, 1u);
  EXPECT_EQ(next.held_until, held_until());
  EXPECT_EQ(before.holds, 0u);
  parts->guard.end(*before.first.client, call);
  EXPECT_EQ(parts->holds.next_released(), &next);
}

TEST_F(AcceptorAlone, AClassBoundsCreditsAndHasItsBudget) {
  options.clients = {{.name = "alices", .prefixes = {kAlicesAddress}, .credits_max = 3}};
  make();
  const verbs::ConnectionId id = ask(kAlice);
  EXPECT_EQ(establish(id).server->credits_granted(), 3u);
  EXPECT_EQ(transport.qp(id).receives(), 3u);
  EXPECT_EQ(parts->admission.budget(0).credits_granted, 3u);
  EXPECT_EQ(establish(ask(kBob)).server->credits_granted(), 8u);
  EXPECT_EQ(parts->admission.budget(0).credits_granted, 3u);
}

// 4 KiB in packets of 256 bytes take sixteen buffers, and four are reserved.
TEST_F(AcceptorAlone, SmallPacketsHaveFewerCreditsInTheSameBuffers) {
  reserved_packet_bytes = 1024;
  listener().server.reverse_credits = 1;
  make();
  transport.limits.packet_bytes = 256;
  EXPECT_EQ(establish(ask()).server->credits_granted(), 2u);
  transport.limits.packet_bytes = 1024;
  EXPECT_EQ(establish(ask()).server->credits_granted(), 8u);
}

TEST_F(AcceptorAlone, ACallThatBrokeTheClientsConnectionBreaksNoOther) {
  make();
  parts->broken_calls.remember(now, kAlice, 0, 7);
  parts->broken_calls.remember(now, kAlice, 1, 8);  // at another listener
  parts->broken_calls.remember(now, kBob, 0, 8);
  const verbs::ConnectionId id = ask(kAlice);
  Connection& connection = establish(id);
  for (const uint32_t xid : {7u, 8u}) {
    client_sends(connection, rpcrdma::inline_call(xid, rpcrdma::rpc_call(xid)));
  }
  ASSERT_EQ(transport.qp(id).works_pending(), 1u);
  const std::vector<uint32_t> error = {7, 1, 8, 4, 2};
  EXPECT_EQ(rpcrdma::words_of(transport.qp(id).posted().front().payload), error) << "ERR_CHUNK";
  EXPECT_EQ(connection.server->next_xid(), 8u);
}

}  // namespace
}  // namespace cw::gateway
