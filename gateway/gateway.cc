#include "gateway/gateway.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/prefetch.h"
#include "gateway/connection_slots.h"

namespace cw::gateway {
namespace {

// Connections that may wait for a worker to open their backend connection; more are refused.
constexpr uint32_t kOpensMax = 1024;
// Connections that are fetched together, before their turn.
constexpr size_t kPrefetchMax = 256;

ConnectionResult result_of(const Connection& connection, verbs::DisconnectCause cause) {
  if (!connection.has_place) {
    return ConnectionResult::kFailedHandshake;
  }
  return cause == verbs::DisconnectCause::kPeer ? ConnectionResult::kClosedByPeer : ConnectionResult::kFailedTransport;
}

}  // namespace

const char* to_string(ConnectionState state) noexcept {
  switch (state) {
    case ConnectionState::kAccepting:
      return "accepting";
    case ConnectionState::kOpeningBackend:
      return "opening-backend";
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
    case ConnectionResult::kRefusedClientDenied:
      return "refused_client_denied";
    case ConnectionResult::kRefusedClientLimit:
      return "refused_client_limit";
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
    case ConnectionResult::kDrained:
      return "drained";
    case ConnectionResult::kTakenOver:
      return "taken_over";
    case ConnectionResult::kHandedOver:
      return "handed_over";
    case ConnectionResult::kFailedTransport:
      return "failed_transport";
    case ConnectionResult::kFailedProtocol:
      return "failed_protocol";
    case ConnectionResult::kFailedBackend:
      return "failed_backend";
    case ConnectionResult::kFailedBackendTimeout:
      return "failed_backend_timeout";
    case ConnectionResult::kFailedReadTimeout:
      return "failed_read_timeout";
    case ConnectionResult::kFailedSlowReads:
      return "failed_slow_reads";
    case ConnectionResult::kFailedReplyTimeout:
      return "failed_reply_timeout";
    case ConnectionResult::kFailedStarved:
      return "failed_starved";
    case ConnectionResult::kFailedHandshake:
      return "failed_handshake";
    case ConnectionResult::kCount:
      break;
  }
  return "unknown";
}

// Something that is done for connections: whoever has one in hand has it from within a step. When it is over nobody has, and
// those that have ended are freed: here, and nowhere else. Steps do not nest, so what is in the middle of one cannot free what
// another part of it still uses.
class Gateway::Step {
 public:
  Step(Gateway& gateway, Instant now) : gateway_(gateway), now_(now) {
    CW_DASSERT(!gateway_.in_step_);
    gateway_.in_step_ = true;
  }
  ~Step() {
    if (gateway_.connections_.has_endings()) [[unlikely]] {
      free_ended();
    }
    gateway_.in_step_ = false;
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  // Each turn of a core has many steps and hardly an ending: only those that have one pay for it.
  [[gnu::noinline]] void free_ended() {
    while (gateway_.connections_.has_endings()) {
      gateway_.end(now_, gateway_.connections_.take_ending());
    }
  }

  Gateway& gateway_;
  Instant now_;
};

template <typename Next>
void Gateway::one_by_one(Instant now, Next&& next) {
  for (bool goes_on = true; goes_on;) {
    const Step step(*this, now);
    goes_on = next();
  }
}

Gateway::Gateway(const GatewayOptions& options, verbs::Transport& transport, BufferPool& packets, BufferPool& large,
                 rpcrdma::ProgramRegistry& programs, RandomSource& random)
    : Gateway(options, std::vector<verbs::Transport*>{&transport}, packets, large, programs, random) {}

Gateway::Gateway(const GatewayOptions& options, const std::vector<verbs::Transport*>& transports, BufferPool& packets,
                 BufferPool& large, rpcrdma::ProgramRegistry& programs, RandomSource& random)
    : transports_(transports),
      orphan_max_(options.orphan_max),
      shared_(options.calls_in_flight_max, packets, options.pull_buffers_max),
      log_(stats_),
      mails_(options.core),
      requests_(options.calls_in_flight_max + std::min(options.connections_max, kOpensMax)),
      connections_(connection_slots(options.connections_max, options.half_open_max, transports_.size()), options.core),
      guard_(random.next_u64()),
      backends_(options.backends, stats_, mails_),
      listeners_(options.listeners, transports_, backends_),
      admission_(options, stats_),
      orphans_(options.connections_max, shared_, backends_, guard_, requests_, stats_),
      holds_(guard_, connections_, mails_, stats_),
      drain_(connections_, stats_),
      links_({connections_, listeners_, backends_, guard_, holds_, orphans_, requests_, stats_, packets, options.source_ports}),
      reverse_(backends_, requests_, packets, large, stats_),
      path_({connections_, backends_, links_, guard_, reverse_, drain_, requests_, programs, packets, large, stats_},
            options.calls_in_flight_max),
      acceptor_({transports_, connections_, listeners_, admission_, backends_, links_, holds_, orphans_, activity_, broken_calls_,
                 grants_, drain_, requests_, shared_, log_, stats_},
                options.reserved_packet_bytes) {
  shared_.reply_bytes_max = options.reply_bytes_max;
  shared_.express = options.express;
  shared_.backends = backends_.count();
}

// Without a word to anybody: shut_down() says it.
Gateway::~Gateway() {
  connections_.for_each([&](Connection& connection) {
    if (connection.has_place) {
      admission_.give_place_back(connection);
    }
    connection.server.reset();
    connection.transport->destroy(connection.id);
    connections_.free(connection);
  });
}

bool Gateway::reconfigure(GatewayOptions& fresh) {
  backends_.reconfigure(fresh.backends);
  shared_.backends = backends_.count();  // one that is removed may hold calls still
  const bool all_listen = listeners_.reconfigure(fresh.listeners);
  admission_.reconfigure(fresh.clients, listeners_.options());
  shared_.pull_units_max = fresh.pull_buffers_max;
  orphan_max_ = fresh.orphan_max;
  return all_listen;
}

void Gateway::run(Instant now) {
  for (verbs::Transport* transport : transports_) {
    transport->on_deadline(now);  // what comes of it is an event, or a queue pair that is ready
  }
  take_events(now);
  for (verbs::Transport* transport : transports_) {
    // Where there are more connections than the caches hold, each is fetched some time before its turn, as the transport does
    // with their queue pairs.
    std::array<uint64_t, kPrefetchMax> links;
    const size_t count = stats_.connections_open >= kPrefetchFrom ? transport->peek_ready(links) : 0;
    connections_.prefetch_entries(std::span(links).first(count));
    size_t fetched = 0;
    verbs::ReadyQueuePair ready;
    for (size_t at = 0; transport->poll_ready(ready); ++at) {
      for (; fetched < std::min(count, at + kFetchAhead); ++fetched) {
        connections_.prefetch(LinkId(links[fetched]));
      }
      if (!serve(now, ready) && may_establish(now, ready)) [[unlikely]] {
        take_events(now);
        (void)serve(now, ready);
      }
    }
  }
  uint32_t waiting = path_.waiting_count();
  one_by_one(now, [&] {
    const bool is_left = waiting > 0;
    if (is_left) {
      --waiting;
      path_.retry_oldest(now);
    }
    return is_left;
  });
  one_by_one(now, [&] { return path_.resume_oldest(now); });
  one_by_one(now, [&] {
    Connection* connection = connections_.pop_expired(now);
    if (connection != nullptr) {
      on_timer(now, *connection);
    }
    return connection != nullptr;
  });
  orphans_.expire(now);
  one_by_one(now, [&] {
    const std::optional<uint64_t> next = admission_.rate_lines().next(now);
    if (Connection* connection = next ? connections_.find(LinkId(*next)) : nullptr) {
      connection->server->on_rate_turn(now);
      path_.pump(now, *connection);
    }
    return next.has_value();
  });
  one_by_one(now, [&] {
    Connection* connection = holds_.next_released();
    if (connection != nullptr) {
      path_.pump(now, *connection);
    }
    return connection != nullptr;
  });
  grants_.adapt(shared_, connections_, stats_);
  admission_.fold_budgets();
}

void Gateway::take_events(Instant now) {
  for (uint32_t place = 0; place < transports_.size(); ++place) {
    if (transports_[place]->has_events()) [[unlikely]] {
      verbs::ConnectionEvent event;
      one_by_one(now, [&] {
        const bool is_one = transports_[place]->poll_event(now, event);
        if (is_one) {
          on_event(now, place, event);
        }
        return is_one;
      });
    }
  }
}

void Gateway::on_event(Instant now, uint32_t transport, const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (event.kind == Kind::kConnectRequest) {
    acceptor_.on_request(now, transport, event);
    return;
  }
  Connection* connection = connections_.find(LinkId(event.context));
  if (connection == nullptr) {
    return;  // ended here before
  }
  switch (event.kind) {
    case Kind::kEstablished:
      acceptor_.establish(now, *connection, now + orphan_max_);
      return;
    case Kind::kDisconnected:
      connections_.end(*connection, result_of(*connection, event.cause), true);
      return;
    case Kind::kRejected:
      connections_.end(*connection, ConnectionResult::kFailedHandshake, true);
      return;
    case Kind::kUnreachable:
      // Nobody has answered, and perhaps nobody asked: a flood of forged requests fills no log.
      connections_.end_silently(*connection, ConnectionResult::kFailedHandshake);
      return;
    case Kind::kConnectRequest:
    case Kind::kConnectResponse:
      return;
  }
}

bool Gateway::serve(Instant now, const verbs::ReadyQueuePair& ready) {
  const Step step(*this, now);
  Connection* connection = connections_.find(LinkId(ready.context));
  if (connection == nullptr || connection->qp != ready.queue_pair) {
    return true;  // gone, and whatever it had to say with it
  }
  if (!connection->has_place) [[unlikely]] {  // and no endpoint
    return false;
  }
  path_.serve(now, *connection);
  return true;
}

bool Gateway::may_establish(Instant now, const verbs::ReadyQueuePair& ready) {
  const Step step(*this, now);
  Connection& connection = *connections_.find(LinkId(ready.context));
  if (connection.qp->in_error()) {
    connections_.end(connection, ConnectionResult::kFailedHandshake, false);
    return false;
  }
  connection.transport->notify(now, connection.id);
  return true;
}

void Gateway::on_backend_event(Instant now, BackendEvent&& event) {
  const Step step(*this, now);
  if (event.kind == BackendEvent::Kind::kRan) {
    --stats_.backends[event.backend].calls_in_flight;
  }
  if (Connection* connection = connections_.find(event.link)) {
    on_link_event(now, *connection, std::move(event));
  } else if (event.kind != BackendEvent::Kind::kRan) {
    orphans_.on_event(now, std::move(event));
  }  // else gone meanwhile; the message is given back by its Chain
}

void Gateway::on_link_event(Instant now, Connection& connection, BackendEvent&& event) {
  Lane& lane = connection.lane(lane_of(event.link));
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      links_.on_opened(now, lane);
      if (&lane == &connection.first) {
        acceptor_.take_calls(connection);
        path_.pump(now, connection);
      }
      return;
    case BackendEvent::Kind::kPortBusy:
      links_.on_port_busy(now, lane, orphan_max_ + kPortSlack);
      return;
    case BackendEvent::Kind::kFailed:
      links_.on_failed(now, connection, lane);
      if (!connection.is_ending) {
        path_.pump(now, connection);
      }
      return;
    case BackendEvent::Kind::kMessage:
      path_.on_message(now, connection, lane, std::move(event.message));
      return;
    case BackendEvent::Kind::kClosed:
      links_.on_closed(connection, lane);
      return;
    case BackendEvent::Kind::kRan:
      path_.on_ran(now, connection, lane, event.call, std::move(event.message));
      return;
  }
}

void Gateway::on_core_message(Instant now, const CoreMessage& message) {
  const Step step(*this, now);
  switch (message.kind) {
    case CoreMessage::Kind::kFence:
      holds_.answer_fence(message);
      return;
    case CoreMessage::Kind::kFenceDone:
      if (Connection* connection = holds_.on_fence_done(message)) {
        path_.pump(now, *connection);
      }
      return;
    case CoreMessage::Kind::kBrokenCall:
      broken_calls_.remember(now, message.client, message.index, message.xid);
      return;
    case CoreMessage::Kind::kBackendUp:
      backends_.on_told(now, message.index, message.value != 0);
      return;
    case CoreMessage::Kind::kServerState:
      backends_.on_server_state(now, message.index, message.server, static_cast<control::ServerState>(message.value));
      return;
  }
}

bool Gateway::poll_done(rpcrdma::CallDone& out) {
  if (shared_.done.empty()) {
    return false;
  }
  out = shared_.done.pop();
  activity_.on_done(out);
  return true;
}

Instant Gateway::next_deadline() const {
  Instant next =
      earlier(earlier(connections_.next_deadline(), orphans_.next_deadline()), admission_.rate_lines().next_deadline());
  for (const verbs::Transport* transport : transports_) {
    next = earlier(next, transport->next_deadline());
  }
  return next;
}

void Gateway::on_timer(Instant now, Connection& connection) {
  links_.check_first(now, connection);
  if (connection.is_ending) {
    return;
  }
  if (connection.holds > 0 && connection.held_until <= now) {
    holds_.give_up(connection);
  }
  if (connection.server->next_deadline() <= now) {
    const bool went_on = !connection.server->failed();
    connection.server->on_deadline(now);
    const bool timed_out = connection.server->failure() == rpcrdma::EndpointFailure::kCallTimeout;
    if (went_on && timed_out && connection.first.backend != ListenerOptions::kNoBackend) {
      ++stats_.backends[connection.first.backend].call_timeouts;
    }
  }
  links_.check_routes(now, connection);
  path_.pump(now, connection);
}

void Gateway::note_end(const Ending& ending) {
  const Connection& connection = *ending.connection;
  Notice notice;
  notice.result = ending.result;
  notice.peer = connection.peer;
  notice.peer_port = connection.peer_port;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.has_place ? connection.first.backend : connection.listener->backend;
  notice.calls = connection.server ? connection.server->calls_answered() : 0;
  if (ending.result == ConnectionResult::kRefusedClientLimit) {
    notice.client_class = connection.client_class;
  }
  const verbs::QueuePairInfo qp = connection.transport->describe(connection.id);
  notice.wire = qp.wire;
  notice.local_qpn = qp.local_qpn;
  notice.remote_qpn = qp.remote_qpn;
  notice.qp_error = qp.error;
  log_.note(notice);
}

// Whatever its state: the peer is told, links are closed, everything is given back.
void Gateway::end(Instant now, const Ending& ending) {
  Connection& connection = *ending.connection;
  if (!ending.silent) {
    note_end(ending);
  }
  ++stats_.connections[static_cast<size_t>(ending.result)];
  if (connection.server) {
    if (connection.qp->in_error()) {
      // The peer's goodbye may have been looked at before the end of its queue pair.
      connection.server->on_completions(now);
    }
    if (const auto xid = connection.server->broken_xid()) {
      broken_calls_.remember(now, connection.peer, connection.listener_index, *xid);
      mails_.tell_others(
          {.kind = CoreMessage::Kind::kBrokenCall, .index = connection.listener_index, .client = connection.peer, .xid = *xid});
    }
  }
  if (!ending.peer_ended) {
    if (ending.result == ConnectionResult::kRefusedResources) {
      connection.transport->reject(now, connection.id, verbs::RejectReason::kNoResources, {});
    } else {
      connection.transport->disconnect(now, connection.id);
    }
  }
  if (connection.server) {
    path_.count_lost(connection, connection.server->calls_taken());
    connection.server->fail();  // what calls have left is told apart from what they held
  }
  links_.drop_lanes(now, connection, shutting_down_ ? std::nullopt : std::optional(now + orphan_max_));
  if (connection.server) {
    path_.drop_waiting(connection);
    connection.server.reset();
    orphans_.leave_client(connection.peer);
    activity_.leave(*connection.client);
  }
  connection.transport->destroy(connection.id);
  if (connection.has_place) {
    admission_.give_place_back(connection);
    listeners_.leave(*connection.lanes);
  }
  connections_.free(connection);
}

void Gateway::shut_down(Instant now) {
  shutting_down_ = true;
  acceptor_.shut_down();
  listeners_.stop();
  close_all(now);
  orphans_.close_all();
}

bool Gateway::is_quiet() const {
  return shutting_down_ && stats_.connections_open == 0 &&
         std::ranges::all_of(transports_, [](const verbs::Transport* transport) { return transport->live_count() == 0; });
}

void Gateway::drain(Instant now) {
  const Step step(*this, now);
  drain_.begin();
  connections_.for_each([&](Connection& connection) {
    if (connection.server) {
      path_.pump(now, connection);
    } else {
      connections_.end(connection, ConnectionResult::kRefusedDraining, false);  // half open
    }
  });
}

void Gateway::hand_over(Instant now) {
  const Step step(*this, now);
  drain_.begin();
  connections_.for_each([&](Connection& connection) {
    if (connection.server) {
      connection.is_paused = connection.transport->pause(connection.id);
      path_.pump(now, connection);
    } else {
      connections_.end(connection, ConnectionResult::kRefusedDraining, false);  // half open
    }
  });
}

bool Gateway::take_over(Instant now, Bytes saved) {
  const Step step(*this, now);
  return acceptor_.take_over(now, saved, now + orphan_max_);
}

void Gateway::end_drain(Instant now) {
  const Step step(*this, now);
  drain_.end();
  connections_.for_each([&](Connection& connection) {
    if (connection.server) {
      path_.pump(now, connection);  // it may have calls that were not taken
    }
  });
}

void Gateway::close_all(Instant now) {
  const Step step(*this, now);
  connections_.for_each([&](Connection& connection) {
    connections_.end(connection, connection.has_place ? ConnectionResult::kClosedByUs : ConnectionResult::kRefusedDraining,
                     false);
  });
}

uint32_t Gateway::describe(Instant now, std::span<ConnectionInfo> out) const {
  uint32_t count = 0;
  (void)describe_some(now, 0, connections_.slots(), out, count);
  return count;
}

uint32_t Gateway::describe_some(Instant now, uint32_t place, uint32_t slots, std::span<ConnectionInfo> out,
                                uint32_t& count) const {
  const uint32_t end = std::min(connections_.slots(), place + slots);
  for (uint32_t slot = place; slot < end; ++slot) {
    const Connection* connection = connections_.at(slot);
    if (connection == nullptr) {
      continue;
    }
    if (count < out.size()) {
      out[count] = info_of(now, *connection);
    }
    ++count;
  }
  return end == connections_.slots() ? 0 : end;
}

ConnectionInfo Gateway::info_of(Instant now, const Connection& connection) {
  ConnectionInfo info;
  info.id = connection.number;
  info.state = connection.state;
  info.listener_port = connection.listener->port;
  info.listener = connection.listener_index;
  info.backend = connection.has_place ? connection.first.backend : connection.listener->backend;
  info.server = connection.first.server_number;
  info.peer = connection.peer;
  info.peer_port = connection.peer_port;
  info.client_class = connection.client_class;
  info.thresholds = connection.thresholds;
  info.age = now - connection.created;
  info.qp = connection.transport->describe(connection.id);
  if (connection.server) {
    info.credits_granted = connection.server->credits_granted();
    info.calls = connection.server->calls_answered();
    info.calls_in_flight = connection.server->calls_in_flight();
    info.reverse_credits_granted = connection.server->reverse_credits_granted();
    info.reverse_calls_in_flight = connection.server->reverse_in_flight();
  }
  return info;
}

}  // namespace cw::gateway
