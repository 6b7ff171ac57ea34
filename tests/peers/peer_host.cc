#include "tests/peers/peer_host.h"

#include <algorithm>
#include <utility>

#include "control/cm/timeout_code.h"

namespace cw::peers {
namespace {

constexpr Duration kResolvePoll = Duration::ms(10);
constexpr Duration kRefusedPause = Duration::ms(100);

}  // namespace

PeerHost::PeerHost(const PeerHostOptions& options, node::Node& node, RandomSource& random)
    : PeerSessions(options), node_(node), random_(random) {}

PeerHost::~PeerHost() {
  for (auto& session : sessions_) {
    for (Connection& connection : session->connections) {
      drop_qp(connection);
    }
  }
}

Status PeerSessions::serve(uint16_t port, uint32_t sessions_max, Factory factory) {
  factory_ = std::move(factory);
  serve_max_ = sessions_max;
  return listen(port);
}

Status PeerHost::listen(uint16_t port) {
  return node_.cm().listen(cm::ip_service_id(port));
}

void PeerSessions::open(Instant now, const IpAddress& server, uint16_t port, std::unique_ptr<Peer> peer) {
  auto session = std::make_unique<Session>();
  session->peer = std::move(peer);
  session->calls = true;
  session->other = server;
  session->port = port;
  session->connect_deadline = now + options_.connect_timeout;
  sessions_.push_back(std::move(session));
}

void PeerSessions::give_up(const std::string& why) {
  for (auto& session : sessions_) {
    session->peer->fail(why);
  }
  serve_max_ = served_;
}

bool PeerSessions::is_over() const {
  return served_ >= serve_max_ && std::all_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
           return session->peer->outcome() != Outcome::kRunning &&
                  std::all_of(session->connections.begin(), session->connections.end(), [](const Connection& connection) {
                    return connection.state == State::kFree || connection.state == State::kEnded;
                  });
         });
}

Instant PeerSessions::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& session : sessions_) {
    next = earlier(next, session->leave_at);
    for (const Connection& connection : session->connections) {
      if (connection.state == State::kWaiting) {
        next = earlier(next, connection.retry_at);
      }
      next = earlier(next, connection.settled_at);
    }
  }
  return next;
}

bool PeerSessions::run(Instant now) {
  const bool worked = take_events(now);
  for (size_t i = 0; i < sessions_.size(); ++i) {
    step(now, *sessions_[i]);
  }
  return worked;
}

bool PeerHost::take_events(Instant now) {
  bool worked = false;
  cm::CmEvent event;
  while (node_.cm().poll_event(event)) {
    worked = true;
    on_event(now, event);
  }
  // Peers look at all of their queue pairs themselves: there are few, and memory that was written to is not announced here.
  while (node_.endpoint().poll_ready() != nullptr) {
    worked = true;
  }
  return worked;
}

void PeerHost::on_event(Instant now, const cm::CmEvent& event) {
  if (const auto* request = event.as<cm::ConnectRequest>()) {
    on_request(now, event, *request);
    return;
  }
  const Place place = find([&](const Connection& connection) { return connection.cm_id == event.connection; });
  if (place.session == nullptr) {
    return;
  }
  if (const auto* reply = event.as<cm::ConnectReply>()) {
    on_reply(now, *place.session, *place.connection, *reply);
  } else if (event.as<cm::Established>() != nullptr) {
    place.connection->state = State::kOpen;
    place.session->peer->on_connected(now, place.connection->index);
  } else if (const auto* rejected = event.as<cm::Rejected>()) {
    on_refused(now, *place.session, *place.connection, cm::to_string(rejected->reason));
  } else if (const auto* failed = event.as<cm::ConnectFailed>()) {
    on_refused(now, *place.session, *place.connection, cm::to_string(failed->failure));
  } else if (event.as<cm::Disconnected>() != nullptr) {
    on_disconnected(now, *place.session, *place.connection);
  }
}

PeerSessions::Place PeerSessions::place_for(const IpAddress& client) {
  for (auto& session : sessions_) {
    if (session->calls || session->peer->outcome() != Outcome::kRunning || session->other != client) {
      continue;
    }
    for (Connection& connection : session->connections) {
      if (connection.state == State::kFree) {
        return Place{session.get(), &connection};
      }
    }
    if (session->connections.size() < session->peer->connections_wanted()) {
      Connection& connection = session->connections.emplace_back();
      connection.index = static_cast<uint32_t>(session->connections.size() - 1);
      return Place{session.get(), &connection};
    }
  }
  if (served_ >= serve_max_) {
    return Place{};
  }
  ++served_;
  auto session = std::make_unique<Session>();
  session->peer = factory_();
  session->other = client;
  session->connections.emplace_back();
  sessions_.push_back(std::move(session));
  return Place{sessions_.back().get(), &sessions_.back()->connections.back()};
}

void PeerHost::on_request(Instant now, const cm::CmEvent& event, const cm::ConnectRequest& request) {
  const Place place = place_for(event.address.remote);
  if (place.session == nullptr) {
    (void)node_.cm().reject(now, event.connection, cm::RejectReason::kNoResources);
    return;
  }
  Connection& connection = *place.connection;
  connection.cm_id = event.connection;
  connection.address = event.address;
  if (!make_qp(*place.session, connection)) {
    (void)node_.cm().reject(now, event.connection, cm::RejectReason::kNoResources);
    return;
  }
  const QpProfile profile = place.session->peer->profile(connection.index);
  rc::RcConnect connect = node_.connect_values(connection.address, *connection.qp, connection.first_receive_psn, request,
                                               {.initiator = profile.initiator_depth, .responder = profile.responder_resources});
  connect.ack_timeout = std::max(request.ack_timeout_code, options_.ack_timeout);
  cm::AcceptParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connection.first_receive_psn;
  parameters.our_responder_resources = connect.responder_resources;
  parameters.our_initiator_depth = connect.initiator_depth;
  if (!node_.endpoint().connect_qp(*connection.qp, connect).ok() || !node_.cm().accept(now, connection.cm_id, parameters).ok()) {
    on_refused(now, *place.session, connection, "what the client asks for cannot be accepted");
    node_.cm().disconnect(now, event.connection);
    return;
  }
  connection.state = State::kConnecting;
  ++connections_made_;
}

bool PeerHost::make_qp(Session& session, Connection& connection) {
  const QpProfile profile = session.peer->profile(connection.index);
  rc::RcOptions options;
  options.send_window_packets = options_.send_window_packets;
  options.send_queue_depth = profile.send_queue_depth;
  options.receive_bytes_max = profile.receive_bytes_max;
  options.remote_access = profile.remote_access;
  options.responder_resources_max = profile.responder_resources;
  options.initiator_depth_max = profile.initiator_depth;
  options.domain = profile.domain;
  options.keepalive = options_.keepalive;
  const auto qp = node_.endpoint().create_qp(options);
  if (!qp.ok()) {
    session.peer->fail("no queue pair left");
    return false;
  }
  connection.qp = *qp;
  connection.first_receive_psn = wire::Psn(random_.next_u32());
  session.peer->attach(connection.index, *connection.qp);
  return true;
}

void PeerHost::disconnect(Instant now, Connection& connection) {
  node_.cm().disconnect(now, connection.cm_id);
}

void PeerHost::drop_qp(Connection& connection) {
  if (connection.qp != nullptr) {
    node_.endpoint().destroy_qp(*connection.qp);
    connection.qp = nullptr;
  }
}

void PeerHost::call(Instant now, Session& session, Connection& connection) {
  const auto local = node_.station(0).source_for(session.other);
  if (!local) {
    session.peer->fail("no address of our own in the server's family");
    return;
  }
  const auto mac = node_.station(0).resolve(now, session.other);
  if (!mac) {
    connection.retry_at = now + kResolvePoll;
    if (now >= session.connect_deadline) {
      session.peer->fail("nobody answers for the server's address");
    }
    return;
  }
  if (!make_qp(session, connection)) {
    return;
  }
  const link::StationOptions& station = node_.station(0).options();
  connection.address = cm::CmAddress{.local = *local,
                                     .remote = session.other,
                                     .remote_mac = *mac,
                                     .vlan = station.vlan,
                                     .port = station.port,
                                     .remote_qpn = cm::kGsiQpn};
  const QpProfile profile = session.peer->profile(connection.index);
  cm::ConnectParameters parameters;
  parameters.local_qpn = connection.qp->local_qpn();
  parameters.first_receive_psn = connection.first_receive_psn;
  parameters.path_mtu = cm::path_mtu_for(options_.path_mtu_bytes);
  parameters.our_responder_resources = profile.responder_resources;
  parameters.our_initiator_depth = profile.initiator_depth;
  parameters.ack_timeout_code = cm::ack_timeout_towards(options_.ack_timeout, cm::AcceptParameters{}.target_ack_delay_code);
  parameters.source_port = static_cast<uint16_t>(0x8000 | random_.next_below(0x7000));
  const auto id = node_.cm().connect(now, connection.address, cm::ip_service_id(session.port), parameters);
  if (!id.ok()) {
    on_refused(now, session, connection, "no place for another connection");
    return;
  }
  connection.cm_id = *id;
  connection.state = State::kConnecting;
}

void PeerHost::on_reply(Instant now, Session& session, Connection& connection, const cm::ConnectReply& reply) {
  const QpProfile profile = session.peer->profile(connection.index);
  rc::RcConnect connect = node_.connect_values(connection.address, *connection.qp, connection.first_receive_psn, reply,
                                               {.initiator = profile.initiator_depth, .responder = profile.responder_resources},
                                               options_.ack_timeout);
  connect.path_mtu_bytes = options_.path_mtu_bytes;
  if (!node_.endpoint().connect_qp(*connection.qp, connect).ok()) {
    node_.cm().disconnect(now, connection.cm_id);
    session.peer->fail("what the server offers cannot be used");
    drop_qp(connection);
    connection.state = State::kEnded;
    return;
  }
  (void)node_.cm().ready(now, connection.cm_id);
  connection.state = State::kOpen;
  ++connections_made_;
  session.peer->on_connected(now, connection.index);
}

void PeerSessions::on_refused(Instant now, Session& session, Connection& connection, const std::string& reason) {
  session.peer->detach(connection.index);
  drop_qp(connection);
  if (!session.calls) {
    connection.state = State::kFree;
    return;
  }
  connection.state = State::kWaiting;
  connection.retry_at = now + kRefusedPause;
  if (now >= session.connect_deadline) {
    session.peer->fail("the server refused connection " + std::to_string(connection.index) + ": " + reason);
  }
}

void PeerSessions::on_disconnected(Instant now, Session& session, Connection& connection) {
  connection.settled_at = Instant::never();
  session.peer->run(now);  // what arrived before the other side left counts
  connection.state = State::kEnded;
  drop_qp(connection);
  session.peer->on_disconnected(now, connection.index);
}

void PeerSessions::step(Instant now, Session& session) {
  Peer& peer = *session.peer;
  if (peer.outcome() == Outcome::kRunning && session.calls) {
    while (session.connections.size() < peer.connections_wanted()) {
      Connection& connection = session.connections.emplace_back();
      connection.index = static_cast<uint32_t>(session.connections.size() - 1);
      connection.state = State::kWaiting;
      connection.retry_at = now;
      session.connect_deadline = now + options_.connect_timeout;
    }
  }
  for (Connection& connection : session.connections) {
    if (connection.state == State::kWaiting && connection.retry_at <= now && peer.outcome() == Outcome::kRunning) {
      call(now, session, connection);
    }
    watch(now, session, connection);
  }
  if (peer.outcome() == Outcome::kRunning) {
    peer.run(now);
  }
  if (peer.outcome() == Outcome::kRunning || session.left) {
    return;
  }
  if (session.leave_at.is_never()) {
    session.leave_at = peer.outcome() == Outcome::kDone ? now + peer.linger() : now;
  }
  if (session.leave_at <= now) {
    leave(now, session);
  }
}

void PeerHost::watch(Instant now, Session& session, Connection& connection) {
  if (connection.qp == nullptr) {
    return;
  }
  if (connection.state == State::kConnecting && connection.qp->communication_established()) {
    node_.cm().data_arrived(now, connection.cm_id);
  }
  if (connection.qp->in_error() && session.peer->outcome() == Outcome::kRunning) {
    session.peer->run(now);
    const rc::QpError& error = connection.qp->error();
    if (error.cause == rc::QpErrorCause::kPeerSilent) {
      node_.cm().disconnect(now, connection.cm_id);
      on_disconnected(now, session, connection);
      return;
    }
    session.peer->fail("connection " + std::to_string(connection.index) + " failed: " + rc::to_string(error.cause) + ", PSN " +
                       std::to_string(error.psn.value()));
  }
}

void PeerSessions::leave(Instant now, Session& session) {
  for (Connection& connection : session.connections) {
    if (connection.lives()) {
      disconnect(now, connection);
      drop_qp(connection);
    }
    connection.state = State::kEnded;
  }
  session.left = true;
  session.leave_at = Instant::never();
}

// ---- On a verbs::Transport ----

TransportPeerHost::~TransportPeerHost() {
  for (auto& session : sessions_) {
    for (Connection& connection : session->connections) {
      drop_qp(connection);
    }
  }
}

bool TransportPeerHost::take_events(Instant now) {
  bool worked = false;
  verbs::ConnectionEvent event;
  while (transport_.poll_event(now, event)) {
    worked = true;
    on_event(now, event);
  }
  verbs::ReadyQueuePair ready;
  while (transport_.poll_ready(ready)) {
    worked = true;
  }
  transport_.on_deadline(now);
  return worked;
}

verbs::ConnectionOptions TransportPeerHost::options_of(const Session& session, const Connection& connection) {
  const QpProfile profile = session.peer->profile(connection.index);
  verbs::ConnectionOptions options;
  options.receive_bytes_max = profile.receive_bytes_max;
  options.domain = profile.domain;
  return options;
}

void TransportPeerHost::on_event(Instant now, const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (event.kind == Kind::kConnectRequest) {
    on_request(now, event);
    return;
  }
  const Place place = find([&](const Connection& connection) { return connection.id == event.connection; });
  if (place.session == nullptr) {
    return;
  }
  Session& session = *place.session;
  Connection& connection = *place.connection;
  switch (event.kind) {
    case Kind::kConnectResponse:
      session.peer->attach(connection.index, *event.queue_pair);
      transport_.establish(now, event.connection);
      ++connections_made_;
      connection.settled_at = now + options_.settling_time;
      return;
    case Kind::kEstablished:
      connection.state = State::kOpen;
      session.peer->on_connected(now, connection.index);
      return;
    case Kind::kRejected:
    case Kind::kUnreachable:
      on_refused(now, session, connection, std::string(event.rejection.name));
      return;
    case Kind::kDisconnected: {
      const verbs::QueuePairError error = transport_.describe(event.connection).error;
      session.peer->run(now);  // what arrived before counts
      // Linux ends a connection with either when its program is done.
      if (error.cause != "peer_closed" && error.cause != "tcp_reset") {
        session.peer->fail("connection " + std::to_string(connection.index) + " failed: " + to_text(error));
      }
      on_disconnected(now, session, connection);
      return;
    }
    case Kind::kConnectRequest:
      return;
  }
}

void TransportPeerHost::on_request(Instant now, const verbs::ConnectionEvent& event) {
  const Place place = place_for(event.peer);
  if (place.session == nullptr) {
    transport_.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
    return;
  }
  Connection& connection = *place.connection;
  const auto accepted = transport_.accept(now, event.connection, options_of(*place.session, connection));
  if (!accepted.ok()) {
    transport_.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
    on_refused(now, *place.session, connection, "what the client asks for cannot be accepted");
    return;
  }
  connection.id = event.connection;
  connection.state = State::kConnecting;
  ++connections_made_;
  place.session->peer->attach(connection.index, *accepted->queue_pair);
}

void TransportPeerHost::call(Instant now, Session& session, Connection& connection) {
  const auto id = transport_.connect(now, session.other, session.port, options_of(session, connection));
  if (!id.ok()) {
    on_refused(now, session, connection, to_string(id.error()));
    return;
  }
  connection.id = *id;
  connection.state = State::kConnecting;
}

void TransportPeerHost::watch(Instant now, Session& session, Connection& connection) {
  if (connection.state == State::kConnecting && connection.settled_at <= now) {
    connection.settled_at = Instant::never();
    connection.state = State::kOpen;
    session.peer->on_connected(now, connection.index);
  }
}

void TransportPeerHost::disconnect(Instant now, Connection& connection) {
  transport_.disconnect(now, *connection.id);
}

void TransportPeerHost::drop_qp(Connection& connection) {
  if (connection.id) {
    transport_.destroy(*connection.id);
    connection.id.reset();
  }
}

}  // namespace cw::peers
