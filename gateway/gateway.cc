#include "gateway/gateway.h"

#include <algorithm>
#include <array>

#include "base/prefetch.h"
#include "gateway/gateway_connection.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kNoticesMax = 256;
// Grants are lowered when so many eighths of the table of calls are taken, and raised again at so many.
constexpr uint64_t kShortAtEighths = 7;
constexpr uint64_t kEnoughAtEighths = 4;
constexpr uint32_t kLoweredGrantDivisor = 4;
// Connections that may wait for a worker to open their backend connection; more are refused.
constexpr uint32_t kOpensMax = 1024;
// Connections that are fetched together, before their turn.
constexpr size_t kPrefetchMax = 256;

std::unique_ptr<ConnectionQuota> make_places(const GatewayOptions& options) {
  if (options.quota != nullptr) {
    return nullptr;
  }
  std::vector<uint32_t> per_listener(kListenerIdsMax);
  std::ranges::transform(options.listeners, per_listener.begin(), &ListenerOptions::connections_max);
  return std::make_unique<LocalQuota>(options.connections_max, per_listener);
}

std::unique_ptr<ConnectionQuota> make_client_places(const GatewayOptions& options) {
  if (options.client_quota != nullptr) {
    return nullptr;
  }
  std::vector<uint32_t> per_class(kClientIdsMax);
  for (size_t i = 0; i < options.clients.size(); ++i) {
    per_class[i] = options.clients[i].connections_max;
  }
  return std::make_unique<LocalQuota>(UINT32_MAX, per_class);
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

Gateway::Gateway(const GatewayOptions& options, verbs::Transport& transport, BufferPool& packets, BufferPool& large,
                 rpcrdma::ProgramRegistry& programs, RandomSource& random)
    : options_(options),
      transport_(transport),
      packets_(packets),
      large_(large),
      programs_(programs),
      random_(random),
      shared_(options.calls_in_flight_max, packets, options.pull_buffers_max),
      memory_(std::make_unique<Slab<Connection>>(options.connections_max + options.half_open_max)),
      connections_(options.connections_max + options.half_open_max),
      generations_(connections_.size()),
      own_quota_(make_places(options)),
      quota_(options.quota == nullptr ? *own_quota_ : *options.quota),
      own_client_quota_(make_client_places(options)),
      client_quota_(options.client_quota == nullptr ? *own_client_quota_ : *options.client_quota),
      budgets_(kClientIdsMax),
      backend_shares_(kBackendIdsMax + 1),
      timers_(options.connections_max + options.half_open_max),
      lanes_(options.listeners.size()),
      requests_(options.calls_in_flight_max + std::min(options.connections_max, kOpensMax)),
      guard_(random.next_u64()),
      notices_(kNoticesMax),
      waiting_(options.calls_in_flight_max),
      down_until_(kBackendIdsMax) {
  shared_.reply_bytes_max = options.reply_bytes_max;
  free_slots_.reserve(connections_.size());
  for (auto slot = static_cast<uint32_t>(connections_.size()); slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
  CW_ASSERT(options_.clients.size() <= kClientIdsMax && options_.listeners.size() <= kListenerIdsMax);
  options_.listeners.reserve(kListenerIdsMax);  // connections point to them
  lanes_.reserve(kListenerIdsMax);
  options_.clients.reserve(kClientIdsMax);
  options_.backends.reserve(kBackendIdsMax);
  servers_.reserve(kBackendIdsMax);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    set_lanes(i);
  }
  for (size_t i = 0; i < options_.clients.size(); ++i) {
    budgets_[i].bytes_max = options_.clients[i].bytes_in_flight_max;
  }
  CW_ASSERT(options_.backends.size() <= kBackendIdsMax);
  shared_.backends = static_cast<uint32_t>(options_.backends.size());
  for (size_t i = 0; i < options_.backends.size(); ++i) {
    stats_.backends[i].up = options_.backends[i].kind == BackendKind::kBuiltin ? 1 : 0;
    servers_.emplace_back(options_.backends[i].servers);
  }
}

Gateway::~Gateway() {
  while (Orphan* orphan = orphans_by_age_.front()) {
    release_orphan(*orphan);
  }
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      timers_.cancel(*connection);
      static_cast<ListNode<StalledTag>&>(*connection).unlink_if_linked();
      if (connection->has_place) {
        give_place_back(*connection);
      }
      connection->server.reset();
      transport_.destroy(connection->id);
      memory_->destroy(connection);
    }
  }
}

Status Gateway::start() {
  for (size_t i = 0; i < options_.listeners.size(); ++i) {
    const Status status = transport_.listen(options_.listeners[i].port);
    if (!status.ok()) {
      // Only what this gateway has set up: the port that could not be had is somebody else's.
      while (i > 0) {
        transport_.unlisten(options_.listeners[--i].port);
      }
      return status;
    }
  }
  return {};
}

const ListenerOptions* Gateway::listener_for(uint16_t port) const {
  for (const ListenerOptions& listener : options_.listeners) {
    if (listener.port == port && !listener.removed) {
      return &listener;
    }
  }
  return nullptr;
}

void Gateway::reconfigure(GatewayOptions& fresh) {
  reconfigure_backends(fresh.backends);
  reconfigure_listeners(fresh.listeners);
  reconfigure_clients(fresh.clients);
  shared_.pull_units_max = fresh.pull_buffers_max;
  options_.orphan_max = fresh.orphan_max;
}

void Gateway::reconfigure_listeners(std::vector<ListenerOptions>& fresh) {
  CW_ASSERT(fresh.size() >= options_.listeners.size() && fresh.size() <= kListenerIdsMax);
  for (uint32_t i = 0; i < fresh.size(); ++i) {
    const bool is_new = i == options_.listeners.size();
    if (is_new) {  // there is room, since the start
      options_.listeners.emplace_back();
      lanes_.push_back(nullptr);
    }
    ListenerOptions& listener = options_.listeners[i];
    if (fresh[i].removed && !is_new) {
      if (!listener.removed) {
        transport_.unlisten(listener.port);
      }
      listener.removed = true;  // its connections go on with what they have
      continue;
    }
    std::swap(listener, fresh[i]);
    if (!listener.removed) {
      set_lanes(i);
      if (own_quota_ != nullptr) {
        own_quota_->set_max(i, listener.connections_max);
      }
    }
  }
  // Behind all that went: one may have the port of another.
  for (const ListenerOptions& listener : options_.listeners) {
    if (!listener.removed && !shutting_down_) {
      const Status status = transport_.listen(listener.port);
      CW_ASSERT(status.ok());
    }
  }
}

void Gateway::reconfigure_backends(std::vector<BackendOptions>& fresh) {
  CW_ASSERT(fresh.size() >= options_.backends.size() && fresh.size() <= kBackendIdsMax);
  for (uint32_t i = 0; i < fresh.size(); ++i) {
    const bool is_new = i == options_.backends.size();
    if (is_new) {  // there is room, since the start
      options_.backends.emplace_back();
      servers_.emplace_back(std::vector<uint32_t>());
    }
    BackendOptions& backend = options_.backends[i];
    BackendStats& stats = stats_.backends[i];
    down_until_[i] = Instant();  // its servers may be others
    if (is_new || backend.removed != fresh[i].removed) {
      stats.up = 0;
      stats.checked = 0;
      stats.forgotten_failures = stats.open_failures;
    }
    if (fresh[i].removed && !is_new) {
      backend.removed = true;  // connections from before go on with what they have
      backend.checked = false;
      continue;
    }
    servers_[i].exchange(fresh[i].servers);
    std::swap(backend, fresh[i]);
    if (backend.kind == BackendKind::kBuiltin) {
      stats.up = backend.removed ? 0 : 1;
    } else if (!backend.checked) {
      stats.checked = 0;
    } else if (servers_[i].is_checked()) {
      judge_by_checks(i);
    }
  }
  shared_.backends = static_cast<uint32_t>(options_.backends.size());  // one that is removed may hold calls still
}

void Gateway::reconfigure_clients(std::vector<ClientClassOptions>& fresh) {
  CW_ASSERT(fresh.size() >= options_.clients.size() && fresh.size() <= kClientIdsMax);
  options_.clients.resize(fresh.size());  // reserved at the start
  for (size_t i = 0; i < fresh.size(); ++i) {
    ClientClassOptions& clients = options_.clients[i];
    if (fresh[i].prefixes.empty()) {
      std::swap(clients.prefixes, fresh[i].prefixes);  // connections that count in it keep its budget
      continue;
    }
    std::swap(clients, fresh[i]);
    budgets_[i].bytes_max = clients.bytes_in_flight_max;
    if (own_client_quota_ != nullptr) {
      own_client_quota_->set_max(static_cast<uint32_t>(i), clients.connections_max);
    }
  }
}

Gateway::Connection* Gateway::find(LinkId link) {
  const uint32_t slot = slot_of(link);
  if (slot >= connections_.size() || connections_[slot] == nullptr) {
    return nullptr;
  }
  Connection* connection = connections_[slot];
  if (connection->link == link) {
    return connection;
  }
  const uint32_t lane = lane_of(link);
  return lane > 0 && lane <= connection->more.size() && connection->lane(lane).link == link ? connection : nullptr;
}

void Gateway::run(Instant now) {
  if (transport_.has_events()) [[unlikely]] {
    take_events(now);
  }
  prefetch_ready();
  verbs::ReadyQueuePair ready;
  while (transport_.poll_ready(ready)) {
    on_queue_pair_ready(now, ready);
  }
  // Programs that found no memory: the queue is gone through once, what still finds none goes to its end.
  for (uint32_t count = waiting_.size(); count > 0; --count) {
    Waiting waiting = waiting_.pop();
    if (Connection* connection = find(waiting.link)) {
      run_program(now, *connection, connection->lane(waiting.lane), std::move(waiting.call));
      pump(now, *connection);
    }
  }
  // In order: one that needs more room than there is keeps its turn.
  while (!stalled_.empty() && may_take_call(*stalled_.front())) {
    pump(now, *stalled_.pop_front());
  }
  while (TimerNode* node = timers_.pop_expired(now)) {
    on_timer(now, static_cast<Connection&>(*node));
  }
  release_calls(now);
  adapt_grants();
  fold_budgets();
}

// With more connections than the caches hold: those whose turn comes are fetched together, as Node::prefetch does it with their
// queue pairs.
void Gateway::prefetch_ready() const {
  if (stats_.connections_open < kPrefetchFrom) {
    return;
  }
  std::array<uint64_t, kPrefetchMax> links;
  const auto ready = std::span(links).first(transport_.peek_ready(links));
  for (const uint64_t link : ready) {
    __builtin_prefetch(&connections_[slot_of(LinkId(link))]);
  }
  for (const uint64_t link : ready) {
    if (const Connection* connection = connections_[slot_of(LinkId(link))]) {
      prefetch_range(connection, &connection->id);  // what comes behind serves handshakes
    }
  }
}

uint32_t Gateway::grant_of(const Connection& connection) const {
  const uint32_t credits = connection.credits;
  return short_of_slots_ ? std::max(credits / kLoweredGrantDivisor, 1u) : credits;
}

void Gateway::adapt_grants() {
  const uint64_t in_use = uint64_t{8} * shared_.calls->in_use();
  const uint64_t capacity = shared_.calls->capacity();
  const bool changes = short_of_slots_ ? in_use < (kEnoughAtEighths + 1) * capacity : in_use >= kShortAtEighths * capacity;
  if (!changes) {
    return;
  }
  short_of_slots_ = !short_of_slots_;
  stats_.grants_lowered += short_of_slots_ ? 1 : 0;
  for (auto& connection : connections_) {
    if (connection != nullptr && connection->server) {
      connection->server->set_grant(grant_of(*connection));
    }
  }
}

void Gateway::take_events(Instant now) {
  verbs::ConnectionEvent event;
  while (transport_.poll_event(now, event)) {
    on_event(now, event);
  }
}

void Gateway::on_event(Instant now, const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (event.kind == Kind::kConnectRequest) {
    on_connect_request(now, event);
    return;
  }
  Connection* connection = find(LinkId(event.context));
  if (connection == nullptr) {
    return;  // ended here before
  }
  switch (event.kind) {
    case Kind::kEstablished:
      establish(now, *connection);
      return;
    case Kind::kDisconnected:
      end(now, *connection, connection->has_place ? ConnectionResult::kClosedByPeer : ConnectionResult::kFailedHandshake, true);
      return;
    case Kind::kRejected:
      end(now, *connection, ConnectionResult::kFailedHandshake, true);
      return;
    case Kind::kUnreachable:
      // Nobody has answered, and perhaps nobody asked: a flood of forged requests fills no log.
      finish(now, *connection, ConnectionResult::kFailedHandshake, true);
      return;
    case Kind::kConnectRequest:
    case Kind::kConnectResponse:
      return;
  }
}

Instant Gateway::next_deadline() const {
  const Orphan* oldest = orphans_by_age_.front();
  return oldest == nullptr ? timers_.next_deadline() : earlier(timers_.next_deadline(), oldest->deadline);
}

void Gateway::arm(Connection& connection, Instant deadline) {
  // Moving a timer with each call would cost more than an early wake-up now and then.
  if (!connection.is_armed() || deadline < connection.deadline()) {
    timers_.arm(connection, deadline);
  }
}

void Gateway::on_timer(Instant now, Connection& connection) {
  if (connection.state == ConnectionState::kOpeningBackend) {
    const Lane& lane = connection.first;
    if (lane.state == Lane::State::kOpening && now >= lane.open_deadline) {
      note_backend(now, lane.backend, false);
      ++stats_.backends[lane.backend].open_failures;
      end(now, connection, ConnectionResult::kRefusedBackend, false);
      return;
    }
  }
  if (connection.holds > 0 && connection.held_until <= now) {
    connection.holds = 0;
    connection.for_each_lane([&](Lane& lane) {
      if (std::exchange(lane.waits_here, false)) {
        guard_.forget(*lane.client, lane.link);
      }
    });
  }
  if (connection.server->next_deadline() <= now) {
    const bool went_on = !connection.server->failed();
    connection.server->on_deadline(now);
    const bool timed_out = connection.server->failure() == rpcrdma::EndpointFailure::kCallTimeout;
    if (went_on && timed_out && connection.first.backend != ListenerOptions::kNoBackend) {
      ++stats_.backends[connection.first.backend].call_timeouts;
    }
  }
  if (!connection.more.empty()) {
    const LinkId link = connection.link;
    check_lanes(now, connection);
    if (find(link) == nullptr) {
      return;
    }
  }
  pump(now, connection);
}

void Gateway::end(Instant now, Connection& connection, ConnectionResult result, bool peer_ended) {
  Notice notice;
  notice.result = result;
  notice.peer = connection.peer;
  notice.listener_port = connection.listener->port;
  notice.backend = connection.has_place ? connection.first.backend : connection.listener->backend;
  notice.calls = connection.server ? connection.server->calls_answered() : 0;
  if (result == ConnectionResult::kRefusedClientLimit) {
    notice.client_class = connection.client_class;
  }
  const verbs::QueuePairInfo qp = transport_.describe(connection.id);
  notice.local_qpn = qp.local_qpn;
  notice.remote_qpn = qp.remote_qpn;
  notice.qp_error = qp.error;
  note(notice);
  finish(now, connection, result, peer_ended);
}

void Gateway::finish(Instant now, Connection& connection, ConnectionResult result, bool peer_ended) {
  ++stats_.connections[static_cast<size_t>(result)];
  if (connection.server && connection.qp->in_error()) {
    connection.server->on_completions(now);  // the peer's DREQ may have been looked at before the end of its queue pair
  }
  if (connection.server && connection.server->broken_xid()) {
    remember_broken_call(now, connection, *connection.server->broken_xid());
  }

  if (!peer_ended) {
    if (result == ConnectionResult::kRefusedResources) {
      transport_.reject(now, connection.id, verbs::RejectReason::kNoResources);
    } else {
      transport_.disconnect(now, connection.id);
    }
  }
  if (connection.server) {
    connection.server->fail();  // what calls have left is told apart from what they held
  }
  connection.for_each_lane([&](Lane& lane) {
    if (is_tcp(lane)) {
      part_from_backend(now, connection, lane, !shutting_down_);
    }
  });
  if (connection.server != std::nullopt) {
    // Calls of built-in programs that wait or run are dropped when they come back.
    for (uint32_t count = waiting_.size(); count > 0; --count) {
      Waiting waiting = waiting_.pop();
      if (waiting.link == connection.link) {
        --stats_.backends[connection.lane(waiting.lane).backend].calls_in_flight;
      } else {
        (void)waiting_.push(std::move(waiting));
      }
    }
  }
  timers_.cancel(connection);
  static_cast<ListNode<StalledTag>&>(connection).unlink_if_linked();
  if (connection.server) {
    connection.server.reset();
    leave_client(connection.peer);
  }
  transport_.destroy(connection.id);
  if (connection.has_place) {
    give_place_back(connection);
    drop_lanes(connection);
    --stats_.connections_open;
  }
  const uint32_t slot = connection.slot;
  memory_->destroy(std::exchange(connections_[slot], nullptr));
  free_slots_.push_back(slot);
}

void Gateway::give_place_back(const Connection& connection) {
  quota_.give_back(connection.listener_index);
  if (connection.client_class) {
    client_quota_.give_back(*connection.client_class);
    --stats_.clients[*connection.client_class].connections;
  }
}

void Gateway::fold_budgets() {
  for (size_t i = 0; i < options_.clients.size(); ++i) {
    stats_.clients[i].bytes_in_flight = budgets_[i].bytes_in_use;
    stats_.clients[i].calls_postponed = budgets_[i].calls_postponed;
    stats_.clients[i].credits_granted = budgets_[i].credits_granted;
    stats_.clients[i].credits_in_use = budgets_[i].credits_in_use;
  }
}

void Gateway::note(const Notice& notice) {
  if (!notices_.push(Notice(notice))) {
    ++stats_.notices_dropped;
  }
}

void Gateway::shut_down(Instant now) {
  shutting_down_ = true;
  for (const ListenerOptions& listener : options_.listeners) {
    transport_.unlisten(listener.port);
  }
  close_all(now);
  while (Orphan* orphan = orphans_by_age_.front()) {
    give_up(*orphan);
  }
}

bool Gateway::is_quiet() const {
  return shutting_down_ && stats_.connections_open == 0 && transport_.live_count() == 0;
}

uint32_t Gateway::describe(Instant now, std::span<ConnectionInfo> out) const {
  uint32_t count = 0;
  (void)describe_some(now, 0, static_cast<uint32_t>(connections_.size()), out, count);
  return count;
}

uint32_t Gateway::describe_some(Instant now, uint32_t place, uint32_t slots, std::span<ConnectionInfo> out,
                                uint32_t& count) const {
  const size_t end = std::min(connections_.size(), size_t{place} + slots);
  for (size_t i = place; i < end; ++i) {
    if (connections_[i] == nullptr) {
      continue;
    }
    if (count < out.size()) {
      out[count] = info_of(now, *connections_[i]);
    }
    ++count;
  }
  return end == connections_.size() ? 0 : static_cast<uint32_t>(end);
}

ConnectionInfo Gateway::info_of(Instant now, const Connection& connection) const {
  ConnectionInfo info;
  info.id = connection.link.value();
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
  info.qp = transport_.describe(connection.id);
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
