#include "control/gateway/gateway.h"

#include <algorithm>

#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kNoticesMax = 256;
// A client that waits longer than this for our REP is told to be patient (MRA).
constexpr Duration kSlowBackend = Duration::ms(500);

}  // namespace

const char* to_string(ConnectionState state) noexcept {
  switch (state) {
    case ConnectionState::kOpeningBackend:
      return "opening-backend";
    case ConnectionState::kAccepting:
      return "accepting";
    case ConnectionState::kEstablished:
      return "established";
  }
  return "unknown";
}

const char* to_string(ConnectionResult result) noexcept {
  switch (result) {
    case ConnectionResult::kAccepted:
      return "accepted";
    case ConnectionResult::kRefusedAcl:
      return "refused_acl";
    case ConnectionResult::kRefusedLimit:
      return "refused_limit";
    case ConnectionResult::kRefusedBackend:
      return "refused_backend";
    case ConnectionResult::kRefusedResources:
      return "refused_resources";
    case ConnectionResult::kRefusedDraining:
      return "refused_draining";
    case ConnectionResult::kClosedByPeer:
      return "closed_by_peer";
    case ConnectionResult::kClosedByUs:
      return "closed_by_us";
    case ConnectionResult::kFailedTransport:
      return "failed_transport";
    case ConnectionResult::kFailedProtocol:
      return "failed_protocol";
    case ConnectionResult::kFailedBackend:
      return "failed_backend";
    case ConnectionResult::kFailedHandshake:
      return "failed_handshake";
    case ConnectionResult::kCount:
      break;
  }
  return "unknown";
}

struct Gateway::Connection : TimerNode, ListNode<Gateway::StalledTag> {
  uint32_t slot = 0;
  LinkId link;
  cm::ConnectionId cm_id;
  cm::CmAddress address;
  cm::ConnectRequest request;
  const ListenerOptions* listener = nullptr;
  uint32_t listener_index = 0;
  ConnectionState state = ConnectionState::kOpeningBackend;
  bool link_open = false;
  bool asked_patience = false;
  Instant created;
  Instant open_deadline;
  rc::RcQp* qp = nullptr;
  rpcrdma::InlineThresholds thresholds;
  std::optional<rpcrdma::ServerEndpoint> server;
  // Calls that the backend owes a reply: the same index in both. At most one per credit, so a search is a few cache lines.
  std::vector<uint32_t> pending_xids;
  std::vector<rpcrdma::CallId> pending_calls;
  uint64_t calls = 0;
};

Gateway::Gateway(const GatewayOptions& options, node::Node& node, BufferPool& packets, BufferPool& large,
                 rpcrdma::ProgramRegistry& programs, RandomSource& random)
    : options_(options),
      node_(node),
      packets_(packets),
      large_(large),
      programs_(programs),
      random_(random),
      shared_(options.calls_in_flight_max, packets, options.pull_buffers_max),
      connections_(options.connections_max),
      generations_(options.connections_max),
      per_listener_(options.listeners.size()),
      by_cm_id_(options.connections_max, random.next_u64()),
      requests_(options.calls_in_flight_max + 2 * options.connections_max + 16),
      notices_(kNoticesMax),
      done_(options.calls_in_flight_max),
      waiting_(options.calls_in_flight_max) {
  free_slots_.reserve(options.connections_max);
  for (uint32_t slot = options.connections_max; slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
  for (size_t i = 0; i < options_.backends.size() && i < kBackendsMax; ++i) {
    stats_.backends[i].up = options_.backends[i].kind == BackendKind::kBuiltin ? 1 : 0;
  }
}

Gateway::~Gateway() {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      timers_.cancel(*connection);
      static_cast<ListNode<StalledTag>&>(*connection).unlink_if_linked();
      connection->server.reset();
      if (connection->qp != nullptr) {
        node_.endpoint().destroy_qp(*connection->qp);
      }
    }
  }
}

Status Gateway::start() {
  for (const ListenerOptions& listener : options_.listeners) {
    const Status status = node_.cm().listen(cm::ip_service_id(listener.port));
    if (!status.ok()) {
      return status;
    }
  }
  return {};
}

const ListenerOptions* Gateway::listener_for(uint16_t port) const {
  for (const ListenerOptions& listener : options_.listeners) {
    if (listener.port == port) {
      return &listener;
    }
  }
  return nullptr;
}

Gateway::Connection* Gateway::find(LinkId link) {
  const uint32_t slot = static_cast<uint32_t>(link.value());
  if (slot >= connections_.size() || connections_[slot] == nullptr || connections_[slot]->link != link) {
    return nullptr;
  }
  return connections_[slot].get();
}

void Gateway::run(Instant now) {
  cm::CmEvent event;
  while (node_.cm().poll_event(event)) {
    on_cm_event(now, event);
  }
  while (rc::RcQp* qp = node_.endpoint().poll_ready()) {
    on_queue_pair_ready(now, *qp);
  }
  // Programs that found no memory: the queue is gone through once, what still finds none goes to its end.
  for (uint32_t count = waiting_.size(); count > 0; --count) {
    Waiting waiting = waiting_.pop();
    if (Connection* connection = find(waiting.link)) {
      run_program(now, *connection, std::move(waiting.call));
      pump(now, *connection);
    }
  }
  while (requests_room(1)) {
    Connection* connection = stalled_.pop_front();
    if (connection == nullptr) {
      break;
    }
    pump(now, *connection);
  }
  while (TimerNode* node = timers_.pop_expired(now)) {
    on_timer(now, static_cast<Connection&>(*node));
  }
}

void Gateway::on_cm_event(Instant now, const cm::CmEvent& event) {
  if (const auto* request = event.as<cm::ConnectRequest>()) {
    on_connect_request(now, event, *request);
    return;
  }
  const uint32_t* slot = by_cm_id_.find(event.connection.value());
  if (slot == nullptr) {
    return;  // ended here before
  }
  Connection& connection = *connections_[*slot];
  if (event.as<cm::Established>() != nullptr) {
    connection.state = ConnectionState::kEstablished;
  } else if (event.as<cm::Disconnected>() != nullptr) {
    end(now, connection, ConnectionResult::kClosedByPeer, true);
  } else if (event.as<cm::Rejected>() != nullptr || event.as<cm::ConnectFailed>() != nullptr) {
    end(now, connection, ConnectionResult::kFailedHandshake, true);
  }
}

void Gateway::refuse(Instant now, const cm::CmEvent& event, cm::RejectReason reason, ConnectionResult result,
                     uint16_t listener_port, uint32_t backend) {
  (void)node_.cm().reject(now, event.connection, reason);
  ++stats_.connections[static_cast<size_t>(result)];
  Notice notice;
  notice.result = result;
  notice.peer = event.address.remote;
  notice.listener_port = listener_port;
  notice.backend = backend;
  note(notice);
}

void Gateway::on_connect_request(Instant now, const cm::CmEvent& event, const cm::ConnectRequest& request) {
  const uint16_t port = cm::ip_port_of(request.service);
  const ListenerOptions* listener = listener_for(port);
  if (listener == nullptr) {
    refuse(now, event, cm::RejectReason::kInvalidServiceId, ConnectionResult::kRefusedResources, port, 0);
    return;
  }
  if (shutting_down_) {
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
  const uint32_t listener_index = static_cast<uint32_t>(listener - options_.listeners.data());
  if (free_slots_.empty() || per_listener_[listener_index] >= listener->connections_max || !requests_room(2)) {
    refuse(now, event, cm::RejectReason::kNoResources, ConnectionResult::kRefusedLimit, port, listener->backend);
    return;
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  connections_[slot] = std::make_unique<Connection>();
  Connection& connection = *connections_[slot];
  connection.slot = slot;
  connection.link = LinkId((uint64_t{++generations_[slot]} << 32) | slot);
  connection.cm_id = event.connection;
  connection.address = event.address;
  connection.request = request;
  connection.listener = listener;
  connection.listener_index = listener_index;
  connection.created = now;
  connection.pending_xids.reserve(listener->server.credits);
  connection.pending_calls.reserve(listener->server.credits);
  ++per_listener_[listener_index];
  ++stats_.connections_open;
  (void)by_cm_id_.insert(event.connection.value(), slot);

  const rpcrdma::PrivateData ours{listener->inline_bytes, listener->inline_bytes, listener->remote_invalidate};
  connection.thresholds = rpcrdma::negotiate(ours, rpcrdma::PrivateData::of_peer(request.private_data.bytes()));

  const BackendOptions& backend = options_.backends[listener->backend];
  if (backend.kind == BackendKind::kBuiltin) {
    accept(now, connection);
    return;
  }
  // The backend first: a REP is a promise that calls will be answered (design decision 3).
  BackendRequest open;
  open.kind = BackendRequest::Kind::kOpen;
  open.link = connection.link;
  open.backend = listener->backend;
  open.client = event.address.remote;
  push_request(std::move(open));
  connection.open_deadline = now + backend.open_timeout;
  arm(connection, now + kSlowBackend);
}

void Gateway::accept(Instant now, Connection& connection) {
  const cm::ConnectRequest& request = connection.request;
  rc::RcOptions rc_options = options_.rc;
  rc_options.receive_bytes_max = connection.thresholds.receive_bytes;
  rc_options.user_data = connection.link.value();
  const auto qp = node_.endpoint().create_qp(rc_options);
  if (!qp.ok()) {
    end(now, connection, ConnectionResult::kRefusedResources, false);
    return;
  }
  connection.qp = *qp;
  rc::RcConnect connect;
  connect.path = node_.path_for(connection.address, connection.qp->local_qpn(), request.remote_qpn);
  connect.remote_qpn = request.remote_qpn;
  connect.remote_first_psn = wire::Psn(random_.next_u32());
  connect.local_first_psn = request.first_send_psn;
  connect.pkey = request.pkey;
  connect.path_mtu_bytes = cm::to_bytes(request.path_mtu);
  connect.initiator_depth = std::min<uint8_t>(request.peer_responder_resources, options_.rc.initiator_depth_max);
  connect.responder_resources = 0;
  connect.retry_count = std::min(request.retry_count, options_.retry_count);
  connect.rnr_retry = request.rnr_retry_count;
  connect.ack_timeout = std::max(request.ack_timeout_code, options_.ack_timeout_min_code);
  if (!node_.endpoint().connect_qp(*connection.qp, connect).ok()) {
    end(now, connection, ConnectionResult::kRefusedResources, false);
    return;
  }
  rpcrdma::ServerOptions server_options = connection.listener->server;
  server_options.read_unit_bytes = connect.path_mtu_bytes;
  connection.server.emplace(shared_, *connection.qp, server_options, connection.thresholds);
  connection.server->start();

  std::array<uint8_t, rpcrdma::PrivateData::kSize> private_data{};
  const ListenerOptions& listener = *connection.listener;
  (void)rpcrdma::PrivateData{listener.inline_bytes, listener.inline_bytes, listener.remote_invalidate}.write(private_data);
  cm::AcceptParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connect.remote_first_psn;
  parameters.our_responder_resources = 0;
  parameters.our_initiator_depth = connect.initiator_depth;
  parameters.private_data = private_data;
  if (!node_.cm().accept(now, connection.cm_id, parameters).ok()) {
    // The peer gave up meanwhile.
    end(now, connection, ConnectionResult::kFailedHandshake, true);
    return;
  }
  connection.state = ConnectionState::kAccepting;
  ++stats_.connections[static_cast<size_t>(ConnectionResult::kAccepted)];
  Notice notice;
  notice.result = ConnectionResult::kAccepted;
  notice.peer = connection.address.remote;
  notice.listener_port = listener.port;
  notice.backend = listener.backend;
  notice.local_qpn = connection.qp->local_qpn();
  notice.remote_qpn = request.remote_qpn;
  notice.inline_send_bytes = connection.thresholds.send_bytes;
  notice.inline_receive_bytes = connection.thresholds.receive_bytes;
  notice.path_mtu_bytes = connect.path_mtu_bytes;
  notice.remote_invalidation = connection.thresholds.remote_invalidation;
  note(notice);
}

void Gateway::on_queue_pair_ready(Instant now, rc::RcQp& qp) {
  Connection* connection = find(LinkId(qp.user_data()));
  if (connection == nullptr || connection->qp != &qp) {
    return;
  }
  if (connection->state == ConnectionState::kAccepting && qp.communication_established()) {
    node_.cm().data_arrived(now, connection->cm_id);
  }
  connection->server->on_completions(now);
  pump(now, *connection);
}

void Gateway::pump(Instant now, Connection& connection) {
  rpcrdma::Call call;
  const LinkId link = connection.link;
  ListNode<StalledTag>& stalled = connection;
  while (!stalled.is_linked()) {
    if (!requests_room(1)) {
      stalled_.push_back(connection);
      break;
    }
    if (!connection.server->poll_call(call)) {
      break;
    }
    route(now, connection, std::move(call));
    if (find(link) == nullptr) {
      return;  // the call ended its connection
    }
  }
  rpcrdma::CallDone done;
  while (!done_.full() && connection.server->poll_done(done)) {
    ++connection.calls;
    (void)done_.push(std::move(done));
  }
  check_failed(now, connection);
  if (find(link) != nullptr) {
    arm(connection, connection.server->next_deadline());
  }
}

void Gateway::check_failed(Instant now, Connection& connection) {
  if (connection.qp->in_error()) {
    end(now, connection, ConnectionResult::kFailedTransport, false);
  } else if (connection.server->failed()) {
    end(now, connection, ConnectionResult::kFailedProtocol, false);
  }
}

void Gateway::route(Instant now, Connection& connection, rpcrdma::Call&& call) {
  const uint32_t backend_index = connection.listener->backend;
  const BackendOptions& backend = options_.backends[backend_index];
  BackendStats& stats = stats_.backends[backend_index];
  ++stats.calls;
  stats.bytes_out += call.message.bytes();
  if (backend.kind == BackendKind::kBuiltin && !backend.run_on_workers) {
    ++stats.calls_in_flight;
    run_program(now, connection, std::move(call));
    return;
  }
  BackendRequest request;
  request.link = connection.link;
  request.backend = backend_index;
  request.call = call.id;
  request.context = call.context;
  request.message = std::move(call.message);
  if (backend.kind == BackendKind::kBuiltin) {
    request.kind = BackendRequest::Kind::kRun;
  } else {
    request.kind = BackendRequest::Kind::kSend;
    const uint32_t xid = call.context.header.xid;
    const auto& pending = connection.pending_xids;
    if (std::find(pending.begin(), pending.end(), xid) != pending.end()) {
      // RFC 8166 4.2.1: an XID is in use once at a time. The reply could go to either call: neither may be trusted.
      ++stats_.duplicate_xids;
      end(now, connection, ConnectionResult::kFailedProtocol, false);
      return;
    }
    connection.pending_xids.push_back(xid);
    connection.pending_calls.push_back(call.id);
  }
  ++stats.calls_in_flight;
  push_request(std::move(request));
}

void Gateway::run_program(Instant now, Connection& connection, rpcrdma::Call&& call) {
  Chain reply;
  BackendStats& stats = stats_.backends[connection.listener->backend];
  if (!programs_.dispatch(call.context, call.message, large_, reply)) {
    (void)waiting_.push(Waiting{connection.link, std::move(call)});
    return;
  }
  --stats.calls_in_flight;
  ++stats.replies;
  stats.bytes_in += reply.bytes();
  connection.server->reply(now, call.id, std::move(reply));
}

void Gateway::push_request(BackendRequest&& request) {
  const bool pushed = requests_.push(std::move(request));
  CW_ASSERT(pushed);
}

bool Gateway::poll_backend_request(BackendRequest& out) {
  if (requests_.empty()) {
    return false;
  }
  out = requests_.pop();
  return true;
}

bool Gateway::poll_done(rpcrdma::CallDone& out) {
  if (done_.empty()) {
    return false;
  }
  out = done_.pop();
  return true;
}

bool Gateway::poll_notice(Notice& out) {
  if (notices_.empty()) {
    return false;
  }
  out = notices_.pop();
  return true;
}

void Gateway::on_backend_event(Instant now, BackendEvent&& event) {
  Connection* connection = find(event.link);
  BackendStats& stats = stats_.backends[event.backend];
  if (connection == nullptr) {
    // Gone meanwhile; the message is given back by its Chain.
    if (event.kind == BackendEvent::Kind::kRan) {
      --stats.calls_in_flight;
    }
    return;
  }
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      connection->link_open = true;
      stats.up = 1;
      ++stats.opens;
      ++stats.links;
      accept(now, *connection);
      return;
    case BackendEvent::Kind::kFailed:
      stats.up = 0;
      ++stats.open_failures;
      end(now, *connection, ConnectionResult::kRefusedBackend, false);
      return;
    case BackendEvent::Kind::kMessage:
      stats.bytes_in += event.message.bytes();
      on_backend_message(now, *connection, std::move(event.message));
      return;
    case BackendEvent::Kind::kClosed:
      ++stats.closes;
      end(now, *connection, ConnectionResult::kFailedBackend, false);
      return;
    case BackendEvent::Kind::kRan:
      --stats.calls_in_flight;
      if (event.message.empty()) {
        connection->server->fail();
      } else {
        ++stats.replies;
        stats.bytes_in += event.message.bytes();
        connection->server->reply(now, event.call, std::move(event.message));
      }
      pump(now, *connection);
      return;
  }
}

void Gateway::on_backend_message(Instant now, Connection& connection, Chain&& message) {
  std::array<uint8_t, 8> start{};
  if (connection.server == std::nullopt || message.bytes() < start.size()) {
    ++stats_.messages_malformed;
    return;
  }
  message.copy_to(0, start);
  const uint32_t xid = load_be32(start.data());
  if (load_be32(start.data() + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    ++stats_.reverse_calls_dropped;  // RFC 8167: not offered to the client, so the backend has no business to call it
    return;
  }
  auto& xids = connection.pending_xids;
  const auto found = std::find(xids.begin(), xids.end(), xid);
  if (found == xids.end()) {
    ++stats_.replies_unmatched;
    return;
  }
  const size_t index = static_cast<size_t>(found - xids.begin());
  const rpcrdma::CallId call = connection.pending_calls[index];
  xids[index] = xids.back();
  xids.pop_back();
  connection.pending_calls[index] = connection.pending_calls.back();
  connection.pending_calls.pop_back();
  BackendStats& stats = stats_.backends[connection.listener->backend];
  --stats.calls_in_flight;
  ++stats.replies;
  connection.server->reply(now, call, std::move(message));
  pump(now, connection);
}

void Gateway::arm(Connection& connection, Instant deadline) {
  // Moving a timer with each call would cost more than an early wake-up now and then.
  if (!connection.is_armed() || deadline < connection.deadline()) {
    timers_.arm(connection, deadline);
  }
}

void Gateway::on_timer(Instant now, Connection& connection) {
  if (connection.state == ConnectionState::kOpeningBackend) {
    if (now >= connection.open_deadline) {
      BackendStats& stats = stats_.backends[connection.listener->backend];
      stats.up = 0;
      ++stats.open_failures;
      end(now, connection, ConnectionResult::kRefusedBackend, false);
      return;
    }
    if (!connection.asked_patience) {
      connection.asked_patience = true;
      (void)node_.cm().delay(now, connection.cm_id, connection.open_deadline - now);
    }
    arm(connection, connection.open_deadline);
    return;
  }
  if (connection.server->next_deadline() <= now) {
    const uint64_t before = shared_.stats.call_timeouts;
    connection.server->on_deadline(now);
    stats_.backends[connection.listener->backend].call_timeouts += shared_.stats.call_timeouts - before;
  }
  pump(now, connection);
}

void Gateway::end(Instant now, Connection& connection, ConnectionResult result, bool peer_ended) {
  BackendStats& stats = stats_.backends[connection.listener->backend];
  Notice notice;
  notice.result = result;
  notice.peer = connection.address.remote;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.listener->backend;
  notice.remote_qpn = connection.request.remote_qpn;
  notice.calls = connection.calls;
  if (connection.qp != nullptr) {
    notice.local_qpn = connection.qp->local_qpn();
    notice.qp_error = connection.qp->error();
  }
  ++stats_.connections[static_cast<size_t>(result)];
  note(notice);

  if (!peer_ended) {
    if (result == ConnectionResult::kRefusedBackend) {
      // What the client would see of a backend port without listener.
      (void)node_.cm().reject(now, connection.cm_id, cm::RejectReason::kConsumerDefined);
    } else if (result == ConnectionResult::kRefusedResources) {
      (void)node_.cm().reject(now, connection.cm_id, cm::RejectReason::kNoResources);
    } else {
      node_.cm().disconnect(now, connection.cm_id);
    }
  }
  if (options_.backends[connection.listener->backend].kind == BackendKind::kTcp) {
    BackendRequest close;
    close.kind = BackendRequest::Kind::kClose;
    close.link = connection.link;
    close.backend = connection.listener->backend;
    push_request(std::move(close));
    stats.calls_in_flight -= connection.pending_xids.size();
    if (connection.link_open) {
      --stats.links;
    }
  } else if (connection.server != std::nullopt) {
    // Calls of built-in programs that wait or run are dropped when they come back.
    uint64_t dropped = 0;
    for (uint32_t count = waiting_.size(); count > 0; --count) {
      Waiting waiting = waiting_.pop();
      if (waiting.link == connection.link) {
        ++dropped;
      } else {
        (void)waiting_.push(std::move(waiting));
      }
    }
    stats.calls_in_flight -= dropped;
  }
  timers_.cancel(connection);
  static_cast<ListNode<StalledTag>&>(connection).unlink_if_linked();
  connection.server.reset();
  if (connection.qp != nullptr) {
    node_.endpoint().destroy_qp(*connection.qp);
  }
  by_cm_id_.erase(connection.cm_id.value());
  --per_listener_[connection.listener_index];
  --stats_.connections_open;
  const uint32_t slot = connection.slot;
  connections_[slot].reset();
  free_slots_.push_back(slot);
}

void Gateway::note(const Notice& notice) {
  if (!notices_.push(Notice(notice))) {
    ++stats_.notices_dropped;
  }
}

void Gateway::shut_down(Instant now) {
  shutting_down_ = true;
  for (const ListenerOptions& listener : options_.listeners) {
    node_.cm().unlisten(cm::ip_service_id(listener.port));
  }
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      end(now, *connection, ConnectionResult::kClosedByUs, false);
    }
  }
}

bool Gateway::is_quiet() const {
  return shutting_down_ && stats_.connections_open == 0 && node_.cm().live_count() == 0;
}

uint32_t Gateway::describe(Instant now, std::span<ConnectionInfo> out) const {
  uint32_t count = 0;
  for (const auto& connection : connections_) {
    if (connection == nullptr) {
      continue;
    }
    if (count < out.size()) {
      ConnectionInfo& info = out[count];
      info = ConnectionInfo{};
      info.id = connection->link.value();
      info.state = connection->state;
      info.listener_port = connection->listener->port;
      info.backend = connection->listener->backend;
      info.peer = connection->address.remote;
      info.peer_port = connection->request.ip_cm.source_port;
      info.thresholds = connection->thresholds;
      info.calls = connection->calls;
      info.age = now - connection->created;
      if (connection->qp != nullptr) {
        info.qp = connection->qp->info();
      }
      if (connection->server) {
        info.credits_granted = connection->server->credits_granted();
        info.calls_in_flight = connection->server->calls_in_flight();
      }
    }
    ++count;
  }
  return count;
}

}  // namespace cw::gateway
