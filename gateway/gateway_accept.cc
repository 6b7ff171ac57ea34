// How a connection comes to be: listener, access and limits, queue pair, our answer; when the client has answered, a place, the
// endpoint and the backend.
#include <algorithm>
#include <array>

#include "gateway/client_classes.h"
#include "gateway/gateway_connection.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kFirstReceives = 1;
// A client reconnects because it has a call to send, so its first call comes at once.
constexpr Duration kFirstCallPatience = Duration::ms(100);

// What we say of ourselves (RFC 8797), or count as when we say nothing.
rpcrdma::PrivateData ours(const ListenerOptions& listener) {
  return listener.private_data ? rpcrdma::PrivateData{listener.inline_bytes, listener.inline_bytes, listener.remote_invalidate}
                               : rpcrdma::PrivateData{};
}

}  // namespace

void Gateway::refuse(Instant now, const verbs::ConnectionEvent& request, verbs::RejectReason reason, ConnectionResult result,
                     uint32_t backend) {
  transport_.reject(now, request.connection, reason);
  ++stats_.connections[static_cast<size_t>(result)];
  Notice notice;
  notice.result = result;
  notice.peer = request.peer;
  notice.listener_port = request.listener_port;
  notice.backend = backend;
  if (result == ConnectionResult::kRefusedClientDenied || result == ConnectionResult::kRefusedClientLimit) {
    notice.client_class = class_of(options_.clients, request.peer);
  }
  note(notice);
}

void Gateway::on_connect_request(Instant now, const verbs::ConnectionEvent& request) {
  const ListenerOptions* listener = listener_for(request.listener_port);
  if (listener == nullptr) {
    refuse(now, request, verbs::RejectReason::kNoListener, ConnectionResult::kRefusedResources, 0);
    return;
  }
  if (shutting_down_ || draining_) {
    refuse(now, request, verbs::RejectReason::kNoResources, ConnectionResult::kRefusedDraining, listener->backend);
    return;
  }
  const bool allowed =
      listener->allow.empty() || std::any_of(listener->allow.begin(), listener->allow.end(),
                                             [&](const control::IpPrefix& prefix) { return prefix.contains(request.peer); });
  if (!allowed) {
    refuse(now, request, verbs::RejectReason::kRefused, ConnectionResult::kRefusedAcl, listener->backend);
    return;
  }
  const std::optional<uint32_t> client_class = class_of(options_.clients, request.peer);
  if (client_class && !options_.clients[*client_class].allow) {
    count_refusal(ConnectionResult::kRefusedClientDenied, client_class);
    refuse(now, request, verbs::RejectReason::kRefused, ConnectionResult::kRefusedClientDenied, listener->backend);
    return;
  }
  const uint32_t listener_index = static_cast<uint32_t>(listener - options_.listeners.data());
  if (const auto lack = lack_of_place(request, listener_index, client_class)) {
    count_refusal(*lack, client_class);
    refuse(now, request, verbs::RejectReason::kNoResources, *lack, listener->backend);
    return;
  }
  if (is_known_down(now, listener->backend)) {
    // What the client would see of a backend port without listener.
    refuse(now, request, verbs::RejectReason::kRefused, ConnectionResult::kRefusedBackend, listener->backend);
    return;
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  connections_[slot] = memory_->create();
  Connection& connection = *connections_[slot];
  connection.slot = slot;
  connection.link = new_link(slot, 0);
  connection.id = request.connection;
  connection.peer = request.peer;
  connection.peer_port = request.peer_port;
  connection.listener = listener;
  connection.listener_index = listener_index;
  connection.client_class = client_class;
  connection.created = now;
  accept(now, connection, request);
}

// Nothing is taken yet, since the request may be forged. A client that restarted has the place of its former self, which ends
// when this connection is established.
std::optional<ConnectionResult> Gateway::lack_of_place(const verbs::ConnectionEvent& request, uint32_t listener_index,
                                                       std::optional<uint32_t> client_class) {
  const Connection* rival = request.rival ? find(LinkId(*request.rival)) : nullptr;
  const bool frees_place = rival != nullptr && rival->has_place;
  if (free_slots_.empty() || !requests_room() || (!frees_place && !quota_.has_room(listener_index))) {
    return ConnectionResult::kRefusedLimit;
  }
  if (client_class && !(frees_place && rival->client_class == client_class) && !client_quota_.has_room(*client_class)) {
    return ConnectionResult::kRefusedClientLimit;
  }
  return std::nullopt;
}

void Gateway::count_refusal(ConnectionResult result, std::optional<uint32_t> client_class) {
  if (result == ConnectionResult::kRefusedClientDenied) {
    ++stats_.clients[*client_class].refused_denied;
  } else if (result == ConnectionResult::kRefusedClientLimit) {
    ++stats_.clients[*client_class].refused_limit;
  }
}

// Another connection, on another core too, may have taken the last one since the request.
std::optional<ConnectionResult> Gateway::take_place(Connection& connection) {
  if (!requests_room() || !quota_.take(connection.listener_index)) {
    return ConnectionResult::kRefusedLimit;
  }
  if (connection.client_class && !client_quota_.take(*connection.client_class)) {
    quota_.give_back(connection.listener_index);
    return ConnectionResult::kRefusedClientLimit;
  }
  connection.has_place = true;
  ++stats_.connections_open;
  if (connection.client_class) {
    ++stats_.clients[*connection.client_class].connections;
  }
  return std::nullopt;
}

// What the client's former self had is free by now: it has ended with the same message.
void Gateway::establish(Instant now, Connection& connection) {
  if (const auto lack = take_place(connection)) {
    count_refusal(*lack, connection.client_class);
    end(now, connection, *lack, false);
    return;
  }
  add_lanes(connection);
  start_endpoint(now, connection);
  hold_calls(now, connection);
  if (!is_tcp(connection.first)) {
    take_calls(connection);  // when the queue pair is looked at, in this turn
    return;
  }
  // Those of routes are opened when the first call asks for them. Calls wait in the endpoint meanwhile.
  connection.state = ConnectionState::kOpeningBackend;
  connection.first.open_deadline = waits_for_first_call(connection) ? now + kFirstCallPatience : now;
  open_first(now, connection);
}

Gateway::Connection* Gateway::establish_by_data(Instant now, Connection& connection) {
  const LinkId link = connection.link;
  if (connection.qp->in_error()) {
    end(now, connection, ConnectionResult::kFailedHandshake, false);
    return nullptr;
  }
  transport_.notify(now, connection.id);
  take_events(now);
  Connection* established = find(link);
  return established != nullptr && established->server ? established : nullptr;
}

// Of so many credits those whose messages fit into the buffers that are reserved for all.
uint32_t Gateway::backed_credits(const Connection& connection, uint32_t credits) const {
  const auto packets = [&](uint32_t bytes) { return (connection.listener->inline_bytes + bytes - 1) / bytes; };
  const uint32_t reserved = packets(options_.reserved_packet_bytes);
  const uint32_t needed = packets(connection.limits.packet_bytes);
  return needed <= reserved || credits == 0 ? credits
                                            : std::max(static_cast<uint32_t>(uint64_t{credits} * reserved / needed), 1u);
}

void Gateway::accept(Instant now, Connection& connection, const verbs::ConnectionEvent& request) {
  const ListenerOptions& listener = *connection.listener;
  connection.thresholds = rpcrdma::negotiate(ours(listener), rpcrdma::PrivateData::of_peer(request.private_data));
  const rpcrdma::ConnectBytes private_data = rpcrdma::connect_bytes(ours(listener));
  verbs::ConnectionOptions options;
  options.context = connection.link.value();
  // What our private data promises to take, whatever the peer says that it will send (RFC 8797 7).
  options.receive_bytes_max = listener.inline_bytes;
  options.private_data = listener.private_data ? private_data.bytes() : Bytes();
  const auto accepted = transport_.accept(now, connection.id, options);
  if (accepted.ok()) {
    connection.qp = accepted->queue_pair;
    connection.limits = accepted->limits;
    // The first message may come before kEstablished. It is one: the client has one credit until we grant more (RFC 8166 3.3.3).
    connection.qp->post_receives(kFirstReceives);
  } else if (accepted.error() == Error::kBadState) {
    finish(now, connection, ConnectionResult::kFailedHandshake, true);
  } else {
    end(now, connection, ConnectionResult::kRefusedResources, false);
  }
}

void Gateway::start_endpoint(Instant now, Connection& connection) {
  const ListenerOptions& listener = *connection.listener;
  rpcrdma::ServerOptions server_options = listener.server;
  connection.takes_reverse = server_options.reverse_credits > 0;
  connection.credits = listener.server.credits;
  if (connection.client_class) {
    connection.credits = std::min(connection.credits, options_.clients[*connection.client_class].credits_max);
    server_options.budget = &budgets_[*connection.client_class];
  }
  connection.credits = std::min(connection.credits, backed_credits(connection, listener.server.credits));
  server_options.reverse_credits = backed_credits(connection, server_options.reverse_credits);
  server_options.credits = connection.credits;
  server_options.share = &join_client(connection.peer);
  server_options.backends = &connection.lanes->shares;
  server_options.read_unit_bytes = connection.limits.packet_bytes;
  server_options.read_bytes_in_flight_max = connection.limits.read_bytes_wanted;
  connection.server.emplace(shared_, *connection.qp, server_options, connection.thresholds);
  connection.server->set_grant(grant_of(connection));
  connection.server->start(kFirstReceives);
  std::array<uint32_t, rpcrdma::ServerEndpoint::kRefusedXidsMax> broken{};
  const uint32_t count = broken_calls_.of(now, connection.peer, connection.listener_index, broken);
  for (uint32_t i = 0; i < count; ++i) {
    connection.server->refuse_xid(broken[i]);
  }
}

rpcrdma::ClientShare& Gateway::join_client(const IpAddress& address) {
  rpcrdma::ClientShare& share = client_shares_.join(address);
  shared_.clients = static_cast<uint32_t>(client_shares_.client_count());
  return share;
}

void Gateway::leave_client(const IpAddress& address) {
  client_shares_.leave(address);
  shared_.clients = static_cast<uint32_t>(client_shares_.client_count());
}

void Gateway::take_calls(Connection& connection) {
  connection.state = ConnectionState::kEstablished;
  ++stats_.connections[static_cast<size_t>(ConnectionResult::kAccepted)];
  Notice notice;
  notice.result = ConnectionResult::kAccepted;
  notice.peer = connection.peer;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.first.backend;
  const verbs::QueuePairInfo qp = transport_.describe(connection.id);
  notice.local_qpn = qp.local_qpn;
  notice.remote_qpn = qp.remote_qpn;
  notice.inline_send_bytes = connection.thresholds.send_bytes;
  notice.inline_receive_bytes = connection.thresholds.receive_bytes;
  notice.packet_bytes = connection.limits.packet_bytes;
  notice.remote_invalidation = connection.thresholds.remote_invalidation;
  note(notice);
}

}  // namespace cw::gateway
