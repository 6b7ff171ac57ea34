// The gateway on a transport without a wire (FakeTransport), for tests of what it decides: the test plays the peers and the
// workers, and chooses the order and the time of everything.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "gateway/gateway.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "tests/support/fake_transport.h"
#include "tests/unit/endpoint/words.h"

namespace cw::gateway {

inline constexpr uint16_t kFakePort = 20049;
inline constexpr IpAddress kAlice = IpAddress::v4(0x0a00'0001);
inline constexpr IpAddress kBob = IpAddress::v4(0x0a00'0002);

// One listener in front of one TCP backend.
class GatewayOnAFakeTransport : public ::testing::Test {
 protected:
  GatewayOnAFakeTransport() {
    options.backends = {{.name = "nfs", .kind = BackendKind::kTcp}};
    ListenerOptions listener;
    listener.name = "all";
    listener.port = kFakePort;
    listener.server.credits = 8;
    options.listeners = {listener};
    options.connections_max = 4;
    options.half_open_max = 4;
    options.calls_in_flight_max = 64;
  }
  ListenerOptions& listener() { return options.listeners.front(); }
  void start() {
    gateway.emplace(options, transport, packets, packets, programs, random);
    ASSERT_TRUE(gateway->start().ok());
  }
  // Whatever a test leaves behind, the gateway gives back when it ends.
  void TearDown() override {
    gateway.reset();
    EXPECT_EQ(transport.held_count(), 0u);
    EXPECT_EQ(transport.violations(), std::vector<std::string>());
    EXPECT_EQ(packets.in_use(), 0u) << "a Buffer has leaked";
  }

  void turn(Duration passed = Duration::us(1)) {
    now = now + passed;
    gateway->run(now);
  }
  verbs::ConnectionId ask(const IpAddress& peer, std::optional<verbs::ConnectionId> rival = std::nullopt) {
    const verbs::ConnectionId id = transport.peer_asks(peer, kFakePort, {}, rival);
    turn();
    return id;
  }
  void confirm(verbs::ConnectionId id) {
    transport.peer_confirms(id);
    turn();
  }
  std::optional<BackendRequest> request() {
    BackendRequest request;
    return gateway->poll_backend_request(request) ? std::optional(std::move(request)) : std::nullopt;
  }
  // The next request to the workers is of this kind; gives its link.
  LinkId expect_request(BackendRequest::Kind kind) {
    const std::optional<BackendRequest> next = request();
    EXPECT_TRUE(next && next->kind == kind);
    return next ? next->link : LinkId();
  }
  void expect_no_request() { EXPECT_FALSE(request().has_value()); }
  // The next request opens a link to the backend, or server 0 of it; gives the link.
  LinkId expect_opening(uint32_t backend, uint32_t server = 0) {
    const std::optional<BackendRequest> next = request();
    EXPECT_TRUE(next && next->kind == BackendRequest::Kind::kOpen);
    EXPECT_EQ(next ? next->backend : UINT32_MAX, backend);
    EXPECT_EQ(next ? next->server : UINT32_MAX, server);
    return next ? next->link : LinkId();
  }
  void expect_forwarded(LinkId link, uint32_t xid, uint32_t program = rpcrdma::kBenchProgram) {
    const std::optional<BackendRequest> next = request();
    ASSERT_TRUE(next && next->kind == BackendRequest::Kind::kSend);
    EXPECT_EQ(next->link, link);
    EXPECT_EQ(rpcrdma::words_of(next->message), rpcrdma::rpc_call(xid, 0, program).words());
  }
  void worker_says(LinkId link, BackendEvent::Kind kind) {
    BackendEvent event;
    event.kind = kind;
    event.link = link;
    gateway->on_backend_event(now, std::move(event));
    turn();
  }
  void worker_replies(LinkId link, uint32_t xid) {
    BackendEvent event;
    event.kind = BackendEvent::Kind::kMessage;
    event.link = link;
    event.message = rpcrdma::chain_of(packets, rpcrdma::rpc_reply(xid).bytes());
    gateway->on_backend_event(now, std::move(event));
    turn();
  }
  void call(verbs::ConnectionId id, uint32_t xid, uint32_t program = rpcrdma::kBenchProgram) {
    const rpcrdma::Words message = rpcrdma::inline_call(xid, rpcrdma::rpc_call(xid, 0, program));
    ASSERT_TRUE(transport.peer_sends(id, rpcrdma::chain_of(packets, message.bytes())));
    turn();
  }
  // One whose arguments go on in a Read chunk: the gateway has to read it, and the test leaves it at that.
  void call_with_chunk(verbs::ConnectionId id, uint32_t xid, uint32_t bytes) {
    const rpcrdma::Words rpc = rpcrdma::rpc_call(xid);
    rpcrdma::Words message{xid, 1, 16, 0};
    message.read(static_cast<uint32_t>(rpc.size()), 0x1234, bytes, 0).add({0, 0, 0}).raw(rpc.bytes());
    ASSERT_TRUE(transport.peer_sends(id, rpcrdma::chain_of(packets, message.bytes())));
    turn();
  }
  // The oldest message to the peer is the reply to `xid`.
  void expect_replied(verbs::ConnectionId id, uint32_t xid, uint32_t credits = 8) {
    expect_answered(id, xid, rpcrdma::AcceptStatus::kSuccess, credits);
  }
  // The same of any status.
  void expect_answered(verbs::ConnectionId id, uint32_t xid, rpcrdma::AcceptStatus status, uint32_t credits = 8) {
    ASSERT_TRUE(transport.at(id).qp != nullptr && !transport.qp(id).posted().empty());
    rpcrdma::Words words{xid, 1, credits, 0, 0, 0, 0};
    words.add({xid, 1, 0, 0, 0, static_cast<uint32_t>(status)});
    EXPECT_EQ(rpcrdma::words_of(transport.qp(id).posted().front().payload), words.words());
  }
  void acknowledge(verbs::ConnectionId id) {
    transport.peer_acknowledges(id);
    turn();
  }
  // A connection whose calls are taken.
  struct Opened {
    verbs::ConnectionId id;
    LinkId link;
  };
  Opened open(const IpAddress& peer) {
    const verbs::ConnectionId id = ask(peer);
    confirm(id);
    const LinkId link = expect_request(BackendRequest::Kind::kOpen);
    worker_says(link, BackendEvent::Kind::kOpened);
    return {id, link};
  }
  // The same to this server of this backend.
  Opened open_at(const IpAddress& peer, uint32_t backend, uint32_t server = 0) {
    const verbs::ConnectionId id = ask(peer);
    confirm(id);
    const LinkId link = expect_opening(backend, server);
    worker_says(link, BackendEvent::Kind::kOpened);
    return {id, link};
  }
  // A call that is answered, so that the client owes nothing and nobody owes it anything.
  void expect_served(const Opened& opened, uint32_t xid, uint32_t credits = 8) {
    call(opened.id, xid);
    expect_forwarded(opened.link, xid);
    worker_replies(opened.link, xid);
    expect_replied(opened.id, xid, credits);
    acknowledge(opened.id);
  }
  // The peer leaves, and no call of its next connection waits for one of this.
  void leave(const Opened& opened) {
    transport.peer_leaves(opened.id);
    turn();
    turn(Orphans::kAnswerSettles);
    EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), opened.link);
  }
  // Refused before the gateway has answered, under this one result.
  void expect_refused(verbs::ConnectionId id, verbs::RejectReason reason, ConnectionResult result) {
    EXPECT_EQ(transport.at(id).rejected, reason);
    EXPECT_EQ(transport.at(id).disconnects, 0u);
    EXPECT_EQ(ended(result), 1u);
    expect_no_request();
  }
  // Over because the gateway said so, once.
  void expect_disconnected(verbs::ConnectionId id, ConnectionResult result) {
    EXPECT_EQ(transport.at(id).state, test::FakeTransport::State::kParting);
    EXPECT_EQ(transport.at(id).disconnects, 1u);
    EXPECT_TRUE(transport.at(id).destroyed);
    EXPECT_EQ(ended(result), 1u);
  }
  uint64_t ended(ConnectionResult result) { return gateway->stats().connections[static_cast<size_t>(result)]; }
  const BackendStats& backend_stats(uint32_t backend) { return gateway->stats().backends[backend]; }
  // Of the connection that there is.
  ConnectionInfo the_connection() {
    std::array<ConnectionInfo, 2> infos;
    EXPECT_EQ(gateway->describe(now, infos), 1u);
    return infos[0];
  }
  // What a check has found.
  void check_says(uint32_t server, control::ServerState state, uint32_t backend = 0) {
    gateway->on_core_message(
        now,
        {.kind = CoreMessage::Kind::kServerState, .index = backend, .value = static_cast<uint32_t>(state), .server = server});
  }
  uint64_t open_count() { return gateway->stats().connections_open; }
  // The log's last line.
  Notice last_notice() {
    Notice last;
    while (const Notice* notice = gateway->next_notice()) {
      last = *notice;
      gateway->pop_notice();
    }
    return last;
  }

  GatewayOptions options;
  test::FakeTransport transport;
  HeapBufferPool packets{256, 4096, 64};
  rpcrdma::ProgramRegistry programs;
  SeededRandom random{5};
  Instant now = Instant::from_ns(1'000'000);
  std::optional<Gateway> gateway;
};

}  // namespace cw::gateway
