// For tests of one part of the gateway with the neighbours that it needs, and without class Gateway: the test hands the part its
// events, and frees what is over as the gateway does at the end of a step.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gateway/admission.h"
#include "gateway/backend_links.h"
#include "gateway/backends.h"
#include "gateway/broken_calls.h"
#include "gateway/call_holds.h"
#include "gateway/connection_slots.h"
#include "gateway/connection_table.h"
#include "gateway/credit_grants.h"
#include "gateway/drain.h"
#include "gateway/listeners.h"
#include "gateway/notice_log.h"
#include "gateway/orphans.h"
#include "gateway/replay_guard.h"
#include "gateway/worker_requests.h"
#include "tests/unit/gateway/on_fake_transport.h"

namespace cw::gateway {

// What a gateway of these options has, in its order.
struct GatewayParts {
  GatewayParts(const GatewayOptions& options, const std::vector<verbs::Transport*>& transports, BufferPool& packets,
               uint32_t requests_max)
      : shared(options.calls_in_flight_max, packets),
        mails(options.core),
        requests(requests_max),
        connections(connection_slots(options.connections_max, options.half_open_max, transports.size()), options.core),
        backends(options.backends, stats, mails),
        listeners(options.listeners, transports, backends),
        admission(options, stats),
        orphans(options.connections_max, shared, backends, guard, requests, stats),
        links({connections, listeners, backends, guard, holds, orphans, requests, stats, packets, options.source_ports}) {}

  GatewayStats stats;
  rpcrdma::ServerShared shared;
  NoticeLog log{stats};
  CoreMails mails;
  WorkerRequests requests;
  ConnectionTable connections;
  ReplayGuard guard{7};
  Backends backends;
  Listeners listeners;
  Admission admission;
  Orphans orphans;
  ClientActivity activity;
  CallHolds holds{guard, connections, mails, stats};
  Drain drain{connections, stats};
  CreditGrants grants;
  BrokenCalls broken_calls;
  BackendLinks links;
};

class PartsAlone : public OnAFakeTransport {
 protected:
  // With room for so many requests to the workers.
  void make_parts(uint32_t requests_max = 64) {
    parts.emplace(options, transports, packets, requests_max);
    ASSERT_TRUE(parts->listeners.start().ok());
  }
  bool poll_request(BackendRequest& out) override { return parts->requests.poll(out); }
  // Connections end, and nothing of them is left: no gauge, no share, no place in the guard.
  void TearDown() override {
    free_endings();
    parts->connections.for_each([&](Connection& connection) { free(connection); });
    parts->orphans.close_all();
    while (request()) {
    }
    EXPECT_EQ(parts->stats.connections_open, 0u);
    for (const BackendStats& stats : parts->stats.backends) {
      EXPECT_EQ(stats.links, 0u);
      EXPECT_EQ(stats.calls_in_flight, 0u);
      EXPECT_EQ(stats.server_links, BackendStats().server_links);
      EXPECT_EQ(stats.server_calls, BackendStats().server_calls);
    }
    EXPECT_EQ(parts->guard.client_count(), 0u);
    EXPECT_EQ(parts->shared.calls->in_use(), 0u);
    EXPECT_EQ(parts->shared.stats.credits_granted, 0u);
    EXPECT_EQ(parts->shared.stats.reverse_credits_granted, 0u);
    parts.reset();
    OnAFakeTransport::TearDown();
  }

  verbs::ConnectionEvent event() {
    verbs::ConnectionEvent event;
    EXPECT_TRUE(transport.poll_event(now, event));
    return event;
  }
  // An established connection at the listener, with its endpoint and its lanes, none of which is open.
  Connection& connect(const IpAddress& peer = kAlice) {
    const verbs::ConnectionId id = transport.peer_asks(peer, kFakePort);
    (void)event();
    Connection& connection = parts->connections.create();
    connection.id = id;
    connection.transport = &transport;
    connection.peer = peer;
    connection.listener = parts->listeners.options().data();
    verbs::ConnectionOptions offer;
    offer.context = connection.link.value();
    const auto accepted = transport.accept(now, id, offer);
    CW_ASSERT(accepted.ok());
    connection.qp = accepted->queue_pair;
    transport.peer_confirms(id);
    (void)event();
    parts->links.add_lanes(connection);
    rpcrdma::ServerOptions server = connection.listener->server;
    server.share = &parts->orphans.join_client(peer);
    server.backends = &connection.lanes->shares;
    connection.takes_reverse = server.reverse_credits > 0;
    connection.server.emplace(parts->shared, *connection.qp, server, connection.thresholds);
    connection.server->start();
    return connection;
  }
  // Of one that is over, or as if it were.
  void free(Connection& connection, std::optional<Instant> keep_until = std::nullopt) {
    if (connection.server) {
      connection.server->fail();
    }
    parts->links.drop_lanes(now, connection, keep_until);
    if (connection.server) {
      connection.server.reset();
      parts->orphans.leave_client(connection.peer);
    }
    transport.destroy(connection.id);
    if (connection.has_place) {
      parts->admission.give_place_back(connection);
    }
    if (connection.lanes != nullptr) {
      parts->listeners.leave(*connection.lanes);
    }
    parts->connections.free(connection);
  }
  void free_endings() {
    while (parts->connections.has_endings()) {
      free(*parts->connections.take_ending().connection);
    }
  }
  // It is over for this reason, and the peer has to be told; it is still there.
  void expect_ending(const Connection& connection, ConnectionResult result) {
    ASSERT_TRUE(parts->connections.has_endings());
    const Ending ending = parts->connections.take_ending();
    EXPECT_EQ(ending.connection, &connection);
    EXPECT_EQ(ending.result, result);
    EXPECT_FALSE(ending.peer_ended);
    EXPECT_FALSE(ending.silent);
    EXPECT_FALSE(parts->connections.has_endings());
    free(*ending.connection);
  }
  void expect_goes_on(const Connection& connection) {
    EXPECT_FALSE(connection.is_ending);
    EXPECT_FALSE(connection.server->failed());
  }
  void client_sends(Connection& connection, const rpcrdma::Words& message) {
    ASSERT_TRUE(transport.peer_sends(connection.id, rpcrdma::chain_of(packets, message.bytes())));
    connection.server->on_completions(now);
  }
  // A call of the client's that is taken from its endpoint.
  rpcrdma::Call take_call(Connection& connection, const rpcrdma::Words& rpc) {
    client_sends(connection, rpcrdma::inline_call(rpc.words()[0], rpc));
    rpcrdma::Call call;
    EXPECT_TRUE(connection.server->poll_call(now, call));
    return call;
  }
  BackendStats& backend_stats(uint32_t backend = 0) { return parts->stats.backends[backend]; }

  const std::vector<verbs::Transport*> transports = {&transport};
  std::optional<GatewayParts> parts;
};

}  // namespace cw::gateway
