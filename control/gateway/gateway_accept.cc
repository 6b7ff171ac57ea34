// How a connection comes to be: listener, access, limits, backend, queue pair, REP.
#include <algorithm>
#include <array>

#include "control/gateway/client_classes.h"
#include "control/gateway/gateway_connection.h"
#include "rocev2/rc/held_packets.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::gateway {
namespace {

// A client that waits longer than this for our REP is told to be patient (MRA).
constexpr Duration kSlowBackend = Duration::ms(500);

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
    ++stats_.clients[*client_class].refused_denied;
    refuse(now, event, cm::RejectReason::kConsumerDefined, ConnectionResult::kRefusedClientDenied, port, listener->backend);
    return;
  }
  const uint32_t listener_index = static_cast<uint32_t>(listener - options_.listeners.data());
  bool has_place = take_place(listener_index);
  if (!has_place && request.rival) {
    // A client that restarted waits for a place that only its own former self can free.
    if (const uint32_t* rival = by_cm_id_.find(request.rival->value())) {
      end(now, *connections_[*rival], ConnectionResult::kClosedByPeer, false);
      has_place = take_place(listener_index);
    }
  }
  if (has_place && client_class && !take_client_place(now, *client_class, request)) {
    places_.give_back(listener_index);
    ++stats_.clients[*client_class].refused_limit;
    refuse(now, event, cm::RejectReason::kNoResources, ConnectionResult::kRefusedClientLimit, port, listener->backend);
    return;
  }
  if (has_place && !requests_room()) {
    if (client_class) {
      client_places_.give_back(*client_class);
    }
    places_.give_back(listener_index);
    has_place = false;
  }
  if (!has_place) {
    refuse(now, event, cm::RejectReason::kNoResources, ConnectionResult::kRefusedLimit, port, listener->backend);
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
  connection.request = std::make_unique<const cm::ConnectRequest>(request);
  connection.remote_qpn = request.remote_qpn;
  connection.peer_port = request.ip_cm.source_port;
  connection.listener = listener;
  connection.listener_index = listener_index;
  connection.client_class = client_class;
  connection.credits = listener->server.credits;
  if (client_class) {
    connection.credits = std::min(connection.credits, options_.clients[*client_class].credits_max);
    ++stats_.clients[*client_class].connections;
  }
  connection.created = now;
  ++stats_.connections_open;
  (void)by_cm_id_.insert(event.connection.value(), slot);

  add_lanes(connection);
  if (!is_tcp(connection.first)) {
    accept(now, connection);
    return;
  }
  // The backend first: a REP is a promise that calls will be answered (design decision 3). Those of routes are opened when the
  // first call asks for them.
  open_lane(now, connection, connection.first);
  arm(connection, now + kSlowBackend);
}

bool Gateway::take_client_place(Instant now, uint32_t client_class, const cm::ConnectRequest& request) {
  if (client_places_.take(client_class)) {
    return true;
  }
  if (const uint32_t* rival = request.rival ? by_cm_id_.find(request.rival->value()) : nullptr) {
    end(now, *connections_[*rival], ConnectionResult::kClosedByPeer, false);
    return client_places_.take(client_class);
  }
  return false;
}

// Of so many credits those whose messages fit into the buffers that are reserved for all, in packets of the client's path MTU.
uint32_t Gateway::backed_credits(const Connection& connection, uint32_t credits, uint32_t path_mtu) const {
  const auto packets = [&](uint32_t mtu) { return (connection.listener->inline_bytes + mtu - 1) / mtu; };
  const uint32_t reserved = packets(options_.reserved_path_mtu);
  const uint32_t needed = packets(path_mtu);
  return needed <= reserved || credits == 0 ? credits
                                            : std::max(static_cast<uint32_t>(uint64_t{credits} * reserved / needed), 1u);
}

void Gateway::accept(Instant now, Connection& connection) {
  const auto kept = std::move(connection.request);
  const cm::ConnectRequest& request = *kept;
  // By what is said of ourselves below: a reload may have changed it since the request came.
  connection.thresholds =
      rpcrdma::negotiate(ours(*connection.listener), rpcrdma::PrivateData::of_peer(request.private_data.bytes()));
  rc::RcOptions rc_options = options_.rc;
  // What our private data promises to take, whatever the peer says that it will send (RFC 8797 7).
  rc_options.receive_bytes_max = connection.listener->inline_bytes;
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
  rpcrdma::ServerOptions server_options = connection.listener->server;
  connection.takes_reverse = server_options.reverse_credits > 0;
  connection.credits =
      std::min(connection.credits, backed_credits(connection, connection.listener->server.credits, connect.path_mtu_bytes));
  server_options.reverse_credits = backed_credits(connection, server_options.reverse_credits, connect.path_mtu_bytes);
  server_options.credits = connection.credits;
  if (connection.client_class) {
    server_options.budget = &budgets_[*connection.client_class];
  }
  server_options.share = &client_shares_.join(connection.address.remote);
  server_options.read_unit_bytes = connect.path_mtu_bytes;
  server_options.read_bytes_in_flight_max = uint64_t{rc_options.read_window_packets} * 3 / 2 * connect.path_mtu_bytes;
  connection.server.emplace(shared_, *connection.qp, server_options, connection.thresholds);
  connection.server->set_grant(grant_of(connection));
  connection.server->start();
  std::array<uint32_t, rpcrdma::ServerEndpoint::kRefusedXidsMax> broken{};
  const uint32_t count = broken_calls_.of(now, connection.address.remote, connection.listener_index, broken);
  for (uint32_t i = 0; i < count; ++i) {
    connection.server->refuse_xid(broken[i]);
  }

  const ListenerOptions& listener = *connection.listener;
  // Only to a client that has offered something itself: others see no octet more than they know.
  const bool offer = rc_options.selective_recovery && connect.peer_hold_packets > 0;
  const auto private_data =
      rpcrdma::connect_octets(ours(listener), {.hold_packets = offer ? uint16_t{rc::HeldPackets::kSpan} : uint16_t{0}});
  cm::AcceptParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connect.remote_first_psn;
  parameters.target_ack_delay_code = options_.target_ack_delay_code;
  parameters.our_responder_resources = 0;
  parameters.our_initiator_depth = connect.initiator_depth;
  parameters.private_data = listener.private_data ? private_data.bytes() : Bytes();
  if (!node_.cm().accept(now, connection.cm_id, parameters).ok()) {
    // The peer gave up meanwhile.
    end(now, connection, ConnectionResult::kFailedHandshake, true);
    return;
  }
  connection.state = ConnectionState::kAccepting;
  hold_calls(now, connection);
  ++stats_.connections[static_cast<size_t>(ConnectionResult::kAccepted)];
  Notice notice;
  notice.result = ConnectionResult::kAccepted;
  notice.peer = connection.address.remote;
  notice.listener_port = listener.port;
  notice.backend = connection.first.backend;
  notice.local_qpn = connection.qp->local_qpn();
  notice.remote_qpn = request.remote_qpn;
  notice.inline_send_bytes = connection.thresholds.send_bytes;
  notice.inline_receive_bytes = connection.thresholds.receive_bytes;
  notice.path_mtu_bytes = connect.path_mtu_bytes;
  notice.remote_invalidation = connection.thresholds.remote_invalidation;
  note(notice);
}

}  // namespace cw::gateway
