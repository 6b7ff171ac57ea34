#include "gateway/acceptor.h"

#include <algorithm>
#include <array>

#include "rpcrdma/wire/private_data.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kFirstReceives = 1;

// What we say of ourselves (RFC 8797), or count as when we say nothing.
rpcrdma::PrivateData ours(const ListenerOptions& listener) {
  return listener.private_data ? rpcrdma::PrivateData{listener.inline_bytes, listener.inline_bytes, listener.remote_invalidate}
                               : rpcrdma::PrivateData{};
}

bool allows(const ListenerOptions& listener, const IpAddress& peer) {
  return listener.allow.empty() ||
         std::ranges::any_of(listener.allow, [&](const control::IpPrefix& prefix) { return prefix.contains(peer); });
}

}  // namespace

void Acceptor::refuse(Instant now, uint32_t transport, const verbs::ConnectionEvent& request, verbs::RejectReason reason,
                      ConnectionResult result, uint32_t backend) {
  parts_.transports[transport]->reject(now, request.connection, reason, {});
  ++parts_.stats.connections[static_cast<size_t>(result)];
  Notice notice;
  notice.result = result;
  notice.peer = request.peer;
  notice.peer_port = request.peer_port;
  notice.listener_port = request.listener_port;
  notice.backend = backend;
  if (result == ConnectionResult::kRefusedClientDenied || result == ConnectionResult::kRefusedClientLimit) {
    notice.client_class = parts_.admission.class_of(request.peer);
  }
  parts_.log.note(notice);
}

void Acceptor::on_request(Instant now, uint32_t transport, const verbs::ConnectionEvent& request) {
  const auto refused = [&](verbs::RejectReason reason, ConnectionResult result, uint32_t backend) {
    refuse(now, transport, request, reason, result, backend);
  };
  const ListenerOptions* listener = parts_.listeners.find(transport, request.listener_port);
  if (listener == nullptr) {
    refused(verbs::RejectReason::kNoListener, ConnectionResult::kRefusedResources, 0);
    return;
  }
  if (shutting_down_ || parts_.drain.is_on()) {
    refused(verbs::RejectReason::kNoResources, ConnectionResult::kRefusedDraining, listener->backend);
    return;
  }
  if (!allows(*listener, request.peer)) {
    refused(verbs::RejectReason::kRefused, ConnectionResult::kRefusedAcl, listener->backend);
    return;
  }
  const std::optional<uint32_t> client_class = parts_.admission.class_of(request.peer);
  if (client_class && !parts_.admission.client_class(*client_class).allow) {
    parts_.admission.count_refusal(ConnectionResult::kRefusedClientDenied, client_class);
    refused(verbs::RejectReason::kRefused, ConnectionResult::kRefusedClientDenied, listener->backend);
    return;
  }
  const uint32_t listener_index = parts_.listeners.index_of(*listener);
  const Connection* rival = request.rival ? parts_.connections.find(LinkId(*request.rival)) : nullptr;
  const bool has_room = !parts_.connections.is_full() && parts_.requests.has_room();
  const auto lack =
      has_room ? parts_.admission.lack_of_place(listener_index, client_class, rival) : ConnectionResult::kRefusedLimit;
  if (lack) {
    parts_.admission.count_refusal(*lack, client_class);
    refused(verbs::RejectReason::kNoResources, *lack, listener->backend);
    return;
  }
  if (parts_.backends.is_known_down(now, listener->backend)) {
    // What the client would see of a backend port without listener.
    refused(verbs::RejectReason::kRefused, ConnectionResult::kRefusedBackend, listener->backend);
    return;
  }
  Connection& connection = parts_.connections.create();
  connection.id = request.connection;
  connection.transport = parts_.transports[transport];
  connection.peer = request.peer;
  connection.peer_port = request.peer_port;
  connection.listener = listener;
  connection.listener_index = listener_index;
  connection.client_class = client_class;
  connection.created = now;
  accept(now, connection, request);
}

void Acceptor::accept(Instant now, Connection& connection, const verbs::ConnectionEvent& request) {
  const ListenerOptions& listener = *connection.listener;
  connection.thresholds = rpcrdma::negotiate(ours(listener), rpcrdma::PrivateData::of_peer(request.private_data));
  const rpcrdma::ConnectBytes private_data = rpcrdma::connect_bytes(ours(listener));
  verbs::ConnectionOptions options;
  options.context = connection.link.value();
  // What our private data promises to take, whatever the peer says that it will send (RFC 8797 7).
  connection.receive_bytes_max = listener.inline_bytes;
  options.receive_bytes_max = connection.receive_bytes_max;
  options.private_data = listener.private_data ? private_data.bytes() : Bytes();
  options.depths.responder_resources = 0;  // the gateway has no memory that a peer may read
  const auto accepted = connection.transport->accept(now, connection.id, options);
  if (accepted.ok()) {
    connection.qp = accepted->queue_pair;
    connection.limits = accepted->limits;
    // The first message may come before kEstablished. It is one: the client has one credit until we grant more (RFC 8166 3.3.3).
    connection.qp->post_receives(kFirstReceives);
  } else if (accepted.error() == Error::kBadState) {
    parts_.connections.end_silently(connection, ConnectionResult::kFailedHandshake);
  } else {
    parts_.connections.end(connection, ConnectionResult::kRefusedResources, false);
  }
}

bool Acceptor::take_over(Instant now, Bytes bytes, Instant held_until) {
  const std::optional<SavedConnection> saved = parse_saved_connection(bytes);
  if (!saved || saved->transport >= parts_.transports.size()) {
    return false;
  }
  const ListenerOptions* listener = parts_.listeners.find(saved->transport, saved->listener_port);
  const std::optional<uint32_t> client_class = parts_.admission.class_of(saved->peer);
  const bool is_denied = client_class && !parts_.admission.client_class(*client_class).allow;
  if (listener == nullptr || !allows(*listener, saved->peer) || is_denied || parts_.connections.is_full()) {
    end_resumed(now, *saved);
    return false;
  }
  Connection& connection = parts_.connections.create();
  connection.transport = parts_.transports[saved->transport];
  connection.peer = saved->peer;
  connection.peer_port = saved->peer_port;
  connection.listener = listener;
  connection.listener_index = parts_.listeners.index_of(*listener);
  connection.client_class = client_class;
  connection.created = now;
  connection.thresholds = saved->thresholds;
  connection.credits_before = saved->credits;
  connection.receive_bytes_max = std::max(saved->receive_bytes_max, listener->inline_bytes);
  verbs::ConnectionOptions options;
  options.context = connection.link.value();
  options.receive_bytes_max = connection.receive_bytes_max;
  options.depths.responder_resources = 0;
  const auto resumed = connection.transport->resume(now, saved->wire, options);
  if (!resumed.ok()) {
    parts_.connections.end_silently(connection, ConnectionResult::kRefusedResources);
    return false;
  }
  connection.id = resumed->connection;
  connection.qp = resumed->queue_pair;
  connection.limits = resumed->limits;
  connection.qp->post_receives(kFirstReceives);
  establish(now, connection, held_until);
  return !connection.is_ending;
}

// It is not for us any more: the client is told.
void Acceptor::end_resumed(Instant now, const SavedConnection& saved) {
  verbs::Transport& transport = *parts_.transports[saved.transport];
  if (const auto resumed = transport.resume(now, saved.wire, verbs::ConnectionOptions()); resumed.ok()) {
    transport.disconnect(now, resumed->connection);
    transport.destroy(resumed->connection);
  }
}

// What the client's former self had is free by now: it has ended with the same message.
void Acceptor::establish(Instant now, Connection& connection, Instant held_until) {
  const auto lack = parts_.requests.has_room() ? parts_.admission.take_place(connection) : ConnectionResult::kRefusedLimit;
  if (lack) {
    parts_.admission.count_refusal(*lack, connection.client_class);
    parts_.connections.end(connection, *lack, false);
    return;
  }
  parts_.links.add_lanes(connection);
  start_endpoint(now, connection);
  parts_.holds.hold(connection, held_until);
  if (!parts_.backends.is_tcp(connection.first.backend)) {
    take_calls(connection);  // when the queue pair is looked at, in this turn
    return;
  }
  // Those of routes are opened when the first call asks for them. Calls wait in the endpoint meanwhile.
  parts_.links.begin_first(now, connection);
}

// Of so many credits those whose messages fit into the buffers that are reserved for all.
uint32_t Acceptor::backed_credits(const Connection& connection, uint32_t credits) const {
  const auto packets = [&](uint32_t bytes) { return (connection.listener->inline_bytes + bytes - 1) / bytes; };
  const uint32_t reserved = packets(reserved_packet_bytes_);
  const uint32_t needed = packets(connection.limits.packet_bytes);
  return needed <= reserved || credits == 0 ? credits
                                            : std::max(static_cast<uint32_t>(uint64_t{credits} * reserved / needed), 1u);
}

void Acceptor::start_endpoint(Instant now, Connection& connection) {
  const ListenerOptions& listener = *connection.listener;
  rpcrdma::ServerOptions options = listener.server;
  connection.takes_reverse = options.reverse_credits > 0;
  connection.credits = listener.server.credits;
  if (connection.client_class) {
    connection.credits = std::min(connection.credits, parts_.admission.client_class(*connection.client_class).credits_max);
    options.budget = &parts_.admission.budget(*connection.client_class);
  }
  options.rates = &parts_.admission.rate_lines().line(connection.listener_index, connection.client_class);
  options.connection = connection.link.value();
  connection.credits = std::min(connection.credits, backed_credits(connection, listener.server.credits));
  options.reverse_credits = backed_credits(connection, options.reverse_credits);
  options.credits = connection.credits;
  options.share = &parts_.orphans.join_client(connection.peer);
  connection.client = &parts_.activity.join(connection.peer, connection.client_class);
  options.client = connection.client->number;
  options.backends = &connection.lanes->shares;
  options.read_unit_bytes = connection.limits.packet_bytes;
  options.read_bytes_in_flight_max = connection.limits.read_bytes_wanted;
  // What the client has been granted already stands until a reply has told it of less.
  options.credits = std::max(options.credits, connection.credits_before);
  connection.server.emplace(parts_.shared, *connection.qp, options, connection.thresholds);
  if (connection.credits_before == 0) {
    connection.server->set_grant(parts_.grants.of(connection));
  }
  connection.server->start(kFirstReceives);
  if (connection.credits_before > 0) {
    connection.server->set_grant(parts_.grants.of(connection));
  }
  std::array<uint32_t, rpcrdma::ServerEndpoint::kRefusedXidsMax> broken{};
  const uint32_t count = parts_.broken_calls.of(now, connection.peer, connection.listener_index, broken);
  for (uint32_t i = 0; i < count; ++i) {
    connection.server->refuse_xid(broken[i]);
  }
}

void Acceptor::take_calls(Connection& connection) {
  connection.state = ConnectionState::kEstablished;
  Notice notice;
  notice.result = connection.credits_before == 0 ? ConnectionResult::kAccepted : ConnectionResult::kTakenOver;
  ++parts_.stats.connections[static_cast<size_t>(notice.result)];
  notice.peer = connection.peer;
  notice.peer_port = connection.peer_port;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.first.backend;
  const verbs::QueuePairInfo qp = connection.transport->describe(connection.id);
  notice.wire = qp.wire;
  notice.local_qpn = qp.local_qpn;
  notice.remote_qpn = qp.remote_qpn;
  notice.inline_send_bytes = connection.thresholds.send_bytes;
  notice.inline_receive_bytes = connection.thresholds.receive_bytes;
  notice.packet_bytes = connection.limits.packet_bytes;
  notice.remote_invalidation = connection.thresholds.remote_invalidation;
  parts_.log.note(notice);
}

}  // namespace cw::gateway
