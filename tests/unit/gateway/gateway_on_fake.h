// The gateway on a transport without a wire (FakeTransport), for tests of what it decides: the test plays the peers and the
// workers, and chooses the order and the time of everything.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/random.h"
#include "gateway/gateway.h"
#include "tests/unit/gateway/on_fake_transport.h"

namespace cw::gateway {

class GatewayOnAFakeTransport : public OnAFakeTransport {
 protected:
  bool poll_request(BackendRequest& out) override { return gateway->poll_backend_request(out); }
  void start() {
    gateway.emplace(options, transport, packets, packets, programs, random);
    ASSERT_TRUE(gateway->start().ok());
  }
  // Whatever a test leaves behind, the gateway gives back when it ends.
  void TearDown() override {
    gateway.reset();
    OnAFakeTransport::TearDown();
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

  rpcrdma::ProgramRegistry programs;
  SeededRandom random{5};
  std::optional<Gateway> gateway;
};

}  // namespace cw::gateway
