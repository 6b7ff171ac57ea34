#include "gateway/client/client.h"

#include <algorithm>

#include "rocev2/rc/held_packets.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::client {
namespace {

constexpr Duration kResolvePoll = Duration::ms(10);

}  // namespace

struct Client::Connection : TimerNode, ListNode<Client::ReadyTag> {
  ClientId id;
  IpAddress server;
  IpAddress local;
  uint16_t service_port = 0;
  bool resolving = true;
  Instant resolve_deadline;
  cm::ConnectionId cm_id;
  cm::CmAddress address;
  rc::RcQp* qp = nullptr;
  wire::Psn first_receive_psn;
  verbs::ProtectionDomain domain;
  std::optional<rpcrdma::ClientEndpoint> endpoint;
};

Client::Client(const ClientOptions& options, node::Node& node, verbs::MemoryTable& memory, BufferPool& packets,
               RandomSource& random)
    : options_(options),
      node_(node),
      memory_(memory),
      packets_(packets),
      random_(random),
      connections_(options.connections_max),
      by_cm_id_(options.connections_max, random.next_u64()),
      timers_(options.connections_max),
      events_(2 * options.connections_max + 16) {}

Client::~Client() {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      end(*connection, ClientEvent{}, false);
    }
  }
}

rpcrdma::PrivateData Client::ours() const {
  return options_.private_data ? rpcrdma::PrivateData{}
                               : rpcrdma::PrivateData{options_.inline_bytes, options_.inline_bytes, options_.remote_invalidate};
}

Client::Connection* Client::find(ClientId id) {
  return id.value() < connections_.size() ? connections_[id.value()].get() : nullptr;
}

rpcrdma::ClientEndpoint* Client::endpoint(ClientId id) {
  Connection* connection = find(id);
  return connection != nullptr && connection->endpoint ? &*connection->endpoint : nullptr;
}

rc::RcQp* Client::queue_pair(ClientId id) {
  Connection* connection = find(id);
  return connection != nullptr ? connection->qp : nullptr;
}

Result<ClientId> Client::connect(Instant now, const IpAddress& server, uint16_t service_port) {
  const auto local = node_.station(0).source_for(server);
  if (!local) {
    return fail(Error::kBadValue);
  }
  const auto free = std::find(connections_.begin(), connections_.end(), nullptr);
  if (free == connections_.end()) {
    return fail(Error::kNoResources);
  }
  *free = std::make_unique<Connection>();
  Connection& connection = **free;
  connection.id = ClientId(static_cast<uint32_t>(free - connections_.begin()));
  connection.server = server;
  connection.local = *local;
  connection.service_port = service_port;
  connection.resolve_deadline = now + options_.resolve_timeout;
  connection.domain = verbs::ProtectionDomain(next_domain_++);
  timers_.arm(connection, now);
  return connection.id;
}

void Client::start_handshake(Instant now, Connection& connection, const wire::MacAddress& mac) {
  connection.resolving = false;
  rc::RcOptions rc_options = options_.rc;
  rc_options.remote_access = verbs::RemoteAccess::kReadWrite;
  rc_options.responder_resources_max = std::max<uint8_t>(rc_options.responder_resources_max, 1);
  rc_options.receive_bytes_max = options_.inline_bytes;
  rc_options.domain = connection.domain;
  rc_options.user_data = connection.id.value();
  const auto qp = node_.endpoint().create_qp(rc_options);
  if (!qp.ok()) {
    end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, cm::RejectReason::kNoResources, {}}, true);
    return;
  }
  connection.qp = *qp;
  connection.first_receive_psn = wire::Psn(random_.next_u32());
  const link::StationOptions& station = node_.station(0).options();
  connection.address = cm::CmAddress{.local = connection.local,
                                     .remote = connection.server,
                                     .remote_mac = mac,
                                     .vlan = station.vlan,
                                     .port = station.port,
                                     .remote_qpn = cm::kGsiQpn};
  const uint16_t hold_packets = options_.rc.selective_recovery ? uint16_t{rc::HeldPackets::kSpan} : uint16_t{0};
  const auto private_data = rpcrdma::connect_bytes(ours(), {.hold_packets = hold_packets});
  cm::ConnectParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connection.first_receive_psn;
  parameters.path_mtu = cm::path_mtu_for(options_.path_mtu_bytes);
  parameters.our_responder_resources = rc_options.responder_resources_max;
  parameters.our_initiator_depth = 0;
  parameters.ack_timeout_code = options_.ack_timeout;
  parameters.source_port = static_cast<uint16_t>(0x8000 | random_.next_below(0x7000));
  parameters.private_data = options_.private_data ? Bytes(*options_.private_data) : private_data.bytes();
  const auto id = node_.cm().connect(now, connection.address, cm::ip_service_id(connection.service_port), parameters);
  if (!id.ok() || !by_cm_id_.insert(id->value(), connection.id.value())) {
    end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, cm::RejectReason::kNoResources, {}}, true);
    return;
  }
  connection.cm_id = *id;
}

void Client::on_cm_event(Instant now, const cm::CmEvent& event) {
  const uint32_t* index = by_cm_id_.find(event.connection.value());
  if (index == nullptr) {
    return;
  }
  Connection& connection = *connections_[*index];
  if (const auto* reply = event.as<cm::ConnectReply>()) {
    on_reply(now, connection, *reply);
  } else if (const auto* rejected = event.as<cm::Rejected>()) {
    end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, rejected->reason, {}}, true);
  } else if (event.as<cm::ConnectFailed>() != nullptr) {
    end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, cm::RejectReason::kTimeout, {}}, true);
  } else if (event.as<cm::Disconnected>() != nullptr) {
    end(connection, ClientEvent{ClientEvent::Kind::kLost, connection.id, {}, connection.qp->error()}, true);
  }
}

void Client::on_reply(Instant now, Connection& connection, const cm::ConnectReply& reply) {
  rc::RcConnect connect =
      node_.connect_values(connection.address, *connection.qp, connection.first_receive_psn, reply, {}, options_.ack_timeout);
  connect.path_mtu_bytes = options_.path_mtu_bytes;
  // A gateway that reads more at a time than it announced is served all the same.
  connect.responder_resources = std::max<uint8_t>(options_.rc.responder_resources_max, 1);
  connect.peer_hold_packets = rpcrdma::CausewayOffer::of_peer(reply.private_data.bytes()).hold_packets;
  if (connect.peer_hold_packets > 0) {
    // A secret between the two, for what that is worth: packets ahead of a gap are held from this port only.
    connect.path.udp_source_port = static_cast<uint16_t>(node::kFirstSourcePort | random_.next_below(node::kSourcePorts));
  }
  if (!node_.endpoint().connect_qp(*connection.qp, connect).ok()) {
    node_.cm().disconnect(now, connection.cm_id);
    end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, cm::RejectReason::kNoResources, {}}, true);
    return;
  }
  const rpcrdma::InlineThresholds thresholds =
      rpcrdma::negotiate(ours(), rpcrdma::PrivateData::of_peer(reply.private_data.bytes()));
  connection.endpoint.emplace(*connection.qp, memory_, connection.domain, packets_, options_.rpc, thresholds, random_.next_u32(),
                              stats_);
  connection.endpoint->start();
  (void)node_.cm().ready(now, connection.cm_id);
  arm(connection);
  ++connected_;
  (void)events_.push(ClientEvent{ClientEvent::Kind::kConnected, connection.id, {}, {}});
}

void Client::run(Instant now) {
  now_ = now;
  cm::CmEvent event;
  while (node_.cm().poll_event(event)) {
    on_cm_event(now, event);
  }
  while (rc::RcQp* qp = node_.endpoint().poll_ready()) {
    Connection* connection = find(ClientId(static_cast<uint32_t>(qp->user_data())));
    if (connection == nullptr || connection->qp != qp || !connection->endpoint) {
      continue;
    }
    connection->endpoint->on_completions(now);
    if (connection->endpoint->failed() && !qp->in_error()) {
      qp->close();  // before anyone sees the outcomes: memory that could not be shut off is out of reach (RFC 8166 4.5.4)
    }
    serve_reverse(now, *connection);
    ListNode<ReadyTag>& ready = *connection;
    if (!ready.is_linked()) {
      ready_.push_back(*connection);
    }
    arm(*connection);
  }
  while (TimerNode* node = timers_.pop_expired(now)) {
    Connection& connection = static_cast<Connection&>(*node);
    if (connection.resolving) {
      const auto mac = node_.station(0).resolve(now, connection.server);
      if (mac) {
        start_handshake(now, connection, *mac);
      } else if (now >= connection.resolve_deadline) {
        end(connection, ClientEvent{ClientEvent::Kind::kRefused, connection.id, cm::RejectReason::kTimeout, {}}, true);
      } else {
        timers_.arm(connection, now + kResolvePoll);
      }
      continue;
    }
    if (connection.endpoint) {
      ListNode<ReadyTag>& ready = connection;
      if (!ready.is_linked() && (connection.endpoint->failed() || connection.qp->in_error())) {
        node_.cm().disconnect(now, connection.cm_id);
        end(connection, ClientEvent{ClientEvent::Kind::kLost, connection.id, {}, connection.qp->error()}, true);
        continue;
      }
      connection.endpoint->on_deadline(now);
      if (!ready.is_linked()) {
        ready_.push_back(connection);
      }
      arm(connection);
    }
  }
}

void Client::serve_reverse(Instant now, Connection& connection) {
  rpcrdma::ReverseCall call;
  Chain reply;
  while (connection.endpoint->poll_reverse_call(call)) {
    if (!reverse_programs_->dispatch(call.context, call.message, packets_, reply)) {
      connection.endpoint->fail();  // no memory for the reply: the server would wait for it
      return;
    }
    connection.endpoint->reply_reverse(now, call.xid, std::move(reply));
    reply = Chain();
  }
}

std::optional<ClientId> Client::poll_ready() {
  Connection* connection = ready_.pop_front();
  if (connection == nullptr) {
    return std::nullopt;
  }
  arm(*connection);
  if (connection->endpoint->failed() || connection->qp->in_error()) {
    // Replies that the endpoint still holds (as lost) are polled by the caller before the next run(): the end comes with it.
    timers_.arm(*connection, Instant::from_ns(0));
  }
  return connection->id;
}

// Calls are submitted behind our back: whatever comes next cannot time out before this.
void Client::arm(Connection& connection) {
  const Instant deadline = earlier(connection.endpoint->next_deadline(), now_ + options_.rpc.call_timeout);
  if (!connection.is_armed() || deadline < connection.deadline()) {
    timers_.arm(connection, deadline);
  }
}

Status Client::cancel(ClientId id, uint32_t xid) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->endpoint) {
    return fail(Error::kBadState);
  }
  const Status cancelled = connection->endpoint->cancel(xid);
  if (connection->endpoint->failed()) {
    if (!connection->qp->in_error()) {
      connection->qp->close();  // memory that could not be shut off is out of reach
    }
    timers_.arm(*connection, Instant::from_ns(0));  // the end comes with the next run()
  }
  return cancelled;
}

void Client::disconnect(Instant now, ClientId id) {
  if (Connection* connection = find(id)) {
    if (!connection->resolving) {
      node_.cm().disconnect(now, connection->cm_id);
    }
    end(*connection, ClientEvent{}, false);
  }
}

void Client::end(Connection& connection, const ClientEvent& event, bool tell) {
  if (tell) {
    (void)events_.push(ClientEvent(event));
  }
  timers_.cancel(connection);
  static_cast<ListNode<ReadyTag>&>(connection).unlink_if_linked();
  if (connection.endpoint) {
    --connected_;
    connection.endpoint.reset();
  }
  if (connection.qp != nullptr) {
    node_.endpoint().destroy_qp(*connection.qp);
  }
  by_cm_id_.erase(connection.cm_id.value());
  connections_[connection.id.value()].reset();
}

bool Client::poll_event(ClientEvent& out) {
  if (events_.empty()) {
    return false;
  }
  out = events_.pop();
  return true;
}

}  // namespace cw::client
