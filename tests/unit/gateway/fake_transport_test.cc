// The gateway and the client on a transport without a wire: the test plays the peers and, for the gateway, the workers. What
// they do with each event of the seam (verbs::Transport) is seen here in the order that the test chooses.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/client/client.h"
#include "rpcrdma/wire/private_data.h"
#include "tests/unit/gateway/gateway_on_fake.h"

namespace cw::gateway {
namespace {

using rpcrdma::chain_of;
using rpcrdma::rpc_call;
using rpcrdma::rpc_reply;
using rpcrdma::Words;
using rpcrdma::words_of;
using test::FakeTransport;
using verbs::ConnectionId;
using verbs::RejectReason;
using FakeState = FakeTransport::State;

constexpr verbs::QueuePairError kRetriesExhausted{.cause = "retry_exceeded", .origin = "requester", .sequence = 77};

// The other tests rest on this: who breaks the seam's rules is found out.
TEST(FakeTransport, NotesWhatItsUserMustNotDo) {
  FakeTransport transport;
  const Instant now = Instant::from_ns(1);
  ASSERT_TRUE(transport.listen(kFakePort).ok());
  verbs::ConnectionEvent event;
  const auto next_asks = [&] {
    const ConnectionId id = transport.peer_asks(kAlice, kFakePort);
    EXPECT_TRUE(transport.poll_event(now, event));
    return id;
  };
  size_t known = 0;
  const auto expect_noted = [&](std::string_view what) {
    ASSERT_EQ(transport.violations().size(), ++known) << what;
    EXPECT_EQ(transport.violations().back().rfind(what, 0), 0u) << transport.violations().back();
  };
  (void)next_asks();
  EXPECT_FALSE(transport.poll_event(now, event));
  expect_noted("poll_event()");

  const ConnectionId refused = next_asks();
  transport.reject(now, refused, RejectReason::kRefused, {});
  transport.reject(now, refused, RejectReason::kRefused, {});
  expect_noted("reject()");
  EXPECT_FALSE(transport.accept(now, refused, {}).ok());
  expect_noted("accept()");

  const ConnectionId accepted = next_asks();
  EXPECT_TRUE(transport.accept(now, accepted, {}).ok());
  EXPECT_FALSE(transport.accept(now, accepted, {}).ok());
  expect_noted("accept()");
  transport.destroy(accepted);
  EXPECT_EQ(transport.violations().size(), known);
  transport.destroy(accepted);
  expect_noted("destroy()");
  transport.disconnect(now, accepted);
  expect_noted("disconnect()");
  transport.notify(now, accepted);
  expect_noted("notify()");
  (void)transport.describe(accepted);
  expect_noted("describe()");

  const auto connecting = transport.connect(now, kBob, kFakePort, {});
  transport.establish(now, *connecting);
  expect_noted("establish()");
  EXPECT_EQ(transport.held_count(), 2u) << "the request that was not decided, and this one";
}

TEST_F(GatewayOnAFakeTransport, CarriesACallFromTheRequestForAConnectionToItsReply) {
  start();
  const std::vector<uint8_t> says = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 1, 1};  // 2048 both ways, remote invalidation
  const ConnectionId id = transport.peer_asks(kAlice, kFakePort, says);
  turn();
  EXPECT_EQ(transport.at(id).options.receive_bytes_max, 4096u);
  EXPECT_EQ(transport.at(id).private_data, (std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}));
  confirm(id);
  EXPECT_EQ(transport.qp(id).receives(), 8u);
  const std::optional<BackendRequest> opening = request();
  ASSERT_TRUE(opening && opening->kind == BackendRequest::Kind::kOpen);
  EXPECT_EQ(opening->client, kAlice);
  call(id, 1);
  expect_no_request();
  worker_says(opening->link, BackendEvent::Kind::kOpened);
  expect_forwarded(opening->link, 1);
  worker_replies(opening->link, 1);
  expect_replied(id, 1);
  acknowledge(id);
  EXPECT_EQ(transport.qp(id).receives(), 8u);
  std::array<ConnectionInfo, 2> infos;
  ASSERT_EQ(gateway->describe(now, infos), 1u);
  EXPECT_EQ(infos[0].state, ConnectionState::kEstablished);
  EXPECT_EQ(infos[0].peer, kAlice);
  EXPECT_EQ(infos[0].calls, 1u);
  EXPECT_EQ(infos[0].calls_in_flight, 0u);
  EXPECT_EQ(infos[0].thresholds, (rpcrdma::InlineThresholds{2048, 2048, true}));
  EXPECT_EQ(ended(ConnectionResult::kAccepted), 1u);
  EXPECT_EQ(gateway->slots_in_use(), 0u);
}

TEST_F(GatewayOnAFakeTransport, ListensAtAllItsPortsOrAtNone) {
  options.listeners.push_back(listener());
  options.listeners.back().port = kFakePort + 1;
  transport.ports_max = 1;
  gateway.emplace(options, transport, packets, packets, programs, random);
  EXPECT_FALSE(gateway->start().ok());
  EXPECT_TRUE(transport.ports().empty());
}

// The listener goes between the request and the turn that looks at it.
TEST_F(GatewayOnAFakeTransport, RefusesWhatNobodyListensFor) {
  start();
  const ConnectionId late = transport.peer_asks(kAlice, kFakePort);
  GatewayOptions fresh = options;
  fresh.listeners.front().removed = true;
  gateway->reconfigure(fresh);
  EXPECT_TRUE(transport.ports().empty());
  turn();
  expect_refused(late, RejectReason::kNoListener, ConnectionResult::kRefusedResources);
}

TEST_F(GatewayOnAFakeTransport, RefusesWhoIsNotInTheAccessList) {
  listener().allow = {{.address = kBob, .length_bits = 32}};
  start();
  expect_refused(ask(kAlice), RejectReason::kRefused, ConnectionResult::kRefusedAcl);
  EXPECT_EQ(last_notice().peer, kAlice);
  EXPECT_EQ(transport.at(ask(kBob)).state, FakeState::kAnswered);
}

TEST_F(GatewayOnAFakeTransport, APeerThatLeavesIsNotOneThatWasLost) {
  start();
  const Opened left = open(kAlice);
  const Opened lost = open(kBob);
  transport.peer_leaves(left.id);
  turn();
  EXPECT_EQ(last_notice().result, ConnectionResult::kClosedByPeer);
  transport.wire_loses(lost.id);
  turn();
  EXPECT_EQ(last_notice().result, ConnectionResult::kFailedTransport);
  EXPECT_EQ(ended(ConnectionResult::kClosedByPeer), 1u);
  EXPECT_EQ(ended(ConnectionResult::kFailedTransport), 1u);
}

TEST_F(GatewayOnAFakeTransport, AFullListenerRefusesUntilAPlaceIsFree) {
  listener().connections_max = 1;
  start();
  const Opened first = open(kAlice);
  expect_refused(ask(kBob), RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  for (int i = 0; i < 20; ++i) {
    (void)ask(kBob);  // which costs nothing however often
  }
  EXPECT_EQ(transport.held_count(), 1u);
  transport.peer_leaves(first.id);
  turn();
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), first.link);
  EXPECT_EQ(transport.at(ask(kBob)).state, FakeState::kAnswered);
  EXPECT_EQ(transport.at(ask(kAlice)).state, FakeState::kAnswered) << "both may have the place, until one confirms";
}

TEST_F(GatewayOnAFakeTransport, AFullClassRefusesItsOwnAlone) {
  options.clients = {{.name = "alices", .prefixes = {{.address = kAlice, .length_bits = 32}}, .connections_max = 1}};
  start();
  (void)open(kAlice);
  expect_refused(ask(kAlice), RejectReason::kNoResources, ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(last_notice().client_class, 0u);
  EXPECT_EQ(transport.at(ask(kBob)).state, FakeState::kAnswered);
}

// Forged requests are never confirmed. They cost what half_open_max says, and give all of it back without a line in the log.
TEST_F(GatewayOnAFakeTransport, HalfOpenConnectionsAreBoundedAndLeaveNothing) {
  options.connections_max = 1;
  options.half_open_max = 1;
  start();
  const ConnectionId forged[] = {ask(kAlice), ask(kBob)};
  expect_refused(ask(kAlice), RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  (void)last_notice();
  for (const ConnectionId id : forged) {
    transport.peer_is_silent(id);
  }
  turn();
  EXPECT_EQ(gateway->next_notice(), nullptr);
  EXPECT_EQ(ended(ConnectionResult::kFailedHandshake), 2u);
  EXPECT_EQ(transport.held_count(), 0u);
  EXPECT_EQ(transport.live_count(), 0u);
  (void)open(kBob);
}

TEST_F(GatewayOnAFakeTransport, NothingScarceIsTakenBeforeItIsEstablished) {
  start();
  const Opened before = open(kAlice);
  const ConnectionId id = ask(kAlice, before.id);
  ASSERT_EQ(transport.at(id).state, FakeState::kAnswered);
  EXPECT_EQ(transport.qp(id).receives(), 1u);
  EXPECT_TRUE(transport.qp(id).history().empty());
  expect_no_request();
  EXPECT_EQ(open_count(), 1u);
  EXPECT_EQ(gateway->rpcrdma_stats().credits_granted, 8u) << "those of the connection before";
  // Which goes on.
  ASSERT_FALSE(transport.at(before.id).destroyed);
  call(before.id, 1);
  expect_forwarded(before.link, 1);
  worker_replies(before.link, 1);
  expect_replied(before.id, 1);
  transport.peer_is_silent(id);
  turn();
  EXPECT_EQ(open_count(), 1u);
  EXPECT_EQ(transport.held_count(), 1u);
  EXPECT_EQ(transport.at(before.id).state, FakeState::kEstablished);
}

TEST_F(GatewayOnAFakeTransport, TheRivalsPlaceCountsAsFree) {
  options.connections_max = 1;
  options.clients = {{.name = "alices", .prefixes = {{.address = kAlice, .length_bits = 32}}, .connections_max = 1}};
  start();
  const Opened before = open(kAlice);
  expect_refused(ask(kAlice), RejectReason::kNoResources, ConnectionResult::kRefusedLimit);
  const ConnectionId id = ask(kAlice, before.id);
  ASSERT_EQ(transport.at(id).state, FakeState::kAnswered);
  confirm(id);
  EXPECT_TRUE(transport.at(before.id).destroyed);
  EXPECT_EQ(ended(ConnectionResult::kClosedByPeer), 1u);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), before.link);
  expect_request(BackendRequest::Kind::kOpen);
  EXPECT_EQ(open_count(), 1u);
  EXPECT_EQ(gateway->stats().clients[0].connections, 1u);
}

TEST_F(GatewayOnAFakeTransport, WhoConfirmsFirstHasTheLastPlace) {
  options.connections_max = 1;
  start();
  const ConnectionId slow = ask(kAlice);
  const ConnectionId quick = ask(kBob);
  confirm(quick);
  expect_request(BackendRequest::Kind::kOpen);
  confirm(slow);
  expect_disconnected(slow, ConnectionResult::kRefusedLimit);
  expect_no_request();
  EXPECT_EQ(transport.at(quick).state, FakeState::kEstablished);
}

// Whom the class has no room for leaves the place to another.
TEST_F(GatewayOnAFakeTransport, WhoConfirmsFirstHasTheLastPlaceOfItsClass) {
  options.connections_max = 2;
  options.clients = {{.name = "alices", .prefixes = {{.address = kAlice, .length_bits = 32}}, .connections_max = 1}};
  start();
  const ConnectionId slow = ask(kAlice);
  const ConnectionId quick = ask(kAlice);
  confirm(quick);
  expect_request(BackendRequest::Kind::kOpen);
  confirm(slow);
  expect_disconnected(slow, ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(gateway->stats().clients[0].refused_limit, 1u);
  (void)open(kBob);
  EXPECT_EQ(open_count(), 2u);
}

TEST_F(GatewayOnAFakeTransport, WithoutAQueuePairTheRequestIsRejected) {
  start();
  transport.accept_error = Error::kNoResources;
  const ConnectionId id = ask(kAlice);
  expect_refused(id, RejectReason::kNoResources, ConnectionResult::kRefusedResources);
  for (int i = 0; i < 20; ++i) {
    (void)ask(kAlice);
  }
  EXPECT_EQ(transport.held_count(), 0u);
  transport.accept_error.reset();
  (void)open(kAlice);
}

TEST_F(GatewayOnAFakeTransport, APeerThatGaveUpIsToldNothing) {
  start();
  transport.accept_error = Error::kBadState;
  const ConnectionId id = ask(kAlice);
  EXPECT_EQ(transport.at(id).rejected, std::nullopt);
  EXPECT_EQ(transport.at(id).disconnects, 0u);
  EXPECT_TRUE(transport.at(id).destroyed);
  EXPECT_EQ(ended(ConnectionResult::kFailedHandshake), 1u);
  for (int i = 0; i < 20; ++i) {
    (void)ask(kAlice);
  }
  transport.accept_error.reset();
  (void)open(kAlice);
}

TEST_F(GatewayOnAFakeTransport, TheFirstMessageMayEstablish) {
  start();
  const ConnectionId id = ask(kAlice);
  transport.make_ready(id);  // news that is no message
  turn();
  EXPECT_EQ(transport.at(id).state, FakeState::kAnswered);
  expect_no_request();
  call(id, 1);
  EXPECT_EQ(transport.at(id).notifies, 2u);
  EXPECT_EQ(transport.at(id).state, FakeState::kEstablished);
  const LinkId link = expect_request(BackendRequest::Kind::kOpen);
  worker_says(link, BackendEvent::Kind::kOpened);
  expect_forwarded(link, 1);
  EXPECT_EQ(transport.qp(id).receives(), 7u);
}

TEST_F(GatewayOnAFakeTransport, AQueuePairThatBreaksBeforeItIsEstablishedEndsTheHandshake) {
  start();
  const ConnectionId id = ask(kAlice);
  transport.break_queue_pair(id, verbs::WcStatus::kWorkRequestFlushed, kRetriesExhausted);
  turn();
  expect_disconnected(id, ConnectionResult::kFailedHandshake);
  EXPECT_EQ(transport.at(id).notifies, 0u);
}

// The backend may execute the first copy of a call after what the client does next.
TEST_F(GatewayOnAFakeTransport, CallsOfTheNextConnectionWaitForThoseThatThePeerLeftBehind) {
  start();
  const Opened before = open(kAlice);
  call(before.id, 1);
  expect_forwarded(before.link, 1);
  transport.peer_leaves(before.id);
  turn();
  EXPECT_EQ(ended(ConnectionResult::kClosedByPeer), 1u);
  EXPECT_EQ(transport.at(before.id).disconnects, 0u) << "the peer knows";
  EXPECT_EQ(gateway->stats().orphans, 1u);
  EXPECT_EQ(gateway->stats().orphaned_calls, 1u);
  expect_no_request();

  const Opened next = open(kAlice);
  call(next.id, 1);
  expect_no_request();
  EXPECT_EQ(gateway->stats().connections_held, 1u);
  worker_replies(before.link, 1);
  expect_no_request();  // the server may still have to note that it has answered
  turn(Orphans::kAnswerSettles);
  EXPECT_EQ(gateway->stats().orphans, 0u);
  std::vector<BackendRequest::Kind> asked;
  std::vector<LinkId> links;
  while (const std::optional<BackendRequest> next_request = request()) {
    asked.push_back(next_request->kind);
    links.push_back(next_request->link);
  }
  EXPECT_EQ(asked, (std::vector{BackendRequest::Kind::kClose, BackendRequest::Kind::kSend}));
  EXPECT_EQ(links, (std::vector{before.link, next.link}));
}

// Its peer has perhaps not seen the reply, and repeats the call.
TEST_F(GatewayOnAFakeTransport, CallsOfTheNextConnectionWaitBehindAnAnswerThatHasJustCome) {
  start();
  const Opened before = open(kAlice);
  call(before.id, 1);
  expect_forwarded(before.link, 1);
  worker_replies(before.link, 1);
  expect_replied(before.id, 1);
  transport.peer_leaves(before.id);
  turn();
  expect_no_request();

  const Opened next = open(kAlice);
  call(next.id, 1);
  turn(Orphans::kAnswerSettles - Duration::us(10));
  expect_no_request();
  turn(Duration::us(10));
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), before.link);
  expect_forwarded(next.link, 1);
  EXPECT_EQ(gateway->stats().orphaned_calls, 0u);
  EXPECT_EQ(gateway->stats().orphaned_expired, 0u);

  // An answer that is older holds nobody.
  worker_replies(next.link, 1);
  turn(Orphans::kAnswerSettles);
  transport.peer_leaves(next.id);
  turn();
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), next.link);
  EXPECT_EQ(gateway->stats().orphans, 0u);
}

TEST_F(GatewayOnAFakeTransport, ABackendThatCannotBeReachedEndsTheConnection) {
  start();
  const ConnectionId id = ask(kAlice);
  confirm(id);
  worker_says(expect_request(BackendRequest::Kind::kOpen), BackendEvent::Kind::kFailed);
  expect_disconnected(id, ConnectionResult::kRefusedBackend);
  EXPECT_EQ(open_count(), 0u);
}

TEST_F(GatewayOnAFakeTransport, ABackendThatClosesEndsTheConnection) {
  start();
  const Opened opened = open(kAlice);
  call(opened.id, 1);
  expect_forwarded(opened.link, 1);
  worker_says(opened.link, BackendEvent::Kind::kClosed);
  expect_disconnected(opened.id, ConnectionResult::kFailedBackend);
  expect_no_request();  // the worker has forgotten the link
  EXPECT_EQ(gateway->stats().orphans, 0u);
  EXPECT_EQ(gateway->slots_in_use(), 0u);
}

TEST_F(GatewayOnAFakeTransport, AQueuePairInErrorEndsItsConnection) {
  start();
  const Opened opened = open(kAlice);
  (void)last_notice();
  transport.break_queue_pair(opened.id, verbs::WcStatus::kRetryExceeded, kRetriesExhausted);
  turn();
  expect_disconnected(opened.id, ConnectionResult::kFailedTransport);
  EXPECT_EQ(last_notice().qp_error, kRetriesExhausted);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
}

TEST_F(GatewayOnAFakeTransport, ADrainAnswersWhatWasTakenAndThenDisconnects) {
  start();
  const Opened opened = open(kAlice);
  const ConnectionId half_open = ask(kBob);
  call(opened.id, 1);
  expect_forwarded(opened.link, 1);
  gateway->drain(now);
  EXPECT_EQ(transport.at(half_open).disconnects, 1u);
  call(opened.id, 2);
  expect_no_request();
  EXPECT_EQ(transport.at(ask(kBob)).rejected, RejectReason::kNoResources);
  worker_replies(opened.link, 1);
  expect_replied(opened.id, 1);
  turn(Duration::ms(50));
  ASSERT_EQ(transport.at(opened.id).disconnects, 0u) << "the peer may not have the reply";
  transport.peer_acknowledges(opened.id);
  turn(Duration::ms(50));
  expect_disconnected(opened.id, ConnectionResult::kDrained);
  EXPECT_EQ(ended(ConnectionResult::kRefusedDraining), 2u);
  EXPECT_EQ(gateway->stats().orphaned_calls, 0u);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
}

TEST_F(GatewayOnAFakeTransport, ShutDownIsOverWhenThePeersKnow) {
  start();
  const Opened opened = open(kAlice);
  const ConnectionId half_open = ask(kBob);
  gateway->shut_down(now);
  EXPECT_TRUE(transport.ports().empty());
  expect_disconnected(opened.id, ConnectionResult::kClosedByUs);
  expect_disconnected(half_open, ConnectionResult::kRefusedDraining);
  EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
  turn();
  EXPECT_FALSE(gateway->is_quiet());
  transport.peers_hear_of_partings();
  EXPECT_TRUE(gateway->is_quiet());
}

// A message takes a buffer for each packet, and buffers are reserved for packets of 1024 bytes.
TEST_F(GatewayOnAFakeTransport, CreditsFollowThePacketsOfTheTransport) {
  options.reserved_packet_bytes = 1024;
  start();
  constexpr std::array<std::pair<uint32_t, uint32_t>, 4> kCredits = {{{4096, 8}, {1024, 8}, {512, 4}, {256, 2}}};
  for (const auto& [packet_bytes, credits] : kCredits) {
    SCOPED_TRACE(packet_bytes);
    transport.limits.packet_bytes = packet_bytes;
    const Opened opened = open(kAlice);
    EXPECT_EQ(transport.qp(opened.id).receives(), credits);
    EXPECT_EQ(last_notice().packet_bytes, packet_bytes);
    call(opened.id, 1);
    expect_forwarded(opened.link, 1);
    worker_replies(opened.link, 1);
    expect_replied(opened.id, 1, credits);
    acknowledge(opened.id);
    transport.peer_leaves(opened.id);
    turn();
    turn(Orphans::kAnswerSettles);
    EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
  }
}

class ClientOnAFakeTransport : public ::testing::Test {
 protected:
  ClientOnAFakeTransport() {
    options.connections_max = 2;
    client.emplace(options, transport, memory, packets, random);
  }
  void TearDown() override {
    client.reset();
    EXPECT_EQ(transport.held_count(), 0u);
    EXPECT_EQ(transport.violations(), std::vector<std::string>());
    EXPECT_EQ(memory.region_count(), 0u);
    EXPECT_EQ(packets.in_use(), 0u) << "a Buffer has leaked";
  }

  void turn() {
    now = now + Duration::us(1);
    client->run(now);
  }
  // Asks the server for a connection; transport.last() is its own.
  client::ClientId connect() {
    const auto id = client->connect(now, kAlice, kFakePort);
    EXPECT_TRUE(id.ok());
    turn();
    return *id;
  }
  client::ClientId open() {
    const client::ClientId id = connect();
    transport.peer_answers(transport.last().id);
    turn();
    expect_event(client::ClientEvent::Kind::kConnected, id);
    return id;
  }
  client::ClientEvent expect_event(client::ClientEvent::Kind kind, client::ClientId id) {
    client::ClientEvent event;
    EXPECT_TRUE(client->poll_event(event));
    EXPECT_EQ(event.kind, kind);
    EXPECT_EQ(event.id, id);
    expect_no_event();
    return event;
  }
  void expect_no_event() {
    client::ClientEvent event;
    EXPECT_FALSE(client->poll_event(event));
  }

  client::ClientOptions options;
  FakeTransport transport;
  HeapBufferPool packets{64, 4096, 16};
  SeededRandom random{6};
  verbs::MemoryTable memory{32, random};
  Instant now = Instant::from_ns(1'000'000);
  std::optional<client::Client> client;
};

TEST_F(ClientOnAFakeTransport, ConnectsAndCallsWhenTheServerHasAnswered) {
  const client::ClientId id = connect();
  const ConnectionId connection = transport.last().id;
  EXPECT_EQ(transport.last().peer, kAlice);
  EXPECT_EQ(transport.last().port, kFakePort);
  EXPECT_EQ(transport.last().private_data, (std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}));
  EXPECT_EQ(client->endpoint(id), nullptr);
  expect_no_event();

  transport.peer_answers(connection, std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 1, 1});
  turn();
  expect_event(client::ClientEvent::Kind::kConnected, id);
  EXPECT_EQ(transport.at(connection).state, FakeState::kEstablished);
  ASSERT_NE(client->endpoint(id), nullptr);
  EXPECT_EQ(client->endpoint(id)->thresholds(), (rpcrdma::InlineThresholds{2048, 2048, true}));

  rpcrdma::ClientCall call;
  call.message = chain_of(packets, rpc_call(0).bytes());
  ASSERT_TRUE(client->endpoint(id)->submit(now, std::move(call)).ok());
  ASSERT_EQ(transport.qp(connection).posted().size(), 1u);
  const uint32_t xid = words_of(transport.qp(connection).posted().front().payload).front();
  transport.peer_acknowledges(connection);
  ASSERT_TRUE(
      transport.peer_sends(connection, chain_of(packets, Words{xid, 1, 8, 0, 0, 0, 0}.raw(rpc_reply(xid).bytes()).bytes())));
  turn();
  EXPECT_EQ(client->poll_ready(), id);
  rpcrdma::ClientReply reply;
  ASSERT_TRUE(client->endpoint(id)->poll_reply(reply));
  EXPECT_EQ(words_of(reply.message), rpc_reply(xid).words());
}

// A key shown to one server opens nothing for another.
TEST_F(ClientOnAFakeTransport, EachConnectionHasADomainOfItsOwnAndTheirNumberIsBounded) {
  (void)connect();
  const verbs::ProtectionDomain first = transport.last().options.domain;
  (void)connect();
  EXPECT_NE(transport.last().options.domain, first);
  EXPECT_EQ(client->connect(now, kAlice, kFakePort).error(), Error::kNoResources);
}

TEST_F(ClientOnAFakeTransport, IsRefusedWithTheReason) {
  const client::ClientId id = connect();
  const ConnectionId connection = transport.last().id;
  transport.peer_rejects(connection, {.reason = RejectReason::kOther, .name = "stale_connection"});
  turn();
  const client::ClientEvent refused = expect_event(client::ClientEvent::Kind::kRefused, id);
  EXPECT_EQ(refused.rejection.reason, RejectReason::kOther);
  EXPECT_EQ(refused.rejection.name, "stale_connection");
  EXPECT_TRUE(transport.at(connection).destroyed);
  EXPECT_EQ(transport.at(connection).disconnects, 0u);

  const client::ClientId again = connect();
  transport.peer_is_silent(transport.last().id);
  turn();
  EXPECT_EQ(expect_event(client::ClientEvent::Kind::kRefused, again).rejection.reason, RejectReason::kNoAnswer);
}

TEST_F(ClientOnAFakeTransport, ALostConnectionSaysWhatItsQueuePairDiedOf) {
  const client::ClientId left = open();
  const ConnectionId connection = transport.last().id;
  transport.break_queue_pair(connection, verbs::WcStatus::kRetryExceeded, kRetriesExhausted);
  transport.peer_leaves(connection);
  turn();
  EXPECT_EQ(expect_event(client::ClientEvent::Kind::kLost, left).qp_error, kRetriesExhausted);
  EXPECT_EQ(transport.at(connection).disconnects, 0u);

  // Without a word of the server: it is told, once its user has had a look at the outcomes.
  const client::ClientId broken = open();
  const ConnectionId second = transport.last().id;
  transport.break_queue_pair(second, verbs::WcStatus::kRetryExceeded, kRetriesExhausted);
  turn();
  EXPECT_EQ(client->poll_ready(), broken);
  expect_no_event();
  turn();
  EXPECT_EQ(expect_event(client::ClientEvent::Kind::kLost, broken).qp_error, kRetriesExhausted);
  EXPECT_EQ(transport.at(second).disconnects, 1u);
  EXPECT_EQ(client->connected_count(), 0u);
}

TEST_F(ClientOnAFakeTransport, DisconnectsWhileItConnectsAndHearsNoMoreOfIt) {
  const client::ClientId id = connect();
  const ConnectionId connection = transport.last().id;
  client->disconnect(now, id);
  EXPECT_EQ(transport.at(connection).disconnects, 1u);
  EXPECT_TRUE(transport.at(connection).destroyed);
  transport.peer_answers(connection);
  turn();
  expect_no_event();
  // The id is dead.
  client->disconnect(now, id);
  EXPECT_EQ(client->endpoint(id), nullptr);
  EXPECT_EQ(client->queue_pair(id), nullptr);
  EXPECT_EQ(client->describe(id).local_qpn, verbs::Qpn());
  EXPECT_EQ(client->cancel(id, 1).error(), Error::kBadState);
}

TEST_F(ClientOnAFakeTransport, AnEventOfADeadConnectionDoesNotHitTheNextOneInItsPlace) {
  const client::ClientId id = connect();
  transport.peer_rejects(transport.last().id, {});
  client->disconnect(now, id);
  const auto next = client->connect(now, kAlice, kFakePort);
  ASSERT_TRUE(next.ok());
  ASSERT_EQ(*next, id);
  turn();
  expect_no_event();
  transport.peer_answers(transport.last().id);
  turn();
  expect_event(client::ClientEvent::Kind::kConnected, id);
}

}  // namespace
}  // namespace cw::gateway
