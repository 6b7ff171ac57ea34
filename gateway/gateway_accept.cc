// How a connection comes to be: listener, access and limits, queue pair, REP; when the client has answered a place, the endpoint
// and the backend.
#include <algorithm>
#include <array>

#include "gateway/client_classes.h"
#include "gateway/gateway_connection.h"
#include "rocev2/rc/held_packets.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kReceivesBeforeRtu = 1;
// A client reconnects because it has a call to send, so its first call comes at once.
constexpr Duration kFirstCallPatience = Duration::ms(100);

// What we say of ourselves (RFC 8797), or count as when we say nothing.
rpcrdma::PrivateData ours(const ListenerOptions& listener) {
  return listener.private_data ? rpcrdma::PrivateData{listener.inline_bytes, listener.inline_bytes, listener.remote_invalidate}
                               : rpcrdma::PrivateData{};
}

}  // namespace

void Gateway::refuse(Instant now, const cm::CmEvent& event, cm::RejectReason reason, ConnectionResult result,
                     uint16_t listener_port, uint32_t backend) {
  (void)node_.cm().reject(now, event.connection, reason);
  ++stats_.connections[static_cast<size_t>(result)];
  Notice notice;
  notice.result = result;
  notice.peer = event.address.remote;
  notice.listener_port = listener_port;
  notice.backend = backend;
  if (result == ConnectionResult::kRefusedClientDenied || result == ConnectionResult::kRefusedClientLimit) {
    notice.client_class = class_of(options_.clients, event.address.remote);
  }
  note(notice);
}

void Gateway::on_connect_request(Instant now, const cm::CmEvent& event, const cm::ConnectRequest& request) {
  const uint16_t port = cm::ip_port_of(request.service);
  const ListenerOptions* listener = listener_for(port);
  if (listener == nullptr) {
    refuse(now, event, cm::RejectReason::kInvalidServiceId, ConnectionResult::kRefusedResources, port, 0);
    return;
  }
  if (shutting_down_ || draining_) {
    refuse(now, event, cm::RejectReason::kNoResources, ConnectionResult::kRefusedDraining, port, listener->backend);
    return;
  }
  const bool allowed = listener->allow.empty() ||
                       std::any_of(listener->allow.begin(), listener->allow.end(),
                                   [&](const control::IpPrefix& prefix) { return prefix.contains(event.address.remote); });
  if (!allowed) {
    refuse(now, event, cm::RejectReason::kConsumerDefined, ConnectionResult::kRefusedAcl, port, listener->backend);
    return;
  }
  const std::optional<uint32_t> client_class = class_of(options_.clients, event.address.remote);
  if (client_class && !options_.clients[*client_class].allow) {
    count_refusal(ConnectionResult::kRefusedClientDenied, client_class);
    refuse(now, event, cm::RejectReason::kConsumerDefined, ConnectionResult::kRefusedClientDenied, port, listener->backend);
    return;
  }
  const uint32_t listener_index = static_cast<uint32_t>(listener - options_.listeners.data());
  if (const auto lack = lack_of_place(request, listener_index, client_class)) {
    count_refusal(*lack, client_class);
    refuse(now, event, cm::RejectReason::kNoResources, *lack, port, listener->backend);
    return;
  }
  if (is_known_down(now, listener->backend)) {
    // What the client would see of a backend port without listener.
    refuse(now, event, cm::RejectReason::kConsumerDefined, ConnectionResult::kRefusedBackend, port, listener->backend);
    return;
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  connections_[slot] = memory_->create();
  Connection& connection = *connections_[slot];
  connection.slot = slot;
  connection.link = new_link(slot, 0);
  connection.cm_id = event.connection;
  connection.address = event.address;
  connection.remote_qpn = request.remote_qpn;
  connection.peer_port = request.ip_cm.source_port;
  connection.listener = listener;
  connection.listener_index = listener_index;
  connection.client_class = client_class;
  connection.created = now;
  (void)by_cm_id_.insert(event.connection.value(), slot);
  accept(now, connection, request);
}

// Nothing is taken yet, since the request may be forged. A client that restarted has the place of its former self, which ends
// when this connection is established.
std::optional<ConnectionResult> Gateway::lack_of_place(const cm::ConnectRequest& request, uint32_t listener_index,
                                                       std::optional<uint32_t> client_class) {
  const uint32_t* rival_slot = request.rival ? by_cm_id_.find(request.rival->value()) : nullptr;
  const Connection* rival = rival_slot == nullptr ? nullptr : connections_[*rival_slot];
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

// Another connection, on another core too, may have taken the last one since the REQ.
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
  if (connection.qp->communication_established()) {
    node_.cm().data_arrived(now, connection.cm_id);
    take_cm_events(now);
  }
  Connection* established = find(link);
  return established != nullptr && established->server ? established : nullptr;
}

// Of so many credits those whose messages fit into the buffers that are reserved for all, in packets of the client's path MTU.
uint32_t Gateway::backed_credits(const Connection& connection, uint32_t credits, uint32_t path_mtu) const {
  const auto packets = [&](uint32_t mtu) { return (connection.listener->inline_bytes + mtu - 1) / mtu; };
  const uint32_t reserved = packets(options_.reserved_path_mtu);
  const uint32_t needed = packets(path_mtu);
  return needed <= reserved || credits == 0 ? credits
                                            : std::max(static_cast<uint32_t>(uint64_t{credits} * reserved / needed), 1u);
}

void Gateway::accept(Instant now, Connection& connection, const cm::ConnectRequest& request) {
  const ListenerOptions& listener = *connection.listener;
  connection.thresholds = rpcrdma::negotiate(ours(listener), rpcrdma::PrivateData::of_peer(request.private_data.bytes()));
  rc::RcOptions rc_options = options_.rc;
  // What our private data promises to take, whatever the peer says that it will send (RFC 8797 7).
  rc_options.receive_bytes_max = listener.inline_bytes;
  rc_options.user_data = connection.link.value();
  const auto qp = node_.endpoint().create_qp(rc_options);
  if (!qp.ok()) {
    end(now, connection, ConnectionResult::kRefusedResources, false);
    return;
  }
  connection.qp = *qp;
  rc::RcConnect connect = node_.connect_values(connection.address, *connection.qp, wire::Psn(random_.next_u32()), request,
                                               {.initiator = options_.rc.initiator_depth_max, .responder = 0});
  connect.retry_count = std::min(request.retry_count, options_.retry_count);
  connect.rnr_retry = std::min(request.rnr_retry_count, options_.rnr_retry_count);
  connect.peer_hold_packets = rpcrdma::CausewayOffer::of_peer(request.private_data.bytes()).hold_packets;
  if (connect.peer_hold_packets > 0) {
    // A secret between the two, for what that is worth: packets ahead of a gap are held from this port only.
    connect.path.udp_source_port = static_cast<uint16_t>(node::kFirstSourcePort | random_.next_below(node::kSourcePorts));
  }
  connect.ack_timeout = std::max(request.ack_timeout_code, options_.ack_timeout_min_code);
  if (!node_.endpoint().connect_qp(*connection.qp, connect).ok()) {
    end(now, connection, ConnectionResult::kRefusedResources, false);
    return;
  }
  connection.path_mtu_bytes = connect.path_mtu_bytes;
  // Its data may overtake its RTU, by one message: it has one credit until we grant more (RFC 8166 3.3.3).
  connection.qp->post_receives(kReceivesBeforeRtu);

  // Only to a client that has offered something itself: others see no byte more than they know.
  const bool offer = rc_options.selective_recovery && connect.peer_hold_packets > 0;
  const auto private_data =
      rpcrdma::connect_bytes(ours(listener), {.hold_packets = offer ? uint16_t{rc::HeldPackets::kSpan} : uint16_t{0}});
  cm::AcceptParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connect.remote_first_psn;
  parameters.target_ack_delay_code = options_.target_ack_delay_code;
  parameters.our_responder_resources = 0;
  parameters.our_initiator_depth = connect.initiator_depth;
  parameters.private_data = listener.private_data ? private_data.bytes() : Bytes();
  if (!node_.cm().accept(now, connection.cm_id, parameters).ok()) {
    finish(now, connection, ConnectionResult::kFailedHandshake, true);  // the peer gave up, or had to make room
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
  connection.credits =
      std::min(connection.credits, backed_credits(connection, listener.server.credits, connection.path_mtu_bytes));
  server_options.reverse_credits = backed_credits(connection, server_options.reverse_credits, connection.path_mtu_bytes);
  server_options.credits = connection.credits;
  server_options.share = &join_client(connection.address.remote);
  server_options.backends = &connection.lanes->shares;
  server_options.read_unit_bytes = connection.path_mtu_bytes;
  server_options.read_bytes_in_flight_max = uint64_t{options_.rc.read_window_packets} * 3 / 2 * connection.path_mtu_bytes;
  connection.server.emplace(shared_, *connection.qp, server_options, connection.thresholds);
  connection.server->set_grant(grant_of(connection));
  connection.server->start(kReceivesBeforeRtu);
  std::array<uint32_t, rpcrdma::ServerEndpoint::kRefusedXidsMax> broken{};
  const uint32_t count = broken_calls_.of(now, connection.address.remote, connection.listener_index, broken);
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
  notice.peer = connection.address.remote;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.first.backend;
  notice.local_qpn = connection.qp->local_qpn();
  notice.remote_qpn = connection.remote_qpn;
  notice.inline_send_bytes = connection.thresholds.send_bytes;
  notice.inline_receive_bytes = connection.thresholds.receive_bytes;
  notice.path_mtu_bytes = connection.path_mtu_bytes;
  notice.remote_invalidation = connection.thresholds.remote_invalidation;
  note(notice);
}

}  // namespace cw::gateway
