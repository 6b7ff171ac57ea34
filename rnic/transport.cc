#include "rnic/transport.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rnic/rnic_fields.h"
#include "verbs/refusal.h"

namespace cw::rnic {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

// Looked for again by a queue pair that found the pool empty.
constexpr Duration kStarvedRetry = Duration::ms(1);
constexpr uint32_t kLogEntries = 4096;  // as many as the other wires remember
// Bytes of READs to ask for at a time: about what a fast path holds.
constexpr uint64_t kReadBytesWanted = 1u << 20;
constexpr size_t kOurPrivateDataMax = 64;
// What a receive may be made of, whatever a device takes.
constexpr uint32_t kReceivePiecesMax = 32;
// Of a connection that we ask for: the peer may send before its user has posted any.
constexpr uint32_t kReceivesInAdvance = 4;

uint32_t slots_of(const RnicOptions& options) {
  return options.connections_max + options.half_open_max + options.parting_max;
}

constexpr uint64_t id_value(uint32_t slot, uint32_t generation) {
  return uint64_t{generation} << 32 | slot;
}

RnicErrorCause cause_of(DeviceEvent event) {
  switch (event) {
    case DeviceEvent::kAccessError:
      return RnicErrorCause::kAccessError;
    case DeviceEvent::kRequestError:
      return RnicErrorCause::kRequestError;
    case DeviceEvent::kQueuePairFatal:
      return RnicErrorCause::kQueuePair;
    case DeviceEvent::kCompletionQueueError:
      return RnicErrorCause::kCompletions;
    case DeviceEvent::kDeviceFatal:
      return RnicErrorCause::kDevice;
    case DeviceEvent::kDeviceRemoved:
      return RnicErrorCause::kDeviceRemoved;
    case DeviceEvent::kEstablished:
    case DeviceEvent::kPortDown:
    case DeviceEvent::kPortUp:
    case DeviceEvent::kPortChange:
    case DeviceEvent::kRefused:
    case DeviceEvent::kListening:
    case DeviceEvent::kOther:
      break;
  }
  return RnicErrorCause::kNone;
}

}  // namespace

std::string_view to_string(RnicDrop drop) noexcept {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"request_rate", "prefix_request_rate", "no_room", "no_listener", "prefix_half_open", "half_open", "handshake_timeout",
       "no_queue_pair", "receive_pieces", "answer_failed", "lost_in_setup"});
  static_assert(kNames.size() == kRnicDropCount);
  return kNames[static_cast<size_t>(drop)];
}

class RnicTransport::Connection final : public ListNode<EventTag>,
                                        public ListNode<HalfOpenTag>,
                                        public ListNode<PartingTag>,
                                        public ListNode<AnswerTag>,
                                        public TimerNode {
 public:
  enum class State : uint8_t {
    kAsked,             // passive: the user decides
    kResolvingAddress,  // active
    kResolvingRoute,    // active
    kAsking,            // active: there is a queue pair; our request is out, or leaves with this turn
    kAnswered,          // there is a queue pair, and the peer's answer; or ours is out, or leaves with this turn
    kParting,           // without a user, until the peer knows that it is over
  };

  Connection() = default;
  ~Connection() {
    ListNode<EventTag>::unlink_if_linked();
    ListNode<HalfOpenTag>::unlink_if_linked();
    ListNode<PartingTag>::unlink_if_linked();
    ListNode<AnswerTag>::unlink_if_linked();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] uint64_t value() const { return id_value(slot, generation); }
  [[nodiscard]] RnicId id() const { return RnicId(value()); }
  // Active, and not answered yet, nor given up.
  [[nodiscard]] bool is_being_made() const {
    const bool is_open = state == State::kResolvingAddress || state == State::kResolvingRoute || state == State::kAsking;
    return is_attached && is_open;
  }
  [[nodiscard]] bool is_exposed() const { return exposure != Exposure::kNone && !exposes; }

  uint32_t slot = 0;
  uint32_t generation = 0;
  State state = State::kAsked;
  bool has_user = false;        // who will call destroy()
  bool is_attached = true;      // the host has it
  bool is_active = false;       // asked for by us
  bool exposes = false;         // the peer may reach what is registered for it
  bool is_asked_for = false;    // active: rdma-core has our request
  bool is_answered = false;     // rdma-core has our answer, or establish()
  bool is_refused = false;      // or our refusal
  bool has_place = false;       // of connections_max: passive with the event, active from connect() on
  bool is_given = false;        // the user has the queue pair
  bool is_established = false;  // the user knows it
  bool end_is_told = false;     // active: by an event, or it is the user's own
  bool goodbye_said = false;
  bool peer_has_left = false;
  bool end_was_counted = false;
  uint16_t peer_port = 0;
  uint16_t listener_port = 0;
  uint16_t reads_max = 0;
  uint16_t reads_of_peer_max = 0;  // active
  uint32_t receive_bytes_max = 0;
  verbs::ProtectionDomain domain;  // if it exposes
  verbs::Rejection rejection;
  PrefixTable::Index prefix = 0;  // while half-open
  Exposure exposure = Exposure::kUnknown;
  IpAddress peer;
  uint64_t context = 0;
  std::optional<Kind> event;
  Instant handshake_deadline = Instant::never();
  Instant flush_deadline = Instant::never();
  Instant starved_until = Instant::never();
  Instant parting_deadline = Instant::never();
  Instant keepalive_deadline = Instant::never();  // when the peer is asked, or should have answered
  Instant asked_at;
  // Passive: the peer's, until the request is polled; then ours. Active: ours, then the peer's.
  std::array<uint8_t, 256> private_data{};
  size_t private_bytes = 0;
  std::optional<RnicQueuePair> queue_pair;
};

RnicTransport::RnicTransport(const RnicOptions& options, RnicHost& host, BufferPool& pool, RandomSource& random,
                             RnicMemory* memory)
    : options_(options),
      host_(host),
      memory_(memory),
      core_(host, pool),
      log_(kLogEntries),
      requests_(options.request_rate, random),
      prefixes_(options.prefix, random),
      timers_(slots_of(options)),
      connections_(slots_of(options)),
      slots_(slots_of(options)) {
  CW_ASSERT(slots_.size() <= 1u << WorkTag::kSlotBits);
  free_slots_.reserve(slots_.size());
  for (uint32_t slot = static_cast<uint32_t>(slots_.size()); slot-- > 0;) {
    free_slots_.push_back(slot);
  }
}

RnicTransport::~RnicTransport() {
  for (const Slot& slot : slots_) {
    if (slot.connection != nullptr) {
      Connection& connection = *slot.connection;
      connection.has_user = false;
      drop_queue_pair(connection);
      if (std::exchange(connection.exposes, false)) {
        memory_->forget(connection.domain);
      }
      release(connection);
    }
  }
}

void RnicTransport::reconfigure(const RnicOptions& fresh) {
  options_.reads_max = fresh.reads_max;
  options_.receive_queue_depth = fresh.receive_queue_depth;
  options_.keepalive = fresh.keepalive;
}

// Connections whose peers do not know yet that they are over make room for new ones.
RnicTransport::Connection* RnicTransport::take_connection() {
  if (free_slots_.empty()) {
    if (parting_.empty()) {
      return nullptr;
    }
    release(*parting_.front());
  }
  Connection* connection = connections_.create();
  CW_ASSERT(connection != nullptr);
  connection->slot = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[connection->slot];
  slot.connection = connection;
  connection->generation = ++slot.generation;
  ++live_count_;
  return connection;
}

// Rdma-core is done with it; the user, if there is one, keeps its id and queue pair until destroy().
void RnicTransport::release(Connection& connection) {
  connection.ListNode<AnswerTag>::unlink_if_linked();
  if (std::exchange(connection.is_attached, false)) {
    --live_count_;
    destroy_at_host(connection);
    host_.release(connection.id());
  }
  settle_half_open(connection);
  if (!connection.has_user) {
    free_connection(connection);
  }
}

// First what the peer may reach: the device would keep it behind the queue pair.
void RnicTransport::destroy_at_host(Connection& connection) {
  if (connection.exposes) {
    memory_->close(connection.domain);
  }
  if (connection.queue_pair) {
    host_.destroy_queue_pair(connection.id());
    connection.queue_pair->on_destroyed();
  }
}

void RnicTransport::drop_queue_pair(Connection& connection) {
  if (connection.is_attached) {
    destroy_at_host(connection);
  }
  connection.queue_pair.reset();
}

void RnicTransport::free_connection(Connection& connection) {
  CW_ASSERT(!connection.is_attached);
  settle_half_open(connection);
  if (connection.ListNode<PartingTag>::is_linked()) {
    connection.ListNode<PartingTag>::unlink();
    --parting_count_;
  }
  timers_.cancel(connection);
  slots_[connection.slot].connection = nullptr;
  free_slots_.push_back(connection.slot);
  connections_.destroy(&connection);
}

RnicTransport::Connection* RnicTransport::find(uint64_t id) {
  const auto slot = static_cast<uint32_t>(id);
  return slot < slots_.size() && slots_[slot].connection != nullptr && slots_[slot].generation == id >> 32
             ? slots_[slot].connection
             : nullptr;
}

const RnicTransport::Connection* RnicTransport::find(uint64_t id) const {
  return const_cast<RnicTransport*>(this)->find(id);
}

RnicTransport::Connection* RnicTransport::of_user(verbs::ConnectionId id) {
  Connection* connection = find(id.value());
  return connection != nullptr && connection->has_user ? connection : nullptr;
}

Status RnicTransport::listen(uint16_t port) {
  if (std::ranges::find(ports_, port) != ports_.end()) {
    return {};
  }
  if (const Status listening = host_.listen(port); !listening.ok()) {
    return listening;
  }
  ports_.push_back(port);
  return {};
}

void RnicTransport::unlisten(uint16_t port) {
  if (std::erase(ports_, port) > 0) {
    host_.unlisten(port);
  }
}

// ---- Set-up ----

std::optional<RnicId> RnicTransport::on_request(Instant now, const RnicRequest& request) {
  now_ = now;
  ++stats_.requests;
  const auto dropped = [&](RnicDrop drop) {
    ++stats_.drops[static_cast<size_t>(drop)];
    log_.note({.at = now,
               .peer = request.peer,
               .peer_port = request.peer_port,
               .detail = static_cast<uint16_t>(drop),
               .kind = RnicEventKind::kDropped});
    return std::nullopt;
  };
  if (std::ranges::find(ports_, request.listener_port) == ports_.end()) {
    return dropped(RnicDrop::kNoListener);
  }
  const PrefixTable::Index prefix = prefixes_.find(now, request.peer);
  if (const RequestVerdict verdict = requests_.take(now, request.peer, prefixes_, prefix); verdict != RequestVerdict::kTaken) {
    return dropped(verdict == RequestVerdict::kRate ? RnicDrop::kRate : RnicDrop::kPrefixRate);
  }
  if (!prefixes_.may_open(prefix)) {
    evict_oldest(now, prefix, RnicDrop::kPrefixHalfOpen);
  } else if (half_open_count_ >= options_.half_open_max) {
    evict_oldest(now, prefixes_.busiest(), RnicDrop::kHalfOpen);
  }
  // One that its user has not let go yet keeps its place.
  Connection* connection = half_open_count_ < options_.half_open_max ? take_connection() : nullptr;
  if (connection == nullptr) {
    return dropped(RnicDrop::kNoRoom);
  }
  prefixes_.opened(prefix);
  ++half_open_count_;
  half_open_.push_back(*connection);
  connection->prefix = prefix;
  connection->peer = request.peer;
  connection->peer_port = request.peer_port;
  connection->listener_port = request.listener_port;
  connection->reads_max = request.reads_max;
  connection->private_bytes = std::min(request.private_data.size(), connection->private_data.size());
  std::copy_n(request.private_data.begin(), connection->private_bytes, connection->private_data.begin());
  connection->handshake_deadline = now + options_.handshake_timeout;
  rearm(*connection);
  post_event(*connection, Kind::kConnectRequest);
  return connection->id();
}

void RnicTransport::evict_oldest(Instant now, PrefixTable::Index prefix, RnicDrop drop) {
  for (Connection* each = half_open_.front(); each != nullptr; each = half_open_.next(*each)) {
    if (each->prefix == prefix) {
      fail_setup(now, *each, drop);
      return;
    }
  }
}

void RnicTransport::note(Instant now, const Connection& connection, RnicEventKind kind, uint16_t detail) {
  const bool has_numbers = connection.queue_pair.has_value();
  log_.note({.at = now,
             .peer = connection.peer,
             .sequence = has_numbers ? connection.queue_pair->error().work : 0,
             .local_qpn = has_numbers ? connection.queue_pair->options().made.number : verbs::Qpn(),
             .peer_port = connection.peer_port,
             .detail = detail,
             .kind = kind});
}

void RnicTransport::count_drop(Instant now, const Connection& connection, RnicDrop drop) {
  ++stats_.drops[static_cast<size_t>(drop)];
  note(now, connection, RnicEventKind::kDropped, static_cast<uint16_t>(drop));
}

void RnicTransport::settle_half_open(Connection& connection) {
  if (connection.ListNode<HalfOpenTag>::is_linked()) {
    connection.ListNode<HalfOpenTag>::unlink();
    prefixes_.settled(connection.prefix);
    --half_open_count_;
  }
}

// Once, and nobody who has an answer.
void RnicTransport::refuse(Connection& connection, const verbs::Refusal& refusal) {
  if (connection.is_attached && !connection.is_active && !connection.is_answered && !std::exchange(connection.is_refused, true)) {
    host_.reject(connection.id(), refusal.bytes());
  }
}

// The connection itself may be gone after this call.
void RnicTransport::fail_setup(Instant now, Connection& connection, RnicDrop drop) {
  count_drop(now, connection, drop);
  connection.handshake_deadline = Instant::never();
  rearm(connection);
  if (connection.queue_pair) {
    connection.queue_pair->fail({.cause = RnicErrorCause::kSetup});
    connection.end_was_counted = true;  // as a drop
  }
  refuse(connection, verbs::Refusal(verbs::RejectReason::kNoResources, {}));
  if (connection.state == Connection::State::kAnswered) {
    post_event(connection, Kind::kUnreachable);
  } else {
    drop_event(connection);  // its user has not heard of it, or finds out by accept()
  }
  release(connection);
}

verbs::ConnectionLimits RnicTransport::limits() const {
  return {.packet_bytes = core_.pool.buffer_bytes(), .read_bytes_wanted = kReadBytesWanted};
}

Result<verbs::AcceptedConnection> RnicTransport::accept(Instant now, verbs::ConnectionId id,
                                                        const verbs::ConnectionOptions& options) {
  now_ = now;
  Connection* connection = of_user(id);
  if (connection == nullptr || connection->state != Connection::State::kAsked || !connection->is_attached) {
    return fail(Error::kBadState);
  }
  if (open_count_ >= options_.connections_max || options.private_data.size() > kOurPrivateDataMax) {
    return fail(Error::kNoResources);
  }
  connection->receive_bytes_max = options.receive_bytes_max;
  connection->reads_max = std::min({connection->reads_max, options_.reads_max, options.depths.initiator_depth});
  if (const auto drop = make_queue_pair(*connection)) {
    count_drop(now, *connection, *drop);
    return fail(Error::kNoResources);
  }
  connection->context = options.context;
  connection->private_bytes = options.private_data.size();
  std::ranges::copy(options.private_data, connection->private_data.begin());
  connection->is_given = true;
  connection->state = Connection::State::kAnswered;
  to_answer_.push_back(*connection);
  connection->handshake_deadline = now + options_.handshake_timeout;
  rearm(*connection);
  return verbs::AcceptedConnection{&*connection->queue_pair, limits()};
}

// What was in the way, if anything was.
std::optional<RnicDrop> RnicTransport::make_queue_pair(Connection& connection) {
  const uint32_t buffer_bytes = core_.pool.buffer_bytes();
  const uint32_t pieces = std::max(1u, (connection.receive_bytes_max + buffer_bytes - 1) / buffer_bytes);
  const auto made = host_.make_queue_pair(connection.id(), {.send_requests = 2 * options_.send_queue_depth,
                                                            .receive_requests = options_.receive_queue_depth,
                                                            .receive_pieces = pieces,
                                                            .inline_bytes = options_.inline_bytes,
                                                            .exposes = connection.exposes});
  if (!made.ok()) {
    return made.error() == Error::kLimit ? RnicDrop::kPieces : RnicDrop::kNoQueuePair;
  }
  if (pieces > std::min(made->receive_pieces, kReceivePiecesMax)) {
    host_.destroy_queue_pair(connection.id());
    return RnicDrop::kPieces;
  }
  connection.queue_pair.emplace(RnicQueuePairOptions{.id = connection.id(),
                                                     .slot = connection.slot,
                                                     .receive_bytes_max = connection.receive_bytes_max,
                                                     .send_queue_depth = options_.send_queue_depth,
                                                     .reads_max = connection.reads_max,
                                                     .made = *made},
                                core_);
  return std::nullopt;
}

void RnicTransport::reject(Instant now, verbs::ConnectionId id, verbs::RejectReason reason, Bytes private_data) {
  now_ = now;
  Connection* connection = of_user(id);
  if (connection == nullptr || connection->state != Connection::State::kAsked) {
    return;
  }
  connection->has_user = false;
  drop_event(*connection);
  note(now, *connection, RnicEventKind::kRejected, static_cast<uint16_t>(reason));
  refuse(*connection, verbs::Refusal(reason, private_data));
  release(*connection);
}

void RnicTransport::answer(Instant now, Connection& connection) {
  const Bytes ours = Bytes(connection.private_data).first(connection.private_bytes);
  if (!host_.accept(connection.id(), connection.reads_max, ours).ok()) {
    fail_setup(now, connection, RnicDrop::kAnswerFailed);
    return;
  }
  connection.is_answered = true;
}

void RnicTransport::notify(Instant /*now*/, verbs::ConnectionId /*connection*/) {
  // on_completion() has made the event with the peer's first message.
}

Result<verbs::ConnectionId> RnicTransport::connect(Instant now, const IpAddress& server, uint16_t port,
                                                   const verbs::ConnectionOptions& options) {
  now_ = now;
  if (options.private_data.size() > kOurPrivateDataMax) {
    return fail(Error::kBadValue);
  }
  Connection* connection = open_count_ < options_.connections_max ? take_connection() : nullptr;
  if (connection == nullptr) {
    return fail(Error::kNoResources);
  }
  const auto give_back = [&](Error why) {
    connection->is_attached = false;
    --live_count_;
    free_connection(*connection);
    return fail(why);
  };
  if (memory_ != nullptr && !memory_->open(options.domain, connection->id())) {
    return give_back(Error::kBadValue);
  }
  if (const Status begun = host_.resolve_address(connection->id(), server, port, options_.resolve_timeout); !begun.ok()) {
    if (memory_ != nullptr) {
      memory_->forget(options.domain);
    }
    return give_back(begun.error());
  }
  connection->is_active = true;
  connection->has_user = true;
  connection->has_place = true;
  ++open_count_;
  connection->exposes = memory_ != nullptr;
  connection->domain = options.domain;
  connection->state = Connection::State::kResolvingAddress;
  connection->peer = server;
  connection->peer_port = port;
  connection->context = options.context;
  connection->receive_bytes_max = options.receive_bytes_max;
  connection->reads_max = std::min(options_.reads_max, options.depths.initiator_depth);
  connection->reads_of_peer_max =
      connection->exposes ? std::min(options_.reads_of_peer_max, options.depths.responder_resources) : uint16_t{0};
  connection->private_bytes = options.private_data.size();
  std::ranges::copy(options.private_data, connection->private_data.begin());
  connection->handshake_deadline = now + options_.resolve_timeout;
  rearm(*connection);
  return verbs::ConnectionId(connection->value());
}

void RnicTransport::on_address_resolved(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr || connection->state != Connection::State::kResolvingAddress || !connection->is_attached) {
    return;
  }
  connection->state = Connection::State::kResolvingRoute;
  connection->handshake_deadline = now + options_.resolve_timeout;
  rearm(*connection);
  if (const auto failure = host_.resolve_route(id, options_.resolve_timeout); failure != ConnectFailure::kNone) {
    fail_connect(now, *connection, failure);
  }
}

void RnicTransport::on_route_resolved(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr || connection->state != Connection::State::kResolvingRoute || !connection->is_attached) {
    return;
  }
  if (const auto drop = make_queue_pair(*connection)) {
    fail_connect(now, *connection, *drop == RnicDrop::kPieces ? ConnectFailure::kPieces : ConnectFailure::kNoQueuePair);
    return;
  }
  connection->state = Connection::State::kAsking;
  connection->handshake_deadline = now + options_.handshake_timeout;
  rearm(*connection);
  connection->queue_pair->post_in_advance(std::min(kReceivesInAdvance, options_.receive_queue_depth));
  to_answer_.push_back(*connection);
}

// Without a receive it waits for a buffer: on_timer() brings it back.
void RnicTransport::ask(Instant now, Connection& connection) {
  if (connection.is_asked_for || connection.queue_pair->receives_posted() == 0) {
    return;
  }
  const Bytes ours = Bytes(connection.private_data).first(connection.private_bytes);
  const ConnectFailure failure =
      host_.connect(connection.id(),
                    {.reads_max = connection.reads_max, .reads_of_peer_max = connection.reads_of_peer_max, .private_data = ours});
  if (failure != ConnectFailure::kNone) {
    fail_connect(now, connection, failure);
    return;
  }
  connection.is_asked_for = true;
}

void RnicTransport::on_connected(Instant now, RnicId id, const RnicResponse& response) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr || connection->state != Connection::State::kAsking || !connection->is_attached ||
      !connection->is_asked_for || connection->queue_pair->in_error()) {
    return;
  }
  connection->reads_max = std::min(connection->reads_max, response.reads_max);
  connection->reads_of_peer_max = std::min(connection->reads_of_peer_max, response.reads_of_peer_max);
  connection->queue_pair->set_reads_max(connection->reads_max);
  if (!host_.make_ready(id, connection->reads_max)) {
    fail_connect(now, *connection, ConnectFailure::kRequestFailed);
    return;
  }
  connection->private_bytes = std::min(response.private_data.size(), connection->private_data.size());
  std::copy_n(response.private_data.begin(), connection->private_bytes, connection->private_data.begin());
  connection->state = Connection::State::kAnswered;
  connection->handshake_deadline = Instant::never();
  rearm(*connection);
  post_event(*connection, Kind::kConnectResponse);
}

void RnicTransport::on_rejected(Instant now, RnicId id, const verbs::Rejection& by_wire, Bytes private_data) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr || !connection->is_being_made()) {
    return;
  }
  const Bytes told = verbs::Refusal::user_data(private_data);
  connection->private_bytes = std::min(told.size(), connection->private_data.size());
  std::copy_n(told.begin(), connection->private_bytes, connection->private_data.begin());
  end_connect(now, *connection, ConnectFailure::kRejected, verbs::Refusal::of_peer(private_data).value_or(by_wire));
}

void RnicTransport::on_not_connected(Instant now, RnicId id, ConnectFailure failure) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection != nullptr && connection->is_being_made()) {
    fail_connect(now, *connection, failure);
  } else if (connection != nullptr && connection->is_attached) {
    on_failed(now, id);  // behind the answer
  }
}

// The peer has said nothing to its user.
void RnicTransport::fail_connect(Instant now, Connection& connection, ConnectFailure failure) {
  connection.private_bytes = 0;
  end_connect(now, connection, failure, rejection_of(failure));
}

void RnicTransport::end_connect(Instant now, Connection& connection, ConnectFailure failure, const verbs::Rejection& rejection) {
  connection.handshake_deadline = Instant::never();
  connection.flush_deadline = Instant::never();
  connection.starved_until = Instant::never();
  rearm(connection);
  if (connection.queue_pair) {
    connection.queue_pair->fail({.cause = RnicErrorCause::kSetup});
    connection.end_was_counted = true;
  }
  if (!std::exchange(connection.end_is_told, true)) {
    ++stats_.connect_failures[static_cast<size_t>(failure)];
    note(now, connection, RnicEventKind::kNotConnected, static_cast<uint16_t>(failure));
    connection.rejection = rejection;
    post_event(connection, rejection.reason == verbs::RejectReason::kNoAnswer ? Kind::kUnreachable : Kind::kRejected);
  }
  release(connection);
}

void RnicTransport::establish(Instant now, verbs::ConnectionId id) {
  now_ = now;
  Connection* connection = of_user(id);
  if (connection == nullptr || !connection->is_active || connection->state != Connection::State::kAnswered ||
      connection->is_established) {
    return;
  }
  if (connection->is_attached) {
    connection->exposure = host_.exposure(connection->id());
  }
  if (connection->is_exposed()) {
    note(now, *connection, RnicEventKind::kExposed, static_cast<uint16_t>(connection->exposure));
  }
  note_established(now, *connection);
  if (!connection->is_attached || connection->queue_pair->in_error()) {
    return;  // lost meanwhile: the event says so
  }
  connection->is_answered = true;
  if (!host_.establish(connection->id())) {
    lose(now, *connection, {.cause = RnicErrorCause::kSetup});
    return;
  }
  if (options_.keepalive != Duration()) {
    connection->keepalive_deadline = now + options_.keepalive;
    rearm(*connection);
  }
}

// A place is taken here and not by our answer: who asked in somebody else's name never gets so far, and would keep peers out.
void RnicTransport::become_established(Instant now, Connection& connection) {
  if (connection.has_place) {
    return;
  }
  if (open_count_ >= options_.connections_max) {
    say_goodbye(connection);
    fail_setup(now, connection, RnicDrop::kNoRoom);
    return;
  }
  connection.has_place = true;
  ++open_count_;
  if (options_.keepalive != Duration()) {
    connection.keepalive_deadline = now + options_.keepalive;
  }
  settle_half_open(connection);
  connection.handshake_deadline = Instant::never();
  rearm(connection);
  connection.exposure = host_.exposure(connection.id());
  if (connection.exposure != Exposure::kNone) {
    note(now, connection, RnicEventKind::kExposed, static_cast<uint16_t>(connection.exposure));
  }
  post_event(connection, Kind::kEstablished);
}

void RnicTransport::on_established(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection != nullptr && connection->state == Connection::State::kAnswered && connection->is_answered &&
      !connection->queue_pair->in_error()) {
    become_established(now, *connection);
  }
}

void RnicTransport::note_established(Instant now, Connection& connection) {
  connection.is_established = true;
  if (!connection.is_active) {
    requests_.know(now, connection.peer);
  }
  ++stats_.established;
  ++stats_.connections;
  stats_.exposed += connection.is_exposed() ? 1 : 0;
  note(now, connection, RnicEventKind::kConnected);
}

// ---- Events ----

void RnicTransport::post_event(Connection& connection, Kind kind) {
  connection.event = kind;
  if (!connection.ListNode<EventTag>::is_linked()) {
    with_events_.push_back(connection);
  }
}

void RnicTransport::drop_event(Connection& connection) {
  connection.event.reset();
  connection.ListNode<EventTag>::unlink_if_linked();
}

// The user may end the connection at once, and what its peer said stays until the next event.
Bytes RnicTransport::keep_told(Bytes private_data) {
  std::ranges::copy(private_data, told_.begin());
  return Bytes(told_).first(private_data.size());
}

bool RnicTransport::poll_event(Instant now, verbs::ConnectionEvent& out) {
  now_ = now;
  Connection* connection = with_events_.pop_front();
  if (connection == nullptr) {
    return false;
  }
  out = {};
  out.kind = *std::exchange(connection->event, std::nullopt);
  if (out.kind == Kind::kUnreachable && connection->is_established) {
    out.kind = Kind::kDisconnected;  // it was lost before its user called establish(), and is told of behind that
  }
  out.connection = verbs::ConnectionId(connection->value());
  out.context = connection->context;
  switch (out.kind) {
    case Kind::kConnectRequest:
      connection->has_user = true;
      out.peer = connection->peer;
      out.peer_port = connection->peer_port;
      out.listener_port = connection->listener_port;
      out.private_data = keep_told(Bytes(connection->private_data).first(connection->private_bytes));
      out.depths = {.initiator_depth = connection->reads_max, .responder_resources = verbs::kAnyDepth};
      break;
    case Kind::kEstablished:
      note_established(now, *connection);
      break;
    case Kind::kDisconnected:
      out.cause = connection->queue_pair->error().cause == RnicErrorCause::kPeerClosed ? verbs::DisconnectCause::kPeer
                                                                                       : verbs::DisconnectCause::kTransport;
      break;
    case Kind::kConnectResponse:
      connection->is_given = true;
      connection->queue_pair->tell_again();
      out.private_data = keep_told(Bytes(connection->private_data).first(connection->private_bytes));
      out.depths = {.initiator_depth = connection->reads_max, .responder_resources = connection->reads_of_peer_max};
      out.queue_pair = &*connection->queue_pair;
      out.limits = limits();
      break;
    case Kind::kRejected:
      out.private_data = keep_told(Bytes(connection->private_data).first(connection->private_bytes));
      out.rejection = connection->rejection;
      break;
    case Kind::kUnreachable:
      out.rejection = connection->rejection;
      break;
  }
  return true;
}

// ---- Life ----

void RnicTransport::rearm(Connection& connection) {
  const Instant setup = earlier(connection.handshake_deadline, connection.keepalive_deadline);
  const Instant end = earlier(connection.flush_deadline, connection.parting_deadline);
  timers_.arm(connection, earlier(earlier(setup, end), connection.starved_until));
}

// A peer that is gone would keep its place, its credits and a queue pair of the device for ever: an idle queue pair sends nothing
// whose loss would be noticed.
void RnicTransport::watch_peer(Instant now, Connection& connection) {
  RnicQueuePair& queue_pair = *connection.queue_pair;
  if (queue_pair.in_error() || options_.keepalive == Duration()) {
    connection.keepalive_deadline = Instant::never();
    return;
  }
  const Instant quiet_until = queue_pair.heard_at() + options_.keepalive;
  if (queue_pair.is_asking()) {
    connection.keepalive_deadline = std::max(connection.asked_at, queue_pair.heard_at()) + options_.keepalive_patience;
    if (connection.keepalive_deadline <= now) {
      lose(now, connection, {.cause = RnicErrorCause::kPeerSilent});
    }
  } else if (now < quiet_until) {
    connection.keepalive_deadline = quiet_until;
  } else {
    connection.asked_at = now;
    connection.keepalive_deadline = now + (queue_pair.ask_peer() ? options_.keepalive_patience : options_.keepalive);
  }
}

void RnicTransport::on_completion(Instant now, const WorkDone& done) {
  now_ = now;
  ++core_.stats.completions[std::min<size_t>(static_cast<size_t>(done.status), verbs::kWcStatusCount - 1)];
  const WorkTag tag = WorkTag::of(done.id);
  Connection* connection = tag.slot < slots_.size() ? slots_[tag.slot].connection : nullptr;
  const bool is_live = connection != nullptr && connection->queue_pair &&
                       ((connection->generation ^ tag.generation) & ((1u << WorkTag::kGenerationBits) - 1)) == 0;
  if (!is_live) {
    ++core_.stats.stale_completions;
    return;
  }
  RnicQueuePair& queue_pair = *connection->queue_pair;
  const bool was_asking = queue_pair.is_asking();
  queue_pair.on_completion(now, tag, done);
  if (was_asking && !queue_pair.is_asking()) {
    connection->keepalive_deadline = now + options_.keepalive;
    rearm(*connection);
  }
  if (queue_pair.in_error()) {
    note_end(now, *connection);
    if (connection->is_being_made()) {
      fail_connect(now, *connection, ConnectFailure::kLost);  // its user has no queue pair to see it by
    }
  } else if (queue_pair.is_flushing() && connection->flush_deadline.is_never()) {
    connection->flush_deadline = now + options_.flush_patience;
    rearm(*connection);
  } else if (queue_pair.heard_peer() && !connection->has_place && connection->is_answered) {
    ++stats_.early;
    host_.notify(connection->id());
    become_established(now, *connection);
  }
}

void RnicTransport::note_end(Instant now, Connection& connection) {
  if (std::exchange(connection.end_was_counted, true)) {
    return;
  }
  if (connection.is_established && !connection.is_active) {
    requests_.know(now, connection.peer);
  }
  const RnicError& error = connection.queue_pair->error();
  ++stats_.errors[static_cast<size_t>(error.cause)];
  connection.flush_deadline = Instant::never();
  connection.starved_until = Instant::never();
  connection.keepalive_deadline = Instant::never();
  rearm(connection);
  switch (error.cause) {
    case RnicErrorCause::kClosed:
      return note(now, connection, RnicEventKind::kClosed);
    case RnicErrorCause::kPeerClosed:
      return note(now, connection, RnicEventKind::kDisconnected);
    case RnicErrorCause::kCompletion:
      return note(now, connection, RnicEventKind::kWorkFailed, static_cast<uint16_t>(error.status));
    default:
      return note(now, connection, RnicEventKind::kFailed, static_cast<uint16_t>(error.cause));
  }
}

// Not by a completion: the user is told by an event.
void RnicTransport::lose(Instant now, Connection& connection, const RnicError& error) {
  const bool is_news = !connection.queue_pair->in_error();
  connection.queue_pair->fail(error);
  connection.handshake_deadline = Instant::never();
  note_end(now, connection);
  if (is_news) {
    if (connection.is_active && !connection.is_established) {
      ++stats_.connect_failures[static_cast<size_t>(ConnectFailure::kLost)];
      connection.rejection = rejection_of(ConnectFailure::kLost);
      connection.end_is_told = true;
    } else if (!connection.is_established) {
      ++stats_.drops[static_cast<size_t>(RnicDrop::kLostInSetup)];
      settle_half_open(connection);
    }
    post_event(connection, connection.is_established ? Kind::kDisconnected : Kind::kUnreachable);
  }
}

void RnicTransport::on_disconnected(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr) {
    return;
  }
  connection->peer_has_left = true;
  switch (connection->state) {
    case Connection::State::kAsked:
    case Connection::State::kResolvingAddress:
    case Connection::State::kResolvingRoute:
    case Connection::State::kAsking:
      on_failed(now, id);
      return;
    case Connection::State::kAnswered:
      lose(now, *connection, {.cause = RnicErrorCause::kPeerClosed});
      return;
    case Connection::State::kParting:
      release(*connection);
      return;
  }
}

void RnicTransport::on_failed(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr) {
    return;
  }
  connection->peer_has_left = true;
  switch (connection->state) {
    case Connection::State::kAsked:
      count_drop(now, *connection, RnicDrop::kLostInSetup);
      drop_event(*connection);
      connection->handshake_deadline = Instant::never();
      rearm(*connection);
      release(*connection);  // a user that has it yet finds out by accept()
      return;
    case Connection::State::kResolvingAddress:
    case Connection::State::kResolvingRoute:
    case Connection::State::kAsking:
      if (connection->is_attached) {
        fail_connect(now, *connection, ConnectFailure::kLost);
      }
      return;
    case Connection::State::kAnswered:
      lose(now, *connection, {.cause = RnicErrorCause::kSetup});
      return;
    case Connection::State::kParting:
      release(*connection);
      return;
  }
}

void RnicTransport::on_parted(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection != nullptr && connection->state == Connection::State::kParting) {
    release(*connection);
  }
}

void RnicTransport::on_device_removed(Instant now, RnicId id) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection == nullptr || !connection->is_attached) {
    return;
  }
  if (connection->state == Connection::State::kAsked) {
    on_failed(now, id);
    return;
  }
  if (connection->is_being_made()) {
    fail_connect(now, *connection, ConnectFailure::kDeviceGone);
    return;
  }
  if (connection->state == Connection::State::kAnswered) {
    lose(now, *connection, {.cause = RnicErrorCause::kDeviceRemoved});
  }
  release(*connection);
}

void RnicTransport::on_queue_pair_event(Instant now, RnicId id, DeviceEvent event) {
  now_ = now;
  ++stats_.device_events[static_cast<size_t>(event)];
  Connection* connection = find(id.value());
  if (connection == nullptr || !connection->queue_pair || !connection->is_attached) {
    return;
  }
  if (event == DeviceEvent::kEstablished) {
    if (!connection->has_place && connection->is_answered) {
      host_.notify(id);  // and on_established() follows
    }
    return;
  }
  if (const RnicErrorCause cause = cause_of(event); cause != RnicErrorCause::kNone) {
    lose(now, *connection, {.cause = cause});
  }
}

void RnicTransport::on_device_failed(Instant now, RnicId id, DeviceEvent event) {
  now_ = now;
  Connection* connection = find(id.value());
  if (connection != nullptr && connection->queue_pair && connection->is_attached) {
    lose(now, *connection, {.cause = cause_of(event)});
  }
}

void RnicTransport::on_device_event(Instant now, DeviceEvent event) {
  now_ = now;
  ++stats_.device_events[static_cast<size_t>(event)];
  log_.note({.at = now, .detail = static_cast<uint16_t>(event), .kind = RnicEventKind::kDevice});
}

bool RnicTransport::flush(Instant now) {
  now_ = now;
  bool worked = false;
  while (RnicQueuePair* queue_pair = core_.to_post.pop_front()) {
    worked = true;
    Connection& connection = *slots_[queue_pair->options().slot].connection;
    if (!queue_pair->post_pending()) {
      note(now, connection, RnicEventKind::kOutOfBuffers);
      connection.starved_until = now + kStarvedRetry;
      rearm(connection);
    }
    if (queue_pair->in_error()) {
      note_end(now, connection);
      if (connection.is_being_made()) {
        fail_connect(now, connection, ConnectFailure::kRequestFailed);
      }
    }
  }
  while (Connection* connection = to_answer_.pop_front()) {
    worked = true;
    if (connection->queue_pair->in_error()) {
      continue;
    }
    if (connection->is_active) {
      ask(now, *connection);
    } else {
      answer(now, *connection);
    }
  }
  return worked;
}

void RnicTransport::say_goodbye(Connection& connection) {
  if (connection.is_attached && connection.is_answered && !std::exchange(connection.goodbye_said, true)) {
    host_.disconnect(connection.id());
  }
}

void RnicTransport::disconnect(Instant now, verbs::ConnectionId id) {
  now_ = now;
  Connection* connection = of_user(id);
  if (connection == nullptr || !connection->is_attached || !connection->queue_pair) {
    return;
  }
  connection->end_is_told = true;
  connection->queue_pair->close();
  note_end(now, *connection);
  say_goodbye(*connection);
  refuse(*connection, verbs::Refusal(verbs::RejectReason::kNoResources, {}));
}

void RnicTransport::destroy(verbs::ConnectionId id) {
  Connection* connection = of_user(id);
  if (connection == nullptr) {
    return;
  }
  connection->has_user = false;
  drop_event(*connection);
  if (connection->is_established) {
    --stats_.connections;
    stats_.exposed -= connection->is_exposed() ? 1 : 0;
  }
  open_count_ -= connection->has_place ? 1 : 0;
  if (connection->queue_pair) {
    if (!connection->queue_pair->in_error()) {
      connection->queue_pair->close();
    }
    note_end(now_, *connection);
    drop_queue_pair(*connection);
  }
  if (std::exchange(connection->exposes, false)) {
    memory_->forget(connection->domain);
  }
  settle_half_open(*connection);
  if (connection->is_attached && connection->goodbye_said && !connection->peer_has_left) {
    begin_parting(*connection);
  } else {
    release(*connection);
  }
}

void RnicTransport::begin_parting(Connection& connection) {
  connection.state = Connection::State::kParting;
  connection.ListNode<AnswerTag>::unlink_if_linked();
  connection.handshake_deadline = Instant::never();
  connection.flush_deadline = Instant::never();
  connection.starved_until = Instant::never();
  connection.keepalive_deadline = Instant::never();
  connection.parting_deadline = now_ + options_.parting_timeout;
  rearm(connection);
  parting_.push_back(connection);
  if (++parting_count_ > options_.parting_max) {
    release(*parting_.front());
  }
}

bool RnicTransport::poll_ready(verbs::ReadyQueuePair& out) {
  while (RnicQueuePair* queue_pair = core_.ready.pop_front()) {
    const Connection& connection = *slots_[queue_pair->options().slot].connection;
    if (connection.is_given && connection.has_user) {
      out = {queue_pair, connection.context};
      return true;
    }
  }
  return false;
}

uint32_t RnicTransport::peek_ready(std::span<uint64_t> out) const {
  uint32_t count = 0;
  for (const RnicQueuePair* queue_pair = core_.ready.front(); queue_pair != nullptr && count < out.size();
       queue_pair = core_.ready.next(*queue_pair)) {
    const Connection& connection = *slots_[queue_pair->options().slot].connection;
    if (connection.is_given && connection.has_user) {
      out[count++] = connection.context;
    }
  }
  return count;
}

void RnicTransport::on_deadline(Instant now) {
  now_ = now;
  while (TimerNode* node = timers_.pop_expired(now)) {
    on_timer(now, static_cast<Connection&>(*node));
  }
}

void RnicTransport::on_timer(Instant now, Connection& connection) {
  if (connection.parting_deadline <= now) {
    connection.parting_deadline = Instant::never();
    release(connection);
    return;
  }
  if (connection.handshake_deadline <= now) {
    switch (connection.state) {
      case Connection::State::kResolvingAddress:
        fail_connect(now, connection, ConnectFailure::kAddressUnresolved);
        return;
      case Connection::State::kResolvingRoute:
        fail_connect(now, connection, ConnectFailure::kRouteUnresolved);
        return;
      case Connection::State::kAsking:
        fail_connect(now, connection, ConnectFailure::kTimeout);
        return;
      case Connection::State::kAsked:
      case Connection::State::kAnswered:
      case Connection::State::kParting:
        fail_setup(now, connection, RnicDrop::kHandshakeTimeout);
        return;
    }
  }
  if (connection.flush_deadline <= now) {
    connection.flush_deadline = Instant::never();
    lose(now, connection, {.cause = RnicErrorCause::kFlushed});
  }
  if (connection.keepalive_deadline <= now) {
    watch_peer(now, connection);
  }
  if (connection.starved_until <= now) {
    connection.starved_until = Instant::never();
    if (!connection.queue_pair->in_error() && !connection.queue_pair->ListNode<PostTag>::is_linked()) {
      core_.to_post.push_back(*connection.queue_pair);
    }
    if (connection.state == Connection::State::kAsking && !connection.ListNode<AnswerTag>::is_linked()) {
      to_answer_.push_back(connection);
    }
  }
  rearm(connection);
}

uint32_t RnicTransport::copy_log(std::span<verbs::TransportEvent> out) const {
  return log_.copy(out);
}

verbs::QueuePairInfo RnicTransport::describe(verbs::ConnectionId id) const {
  verbs::QueuePairInfo info;
  info.wire = "verbs";
  const Connection* connection = find(id.value());
  if (connection == nullptr || !connection->queue_pair) {
    return info;
  }
  const RnicQueuePair& queue_pair = *connection->queue_pair;
  const RnicError& error = queue_pair.error();
  info.local_qpn = queue_pair.options().made.number;
  if (error.any()) {
    const bool has_status = error.cause == RnicErrorCause::kCompletion;
    info.error = {.cause = to_string(error.cause),
                  .origin = origin_of(error.cause, error.status),
                  .detail = has_status ? std::string_view(to_string(error.status)) : std::string_view(),
                  .sequence_name = "work",
                  .sequence = error.work};
  }
  info.traffic = {.payload_bytes_in = queue_pair.payload_bytes_in(), .payload_bytes_out = queue_pair.payload_bytes_out()};
  RnicDetail detail{.exposure = connection->exposure,
                    .reads_max = queue_pair.options().reads_max,
                    .works_queued = queue_pair.works_pending(),
                    .requests_out = queue_pair.requests_out(),
                    .reads_outstanding = queue_pair.reads_outstanding(),
                    .receives_posted = queue_pair.receives_posted(),
                    .receives_owed = queue_pair.receives_owed(),
                    .send_pieces = queue_pair.options().made.send_pieces,
                    .read_pieces = queue_pair.options().made.read_pieces,
                    .inline_bytes = queue_pair.options().made.inline_bytes};
  if (connection->is_attached) {
    detail.device = host_.device(connection->id());
    if (const auto state = host_.look(connection->id())) {
      detail.has_state = true;
      detail.state = *state;
      info.remote_qpn = state->remote;
    }
  }
  info.set_detail(detail, queue_pair_fields());
  return info;
}

}  // namespace cw::rnic
