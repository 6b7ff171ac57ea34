#include "iwarp/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "iwarp/wire/fpdu.h"
#include "verbs/refusal.h"

namespace cw::iwarp {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

// Looked for again by a stream that found the pool empty.
constexpr Duration kStarvedRetry = Duration::ms(1);
constexpr uint32_t kLogEntries = 4096;  // as many as RoCE remembers
// Bytes of READs to ask for at a time: about what a fast path holds.
constexpr uint64_t kReadBytesWanted = 1u << 20;
// Whatever segment size the peer announces: headers are not all that travels.
constexpr uint32_t kUlpduBytesMin = 256;
// What a connection may have read and not taken without asking: a segment of TCP or several, and a set-up frame.
constexpr uint32_t kFreeInputBytes = 16 * 1024;

// All that there may be at a time. Who asks and has no answer yet takes one of these, too.
uint32_t slots_of(const IwarpOptions& options) {
  return options.connections_max + options.half_open_max + options.parting_max;
}

constexpr uint64_t id_value(uint32_t slot, uint32_t generation) {
  return uint64_t{generation} << 32 | slot;
}

// The first of the pieces, so many that they have up to `bytes`. Returns how many they are.
uint32_t cut_to(uint32_t bytes, std::span<MutableBytes> pieces) {
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() >= bytes) {
      pieces[i] = pieces[i].first(bytes);
      return i + 1;
    }
    bytes -= static_cast<uint32_t>(pieces[i].size());
  }
  return static_cast<uint32_t>(pieces.size());
}

// What the peer offers, seen from our side.
verbs::ReadDepths depths_of(const MpaFrameReader& peer) {
  if (!peer.has_ird_ord()) {
    return {.initiator_depth = verbs::kAnyDepth, .responder_resources = verbs::kAnyDepth};
  }
  const IrdOrd word = peer.ird_ord();
  const auto said = [](uint16_t depth) { return depth == IrdOrd::kMax ? verbs::kAnyDepth : depth; };
  return {.initiator_depth = said(word.ird), .responder_resources = said(word.ord)};
}

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string_view to_string(IwarpDrop drop) noexcept {
  switch (drop) {
    case IwarpDrop::kRate:
      return "request_rate";
    case IwarpDrop::kPrefixRate:
      return "prefix_request_rate";
    case IwarpDrop::kNoRoom:
      return "no_room";
    case IwarpDrop::kNoListener:
      return "no_listener";
    case IwarpDrop::kPrefixHalfOpen:
      return "prefix_half_open";
    case IwarpDrop::kHalfOpen:
      return "half_open";
    case IwarpDrop::kHandshakeTimeout:
      return "handshake_timeout";
    case IwarpDrop::kBadSetup:
      return "bad_setup";
    case IwarpDrop::kLostInSetup:
      return "lost_in_setup";
    case IwarpDrop::kNoBuffers:
      return "no_buffers";
    case IwarpDrop::kCount:
      break;
  }
  return "other";
}

// One TCP connection and what it carries.
class IwarpTransport::Connection final : public ListNode<EventTag>,
                                         public ListNode<HalfOpenTag>,
                                         public ListNode<PartingTag>,
                                         public ListNode<ServiceTag>,
                                         public ListNode<InputTag>,
                                         public TimerNode {
 public:
  enum class State : uint8_t {
    kRequested,   // passive: TCP is up, the Request is not complete
    kAsked,       // passive: the user decides
    kConnecting,  // active: TCP is coming up
    kReplying,    // active: the Request is sent, the Reply is not complete
    kStreaming,   // there is a stream
    kParting,     // without a user, until what was to be said has left
  };

  explicit Connection(Slab<SendBatch>& batches) : output(batches) {}
  ~Connection() {
    ListNode<EventTag>::unlink_if_linked();
    ListNode<HalfOpenTag>::unlink_if_linked();
    ListNode<PartingTag>::unlink_if_linked();
    ListNode<ServiceTag>::unlink_if_linked();
    ListNode<InputTag>::unlink_if_linked();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] uint64_t value() const { return id_value(slot, generation); }
  [[nodiscard]] StreamId stream_id() const { return StreamId(value()); }

  uint32_t slot = 0;
  uint32_t generation = 0;
  State state = State::kRequested;
  bool is_passive = true;
  bool has_user = false;      // who will call destroy()
  bool was_polled = false;    // passive: the user has seen the Request
  bool awaits_ready = false;  // passive: established with the peer's first FPDU
  bool is_open = false;       // has a place of connections_max
  bool is_established = false;
  bool is_attached = true;  // the host has its TCP connection
  bool is_starved = false;  // input waits for a buffer
  bool end_was_counted = false;
  bool reads_again = false;  // the host is to read, which it was not to before
  bool fin_sent = false;
  bool fin_received = false;
  uint16_t peer_port = 0;
  uint16_t listener_port = 0;
  uint16_t ulpdu_bytes_max = 0;
  PrefixTable::Index prefix = 0;  // while half-open
  uint32_t input_reserved = 0;    // bytes of the FPDU that has begun; 0: it is short, or waits
  IpAddress peer;
  uint64_t context = 0;
  std::optional<Kind> event;
  verbs::Rejection rejection;
  Instant handshake_deadline = Instant::never();
  Instant fpdu_deadline = Instant::never();
  Instant starved_until = Instant::never();
  Instant parting_deadline = Instant::never();
  std::unique_ptr<MpaResponder> responder;
  // Active side
  struct Wishes {
    MpaInitiator initiator;
    verbs::ConnectionOptions options;
    std::array<uint8_t, 64> private_data{};
    bool refused = false;  // the initiator has the Reply that says so
  };
  std::unique_ptr<Wishes> wishes;
  ByteInput input;
  ByteOutput output;
  std::optional<RdmapStream> stream;
};

IwarpTransport::IwarpTransport(const IwarpOptions& options, StreamHost& host, BufferPool& pool, RandomSource& random,
                               verbs::MemoryTable* memory)
    : options_(options),
      host_(host),
      core_({.streams_max = slots_of(options),
             .send_work_max = options.send_work_max,
             .receive_work_max = options.receive_work_max},
            pool, random, memory),
      log_(kLogEntries),
      requests_(options.request_rate, random),
      prefixes_(options.prefix, random),
      timers_(slots_of(options)),
      connections_(slots_of(options)),
      slots_(slots_of(options)) {
  free_slots_.reserve(slots_.size());
  for (uint32_t slot = static_cast<uint32_t>(slots_.size()); slot-- > 0;) {
    free_slots_.push_back(slot);
  }
}

void IwarpTransport::reconfigure(const IwarpOptions& fresh) {
  options_.crc = fresh.crc;
  options_.ird = fresh.ird;
  options_.ord = fresh.ord;
  options_.fpdu_bytes_max = fresh.fpdu_bytes_max;
  options_.handshake_timeout = fresh.handshake_timeout;
}

IwarpTransport::~IwarpTransport() {
  for (const Slot& slot : slots_) {
    if (slot.connection != nullptr) {
      slot.connection->has_user = false;
      slot.connection->is_attached ? release(*slot.connection, ReleaseKind::kReset) : free_connection(*slot.connection);
    }
  }
}

// Connections that wait for their last words to leave make room for new ones.
IwarpTransport::Connection* IwarpTransport::take_connection(Instant /*now*/) {
  if (free_slots_.empty()) {
    Connection* oldest = parting_strangers_.empty() ? parting_.front() : parting_strangers_.front();
    if (oldest == nullptr) {
      return nullptr;
    }
    release(*oldest, ReleaseKind::kReset);
  }
  Connection* connection = connections_.create(core_.batches);
  CW_ASSERT(connection != nullptr);
  connection->slot = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[connection->slot];
  slot.connection = connection;
  connection->generation = ++slot.generation;
  ++live_count_;
  return connection;
}

// The TCP connection ends; the user, if there is one, keeps its id and queue pair until destroy().
void IwarpTransport::release(Connection& connection, ReleaseKind kind) {
  if (std::exchange(connection.is_attached, false)) {
    --live_count_;
    host_.release(connection.stream_id(), kind);
  }
  settle_half_open(connection);
  if (!connection.has_user) {
    free_connection(connection);
  }
}

void IwarpTransport::free_connection(Connection& connection) {
  CW_ASSERT(!connection.is_attached);
  settle_half_open(connection);
  give_input_back(connection);
  if (connection.ListNode<PartingTag>::is_linked()) {
    connection.ListNode<PartingTag>::unlink();
    --parting_count_;
    stranger_count_ -= connection.is_established ? 0 : 1;
  }
  timers_.cancel(connection);
  slots_[connection.slot].connection = nullptr;
  free_slots_.push_back(connection.slot);
  connections_.destroy(&connection);
}

IwarpTransport::Connection* IwarpTransport::find(uint64_t id) {
  const auto slot = static_cast<uint32_t>(id);
  return slot < slots_.size() && slots_[slot].connection != nullptr && slots_[slot].generation == id >> 32
             ? slots_[slot].connection
             : nullptr;
}

const IwarpTransport::Connection* IwarpTransport::find(uint64_t id) const {
  return const_cast<IwarpTransport*>(this)->find(id);
}

IwarpTransport::Connection* IwarpTransport::of_user(verbs::ConnectionId id) {
  Connection* connection = find(id.value());
  return connection != nullptr && connection->has_user ? connection : nullptr;
}

IwarpTransport::Connection& IwarpTransport::of(RdmapStream& stream) {
  return *slots_[stream.options().slot].connection;
}

Status IwarpTransport::listen(uint16_t port) {
  if (std::ranges::find(ports_, port) != ports_.end()) {
    return {};
  }
  if (const Status listening = host_.listen(port); !listening.ok()) {
    return listening;
  }
  ports_.push_back(port);
  return {};
}

void IwarpTransport::unlisten(uint16_t port) {
  if (std::erase(ports_, port) > 0) {
    host_.unlisten(port);
  }
}

// ---- Set-up ----

std::optional<StreamId> IwarpTransport::on_accepted(Instant now, const IpAddress& peer, uint16_t peer_port,
                                                    uint16_t listener_port, uint32_t mss_bytes) {
  const auto dropped = [&](IwarpDrop drop) {
    ++stats_.drops[static_cast<size_t>(drop)];
    log_.note({.at = now,
               .peer = peer,
               .peer_port = peer_port,
               .detail = static_cast<uint16_t>(drop),
               .kind = ConnectionEventKind::kDropped});
    return std::nullopt;
  };
  if (std::ranges::find(ports_, listener_port) == ports_.end()) {
    return dropped(IwarpDrop::kNoListener);
  }
  const PrefixTable::Index prefix = prefixes_.find(now, peer);
  if (const RequestVerdict verdict = requests_.take(now, peer, prefixes_, prefix); verdict != RequestVerdict::kTaken) {
    return dropped(verdict == RequestVerdict::kRate ? IwarpDrop::kRate : IwarpDrop::kPrefixRate);
  }
  if (!prefixes_.may_open(prefix)) {
    evict_oldest(now, prefix, IwarpDrop::kPrefixHalfOpen);
  } else if (half_open_count_ >= options_.half_open_max) {
    evict_oldest(now, prefixes_.busiest(), IwarpDrop::kHalfOpen);
  }
  Connection* connection = take_connection(now);
  if (connection == nullptr) {
    return dropped(IwarpDrop::kNoRoom);
  }
  ++stats_.accepted;
  prefixes_.opened(prefix);
  ++half_open_count_;
  half_open_.push_back(*connection);
  connection->prefix = prefix;
  connection->peer = peer;
  connection->peer_port = peer_port;
  connection->listener_port = listener_port;
  connection->ulpdu_bytes_max =
      static_cast<uint16_t>(std::max(iwarp::ulpdu_bytes_max(std::min(mss_bytes, options_.fpdu_bytes_max)), kUlpduBytesMin));
  connection->responder = std::make_unique<MpaResponder>();
  connection->handshake_deadline = now + options_.handshake_timeout;
  rearm(*connection);
  return connection->stream_id();
}

void IwarpTransport::evict_oldest(Instant now, PrefixTable::Index prefix, IwarpDrop drop) {
  for (Connection* each = half_open_.front(); each != nullptr; each = half_open_.next(*each)) {
    if (each->prefix == prefix) {
      evict(now, *each, drop);
      return;
    }
  }
}

// The connection itself is gone after this call unless its user has it.
void IwarpTransport::evict(Instant now, Connection& connection, IwarpDrop drop) {
  if (!std::exchange(connection.end_was_counted, true)) {
    count_drop(now, connection, drop);
  }
  if (connection.state != Connection::State::kStreaming) {
    release(connection, ReleaseKind::kReset);  // a user that has it between poll_event() and accept() is told by accept()
    return;
  }
  // Its user has accepted it and holds a queue pair: it hears that nothing comes of it.
  const StreamId stream = connection.stream_id();
  host_.release(stream, ReleaseKind::kReset);
  on_lost(now, stream, StreamErrorCause::kNoResources);
}

void IwarpTransport::note(Instant now, const Connection& connection, ConnectionEventKind kind, uint16_t detail,
                          uint32_t sequence) {
  log_.note({.at = now,
             .peer = connection.peer,
             .sequence = sequence,
             .peer_port = connection.peer_port,
             .detail = detail,
             .kind = kind});
}

void IwarpTransport::count_drop(Instant now, const Connection& connection, IwarpDrop drop) {
  ++stats_.drops[static_cast<size_t>(drop)];
  if (drop == IwarpDrop::kBadSetup && connection.is_passive) {
    note(now, connection, ConnectionEventKind::kBadSetup, static_cast<uint16_t>(connection.responder->error()));
  } else {
    note(now, connection, ConnectionEventKind::kDropped, static_cast<uint16_t>(drop));
  }
}

void IwarpTransport::note_end(Instant now, const Connection& connection) {
  if (connection.is_established && connection.is_passive) {
    requests_.know(now, connection.peer);
  }
  const StreamError& error = connection.stream->error();
  const auto terminate = static_cast<uint16_t>(error.terminate);
  switch (error.cause) {
    case StreamErrorCause::kTerminated:
      return note(now, connection, ConnectionEventKind::kTerminateReceived, terminate, error.message);
    case StreamErrorCause::kViolation:
      return note(now, connection, ConnectionEventKind::kTerminateSent, terminate, error.message);
    case StreamErrorCause::kClosed:
      return note(now, connection, ConnectionEventKind::kClosed);
    default:
      return note(now, connection, ConnectionEventKind::kFailed, static_cast<uint16_t>(error.cause));
  }
}

void IwarpTransport::settle_half_open(Connection& connection) {
  if (connection.ListNode<HalfOpenTag>::is_linked()) {
    connection.ListNode<HalfOpenTag>::unlink();
    prefixes_.settled(connection.prefix);
    --half_open_count_;
  }
}

// From here on it counts in connections_max. Those that were half-open when the last place was taken may go beyond it, since
// their peers have our Reply: at most half_open_max, for accept() takes no more of them. The user decides what becomes of them.
void IwarpTransport::become_open(Connection& connection) {
  settle_half_open(connection);
  open_count_ += std::exchange(connection.is_open, true) ? 0 : 1;
}

Result<verbs::ConnectionId> IwarpTransport::connect(Instant now, const IpAddress& server, uint16_t port,
                                                    const verbs::ConnectionOptions& options) {
  if (open_count_ >= options_.connections_max || options.private_data.size() > 64) {
    return fail(open_count_ >= options_.connections_max ? Error::kNoResources : Error::kBadValue);
  }
  Connection* connection = take_connection(now);
  if (connection == nullptr) {
    return fail(Error::kNoResources);
  }
  connection->state = Connection::State::kConnecting;
  connection->is_passive = false;
  connection->peer = server;
  connection->peer_port = port;
  connection->context = options.context;
  connection->wishes = std::make_unique<Connection::Wishes>();
  connection->wishes->options = options;
  std::ranges::copy(options.private_data, connection->wishes->private_data.begin());
  connection->wishes->options.private_data = Bytes(connection->wishes->private_data).first(options.private_data.size());
  if (const Status begun = host_.connect(connection->stream_id(), server, port); !begun.ok()) {
    connection->is_attached = false;
    --live_count_;
    free_connection(*connection);
    return fail(begun.error());
  }
  connection->has_user = true;
  become_open(*connection);
  connection->handshake_deadline = now + options_.handshake_timeout;
  rearm(*connection);
  return verbs::ConnectionId(connection->value());
}

void IwarpTransport::on_connected(Instant /*now*/, StreamId stream, uint32_t mss_bytes) {
  Connection* connection = find(stream.value());
  if (connection == nullptr || connection->state != Connection::State::kConnecting) {
    return;
  }
  connection->ulpdu_bytes_max =
      static_cast<uint16_t>(std::max(iwarp::ulpdu_bytes_max(std::min(mss_bytes, options_.fpdu_bytes_max)), kUlpduBytesMin));
  std::array<uint8_t, kMpaFrameBytesMax> frame{};
  const verbs::ReadDepths bounds = depths(connection->wishes->options);
  const uint32_t size = connection->wishes->initiator.request({.crc = options_.crc,
                                                               .ird = bounds.responder_resources,
                                                               .ord = bounds.initiator_depth,
                                                               .private_data = connection->wishes->options.private_data},
                                                              frame);
  connection->state = Connection::State::kReplying;
  say(*connection, Bytes(frame).first(size));
}

void IwarpTransport::say(Connection& connection, Bytes frame) {
  SendBatch* batch = connection.output.open();
  CW_ASSERT(batch != nullptr);  // there is one for each connection
  std::memcpy(batch->add_scratch(static_cast<uint32_t>(frame.size())).data(), frame.data(), frame.size());
  request_service(connection);
}

void IwarpTransport::take_setup_bytes(Instant now, Connection& connection) {
  MpaProgress progress = MpaProgress::kMore;
  Chain& input = connection.input.bytes();
  while (progress == MpaProgress::kMore && !input.empty()) {
    uint32_t used = 0;
    // The whole of what has come matters to a responder: nothing may be behind the Request.
    const Bytes piece = input.head()->bytes();
    progress = connection.is_passive ? connection.responder->take(piece, used) : connection.wishes->initiator.take(piece, used);
    input.trim_front(used);
    if (progress == MpaProgress::kComplete && connection.is_passive && !input.empty()) {
      progress = MpaProgress::kFailed;
      ++stats_.mpa_errors[static_cast<size_t>(MpaError::kEarlyData)];
    } else if (progress == MpaProgress::kFailed) {
      const MpaError error = connection.is_passive ? connection.responder->error() : connection.wishes->initiator.error();
      ++stats_.mpa_errors[static_cast<size_t>(error)];
    }
  }
  switch (progress) {
    case MpaProgress::kMore:
      return;
    case MpaProgress::kFailed:
      fail_setup(now, connection, IwarpDrop::kBadSetup);
      return;
    case MpaProgress::kComplete:
    case MpaProgress::kRejected:
      connection.handshake_deadline = Instant::never();
      rearm(connection);
      if (connection.is_passive) {
        connection.state = Connection::State::kAsked;
        post_event(connection, Kind::kConnectRequest);
      } else if (progress == MpaProgress::kRejected) {
        connection.wishes->refused = true;
        const auto refusal = verbs::Refusal::of_peer(connection.wishes->initiator.private_data());
        connection.rejection = refusal.value_or(verbs::Rejection{verbs::RejectReason::kOther, "mpa_reject"});
        post_event(connection, Kind::kRejected);
        release(connection, ReleaseKind::kClose);
      } else {
        start_stream(connection, connection.wishes->initiator.session(), connection.wishes->options);
        post_event(connection, Kind::kConnectResponse);
        take_input(now, connection);
      }
      return;
  }
}

// A peer that spoke MPA hears why; one that did not hears nothing.
void IwarpTransport::fail_setup(Instant now, Connection& connection, IwarpDrop drop) {
  count_drop(now, connection, drop);
  connection.handshake_deadline = Instant::never();  // the user is told once
  rearm(connection);
  if (!connection.is_passive) {
    const MpaError wrong = connection.wishes->initiator.error();
    if (drop == IwarpDrop::kBadSetup) {
      connection.rejection = {verbs::RejectReason::kOther, to_string(wrong)};
    }
    post_event(connection, drop == IwarpDrop::kBadSetup ? Kind::kRejected : Kind::kUnreachable);
    if (drop == IwarpDrop::kBadSetup && wrong == MpaError::kInsufficientIrd) {
      // RFC 6581 has a code for it. What the two have settled is settled, so that there is a stream to say it on.
      start_stream(connection, connection.wishes->initiator.session(), connection.wishes->options);
      connection.stream->refuse(TerminateCause::kMpaInsufficientIrd);
      watch_stream(now, connection);
      rearm(connection);
    } else {
      release(connection, ReleaseKind::kReset);
    }
    return;
  }
  const MpaError error = connection.responder->error();
  if (!connection.is_attached || drop != IwarpDrop::kBadSetup || error == MpaError::kKey) {
    release(connection, ReleaseKind::kReset);
    return;
  }
  std::array<uint8_t, kMpaFrameBytesMax> frame{};
  const std::string_view reason = to_string(error == MpaError::kNone ? MpaError::kEarlyData : error);
  const uint32_t size = connection.responder->reject(bytes_of(reason), frame);
  say(connection, Bytes(frame).first(size));
  begin_parting(connection);
}

verbs::ReadDepths IwarpTransport::depths(const verbs::ConnectionOptions& wanted) const {
  return {.initiator_depth = std::min(options_.ord, wanted.depths.initiator_depth),
          .responder_resources = std::min(options_.ird, wanted.depths.responder_resources)};
}

verbs::ConnectionLimits IwarpTransport::limits() const {
  return {.packet_bytes = core_.spares.pool().buffer_bytes(), .read_bytes_wanted = kReadBytesWanted};
}

void IwarpTransport::start_stream(Connection& connection, const MpaSession& session, const verbs::ConnectionOptions& wanted) {
  StreamOptions options;
  options.slot = connection.slot;
  options.send_queue_depth = options_.send_queue_depth;
  options.ird = session.ird;
  options.ord = session.ord;
  options.crc = session.crc;
  options.ulpdu_bytes_max = connection.ulpdu_bytes_max;
  options.speaks_first = !connection.is_passive;
  options.ready_by_send = session.ready == ReadyToReceive::kSend;
  options.receive_bytes_max = wanted.receive_bytes_max;
  options.exposes_memory = core_.memory != nullptr;
  options.domain = wanted.domain;
  connection.stream.emplace(options, core_, connection.output);
  connection.state = Connection::State::kStreaming;
}

Result<verbs::AcceptedConnection> IwarpTransport::accept(Instant now, verbs::ConnectionId id,
                                                         const verbs::ConnectionOptions& options) {
  Connection* connection = of_user(id);
  if (connection == nullptr || connection->state != Connection::State::kAsked || !connection->is_attached) {
    return fail(Error::kBadState);
  }
  if (open_count_ >= options_.connections_max) {
    return fail(Error::kNoResources);
  }
  std::array<uint8_t, kMpaFrameBytesMax> frame{};
  const verbs::ReadDepths bounds = depths(options);
  const uint32_t size = connection->responder->accept({.crc = options_.crc,
                                                       .ird = core_.memory != nullptr ? bounds.responder_resources : uint16_t{0},
                                                       .ord = bounds.initiator_depth,
                                                       .private_data = options.private_data},
                                                      frame);
  const MpaSession session = connection->responder->session();
  connection->context = options.context;
  start_stream(*connection, session, options);
  say(*connection, Bytes(frame).first(size));
  connection->reads_again = true;
  connection->awaits_ready = session.ready != ReadyToReceive::kNone;
  if (connection->awaits_ready) {
    // Half-open still: who never says it would hold a place of connections_max that nobody else counts or bounds.
    connection->handshake_deadline = now + options_.handshake_timeout;
    rearm(*connection);
  } else {
    become_open(*connection);
    post_event(*connection, Kind::kEstablished);
  }
  connection->responder.reset();
  return verbs::AcceptedConnection{&*connection->stream, limits()};
}

void IwarpTransport::reject(Instant now, verbs::ConnectionId id, verbs::RejectReason reason, Bytes private_data) {
  Connection* connection = of_user(id);
  if (connection == nullptr || connection->state != Connection::State::kAsked) {
    return;
  }
  connection->has_user = false;
  note(now, *connection, ConnectionEventKind::kRejected, static_cast<uint16_t>(reason));
  if (!connection->is_attached) {
    free_connection(*connection);
    return;
  }
  std::array<uint8_t, kMpaFrameBytesMax> frame{};
  const uint32_t size = connection->responder->reject(verbs::Refusal(reason, private_data).bytes(), frame);
  say(*connection, Bytes(frame).first(size));
  connection->responder.reset();
  begin_parting(*connection);
}

void IwarpTransport::notify(Instant /*now*/, verbs::ConnectionId /*connection*/) {
  // kEstablished comes with the Reply, or with the peer's first FPDU: never later than a message.
}

void IwarpTransport::note_established(Instant now, Connection& connection) {
  connection.is_established = true;
  if (connection.is_passive) {
    requests_.know(now, connection.peer);
  }
  ++stats_.established;
  ++stats_.connections;
  note(now, connection, ConnectionEventKind::kConnected);
}

void IwarpTransport::establish(Instant now, verbs::ConnectionId id) {
  Connection* connection = of_user(id);
  if (connection != nullptr && connection->state == Connection::State::kStreaming && !connection->is_established) {
    note_established(now, *connection);
    connection->wishes.reset();
  }
}

// ---- Events ----

void IwarpTransport::post_event(Connection& connection, Kind kind) {
  connection.event = kind;
  if (!connection.ListNode<EventTag>::is_linked()) {
    with_events_.push_back(connection);
  }
}

void IwarpTransport::drop_event(Connection& connection) {
  connection.event.reset();
  connection.ListNode<EventTag>::unlink_if_linked();
}

// The user may end the connection at once, and what its peer said stays until the next event.
Bytes IwarpTransport::keep_told(Bytes private_data) {
  std::ranges::copy(private_data, told_.begin());
  return Bytes(told_).first(private_data.size());
}

bool IwarpTransport::poll_event(Instant now, verbs::ConnectionEvent& out) {
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
      out.private_data = keep_told(connection->responder->private_data());
      out.depths = depths_of(*connection->responder);
      break;
    case Kind::kConnectResponse:
      out.private_data = keep_told(connection->wishes->initiator.private_data());
      out.depths = depths_of(connection->wishes->initiator);
      out.queue_pair = &*connection->stream;
      out.limits = limits();
      break;
    case Kind::kEstablished:
      note_established(now, *connection);
      break;
    case Kind::kRejected:
      out.rejection = connection->rejection;
      if (connection->wishes != nullptr && connection->wishes->refused) {
        out.private_data = keep_told(verbs::Refusal::user_data(connection->wishes->initiator.private_data()));
      }
      break;
    case Kind::kDisconnected:
      out.cause = connection->stream->error().cause == StreamErrorCause::kPeerClosed ? verbs::DisconnectCause::kPeer
                                                                                     : verbs::DisconnectCause::kTransport;
      break;
    case Kind::kUnreachable:
      break;
  }
  return true;
}

// ---- Life ----

void IwarpTransport::request_service(Connection& connection) {
  if (!connection.ListNode<ServiceTag>::is_linked()) {
    serviceable_.push_back(connection);
  }
}

void IwarpTransport::rearm(Connection& connection) {
  timers_.arm(connection, earlier(earlier(connection.handshake_deadline, connection.fpdu_deadline),
                                  earlier(connection.starved_until, connection.parting_deadline)));
}

uint32_t IwarpTransport::receive_space(Instant now, StreamId stream, std::span<MutableBytes> out) {
  Connection* connection = find(stream.value());
  // While the user decides, the peer has to wait. Behind an error what comes is of no use, but TCP has to be emptied to see the
  // end.
  if (connection == nullptr || connection->is_starved || connection->state == Connection::State::kAsked) {
    return 0;
  }
  const uint32_t room = input_room(*connection);
  if (room == 0) {
    return 0;  // grant_input() goes on
  }
  const uint32_t count = cut_to(room, out.first(connection->input.space(core_.spares, out)));
  if (count == 0) {
    ++core_.stats.out_of_buffers;
    note(now, *connection, ConnectionEventKind::kOutOfBuffers);
    connection->is_starved = true;
    connection->starved_until = now + kStarvedRetry;
    connection->fpdu_deadline = Instant::never();
    rearm(*connection);
  }
  return count;
}

void IwarpTransport::on_received(Instant now, StreamId stream, uint32_t bytes) {
  Connection* connection = find(stream.value());
  if (connection == nullptr) {
    return;
  }
  connection->input.received(core_.spares, bytes);
  take_input(now, *connection);
}

void IwarpTransport::take_input(Instant now, Connection& connection) {
  switch (connection.state) {
    case Connection::State::kRequested:
    case Connection::State::kReplying:
      take_setup_bytes(now, connection);
      return;
    case Connection::State::kStreaming:
      break;
    case Connection::State::kAsked:
    case Connection::State::kConnecting:
    case Connection::State::kParting:
      connection.input.bytes().clear();
      return;
  }
  Chain& input = connection.input.bytes();
  const uint64_t before = input.bytes();
  const bool was_starved = std::exchange(connection.is_starved, false);
  if (connection.stream->take(now, input) == RdmapStream::Taken::kStarved) {
    note(now, connection, ConnectionEventKind::kOutOfBuffers);
    connection.is_starved = true;
    connection.starved_until = now + kStarvedRetry;
  } else if (was_starved) {
    // What is to be sent may wait for a buffer as well, under the same deadline: serve() looks.
    connection.starved_until = Instant::never();
    connection.reads_again = true;
    request_service(connection);
  }
  if (input.empty() || connection.is_starved) {
    connection.fpdu_deadline = Instant::never();  // what waits for our buffers costs the peer no time
  } else if (input.bytes() < before || (connection.fpdu_deadline.is_never() && !connection.ListNode<InputTag>::is_linked())) {
    connection.fpdu_deadline = now + options_.fpdu_timeout;
  }
  reserve_input(connection, input.bytes() < before);
  watch_stream(now, connection);
  rearm(connection);
}

uint32_t IwarpTransport::input_room(const Connection& connection) {
  if (connection.ListNode<InputTag>::is_linked()) {
    return 0;
  }
  const uint64_t most = uint64_t{connection.input_reserved} + kFreeInputBytes;
  return static_cast<uint32_t>(most - std::min(most, connection.input.bytes().bytes()));
}

// A long FPDU holds its buffers from its first byte to its last, and how fast it comes is the peer's affair. So it is read when
// there is room for all of it. `is_next`: the one before has ended, and gives back what it held, so that nobody keeps a place for
// ever.
void IwarpTransport::reserve_input(Connection& connection, bool is_next) {
  const uint32_t front = RdmapStream::fpdu_bytes_at_front(connection.input.bytes());
  const bool is_long = front > kFreeInputBytes;
  const bool is_served = connection.input_reserved != 0 || connection.ListNode<InputTag>::is_linked();
  if (is_long && is_served && !is_next) {
    return;
  }
  give_input_back(connection);
  if (!is_long) {
    return;
  }
  connection.fpdu_deadline = Instant::never();  // it begins when there is room
  wait_for_input_.push_back(connection);
  grant_input();
  stats_.input_waits += connection.input_reserved == 0 ? 1 : 0;
}

void IwarpTransport::give_input_back(Connection& connection) {
  connection.ListNode<InputTag>::unlink_if_linked();
  if (connection.input_reserved != 0) {
    input_reserved_ -= std::exchange(connection.input_reserved, 0);
    grant_input();
  }
}

void IwarpTransport::grant_input() {
  while (Connection* first = wait_for_input_.front()) {
    const uint32_t wanted = RdmapStream::fpdu_bytes_at_front(first->input.bytes());
    if (input_reserved_ != 0 && input_reserved_ + wanted > options_.input_bytes_max) {
      return;
    }
    first->ListNode<InputTag>::unlink();
    first->input_reserved = wanted;
    input_reserved_ += wanted;
    first->reads_again = true;
    request_service(*first);
  }
}

// What has changed with the stream: the peer's first word, or its end.
void IwarpTransport::watch_stream(Instant now, Connection& connection) {
  if (connection.awaits_ready && connection.stream->heard_peer() && !connection.stream->in_error()) {
    connection.awaits_ready = false;
    connection.handshake_deadline = Instant::never();
    become_open(connection);
    post_event(connection, Kind::kEstablished);
  }
  if (connection.stream->in_error() && !std::exchange(connection.end_was_counted, true)) {
    ++stats_.stream_errors[static_cast<size_t>(connection.stream->error().cause)];
    note_end(now, connection);
    connection.parting_deadline = now + options_.parting_timeout;
    connection.fpdu_deadline = Instant::never();
    connection.input.bytes().clear();
    give_input_back(connection);
    connection.reads_again = true;  // until the peer's FIN
    request_service(connection);
  }
}

void IwarpTransport::on_end_of_stream(Instant now, StreamId stream) {
  Connection* connection = find(stream.value());
  if (connection == nullptr) {
    return;
  }
  connection->fin_received = true;
  switch (connection->state) {
    case Connection::State::kStreaming: {
      lose_stream(now, *connection, StreamErrorCause::kPeerClosed);
      request_service(*connection);
      rearm(*connection);
      return;
    }
    case Connection::State::kParting:
      request_service(*connection);
      return;
    case Connection::State::kRequested:
    case Connection::State::kAsked:
    case Connection::State::kConnecting:
    case Connection::State::kReplying:
      host_.release(stream, ReleaseKind::kReset);
      on_lost(now, stream, StreamErrorCause::kPeerClosed);
      return;
  }
}

void IwarpTransport::on_lost(Instant now, StreamId stream, StreamErrorCause cause) {
  Connection* connection = find(stream.value());
  if (connection == nullptr || !std::exchange(connection->is_attached, false)) {
    return;
  }
  --live_count_;
  settle_half_open(*connection);
  switch (connection->state) {
    case Connection::State::kStreaming: {
      lose_stream(now, *connection, cause);
      connection->output.drop();
      connection->input.bytes().clear();
      give_input_back(*connection);
      connection->parting_deadline = Instant::never();
      connection->fpdu_deadline = Instant::never();
      connection->handshake_deadline = Instant::never();
      connection->starved_until = Instant::never();
      rearm(*connection);
      return;
    }
    case Connection::State::kParting:
      free_connection(*connection);
      return;
    case Connection::State::kAsked:
      if (connection->has_user) {
        return;  // between poll_event() and accept(): that will say so
      }
      [[fallthrough]];
    case Connection::State::kRequested:
      count_drop(now, *connection, IwarpDrop::kLostInSetup);
      drop_event(*connection);
      free_connection(*connection);
      return;
    case Connection::State::kConnecting:
    case Connection::State::kReplying:
      count_drop(now, *connection, IwarpDrop::kLostInSetup);
      connection->handshake_deadline = Instant::never();
      rearm(*connection);
      if (connection->state == Connection::State::kReplying && cause != StreamErrorCause::kTcpTimeout) {
        connection->rejection = {verbs::RejectReason::kOther, "closed_in_setup"};
        post_event(*connection, Kind::kRejected);
      } else if (cause == StreamErrorCause::kTcpReset) {
        connection->rejection = {verbs::RejectReason::kNoListener, "connection_refused"};
        post_event(*connection, Kind::kRejected);
      } else {
        post_event(*connection, Kind::kUnreachable);
      }
      return;
  }
}

// serve() sets the deadline. The connection itself may be gone after this call.
void IwarpTransport::begin_parting(Connection& connection) {
  settle_half_open(connection);
  connection.state = Connection::State::kParting;
  connection.handshake_deadline = Instant::never();
  connection.fpdu_deadline = Instant::never();
  connection.starved_until = Instant::never();
  connection.is_starved = false;
  connection.input.bytes().clear();
  give_input_back(connection);
  connection.reads_again = true;  // the peer's FIN is behind what it has sent
  rearm(connection);
  request_service(connection);
  ++parting_count_;
  if (connection.is_established) {
    parting_.push_back(connection);
    return;
  }
  parting_strangers_.push_back(connection);
  if (++stranger_count_ > options_.parting_max) {
    release(*parting_strangers_.front(), ReleaseKind::kReset);
  }
}

void IwarpTransport::disconnect(Instant now, verbs::ConnectionId id) {
  Connection* connection = of_user(id);
  if (connection == nullptr || !connection->is_attached) {
    return;
  }
  if (connection->stream) {
    connection->stream->close();
    watch_stream(now, *connection);
    rearm(*connection);
  }
  request_service(*connection);
}

void IwarpTransport::destroy(verbs::ConnectionId id) {
  Connection* connection = of_user(id);
  if (connection == nullptr) {
    return;
  }
  connection->has_user = false;
  drop_event(*connection);
  stats_.connections -= connection->is_established ? 1 : 0;
  open_count_ -= connection->is_open ? 1 : 0;
  connection->stream.reset();
  if (!connection->is_attached) {
    free_connection(*connection);
  } else if (connection->state == Connection::State::kStreaming) {
    begin_parting(*connection);
  } else {
    release(*connection, ReleaseKind::kReset);
  }
}

bool IwarpTransport::poll_ready(verbs::ReadyQueuePair& out) {
  while (RdmapStream* stream = core_.ready.pop_front()) {
    const Connection& connection = of(*stream);
    if (connection.has_user) {
      out = {stream, connection.context};
      return true;
    }
  }
  return false;
}

uint32_t IwarpTransport::peek_ready(std::span<uint64_t> out) const {
  uint32_t count = 0;
  for (const RdmapStream* stream = core_.ready.front(); stream != nullptr && count < out.size();
       stream = core_.ready.next(*stream)) {
    const Connection& connection = *slots_[stream->options().slot].connection;
    if (connection.has_user) {
      out[count++] = connection.context;
    }
  }
  return count;
}

bool IwarpTransport::poll_sendable(Instant now, StreamId& out) {
  while (true) {
    Connection* connection = serviceable_.pop_front();
    if (connection == nullptr) {
      RdmapStream* stream = core_.sendable.pop_front();
      if (stream == nullptr) {
        return false;
      }
      connection = &of(*stream);
    }
    const StreamId id = connection->stream_id();
    if (serve(now, *connection)) {
      out = id;
      return true;
    }
  }
}

bool IwarpTransport::serve(Instant now, Connection& connection) {
  if (!connection.is_attached) {
    return false;
  }
  if (connection.stream && !connection.stream->fill()) {
    connection.starved_until = now + kStarvedRetry;
    rearm(connection);
  }
  if (connection.stream && connection.stream->in_error() && !connection.end_was_counted) {
    watch_stream(now, connection);  // closed by its user, or failed while it answered
    rearm(connection);
  }
  const bool may_read = std::exchange(connection.reads_again, false);
  if (may_read && !connection.input.bytes().empty() && connection.fpdu_deadline.is_never() && !connection.is_starved) {
    connection.fpdu_deadline = now + options_.fpdu_timeout;  // what was in the way was ours
    rearm(connection);
  }
  const bool is_over = connection.state == Connection::State::kParting || (connection.stream && connection.stream->in_error());
  if (is_over && connection.parting_deadline.is_never()) {
    connection.parting_deadline = now + options_.parting_timeout;  // also for a peer that does not read our last words
    rearm(connection);
  }
  if (!connection.output.empty()) {
    return true;
  }
  if (is_over && !std::exchange(connection.fin_sent, true)) {
    host_.finish(connection.stream_id());
  }
  if (is_over && connection.fin_received) {
    release(connection, ReleaseKind::kClose);
    return false;
  }
  return may_read;
}

uint32_t IwarpTransport::send_pieces(StreamId stream, std::span<Bytes> out) {
  const Connection* connection = find(stream.value());
  return connection == nullptr ? 0 : connection->output.pieces(out);
}

void IwarpTransport::on_written(Instant /*now*/, StreamId stream, uint64_t bytes) {
  Connection* connection = find(stream.value());
  if (connection == nullptr) {
    return;
  }
  connection->output.sent(bytes);
  if (connection->stream) {
    connection->stream->on_sent();
  }
  if (connection->output.empty()) {
    request_service(*connection);  // more, or the end
  }
}

void IwarpTransport::request_send(StreamId stream) {
  if (Connection* connection = find(stream.value())) {
    request_service(*connection);
  }
}

void IwarpTransport::on_deadline(Instant now) {
  while (TimerNode* node = timers_.pop_expired(now)) {
    on_timer(now, static_cast<Connection&>(*node));
  }
}

void IwarpTransport::on_timer(Instant now, Connection& connection) {
  if (connection.parting_deadline <= now) {
    connection.parting_deadline = Instant::never();
    rearm(connection);
    release(connection, ReleaseKind::kReset);
    return;
  }
  if (connection.starved_until <= now) {
    connection.starved_until = Instant::never();
    if (connection.is_starved && !connection.input.bytes().empty()) {
      take_input(now, connection);
    }
    if (!connection.is_starved || connection.input.bytes().empty()) {
      connection.is_starved = false;
      connection.reads_again = true;
    }
    request_service(connection);
  }
  if (connection.handshake_deadline <= now) {
    connection.handshake_deadline = Instant::never();
    if (connection.state == Connection::State::kStreaming) {
      lose_stream(now, connection, StreamErrorCause::kFpduTimeout);
    } else {
      fail_setup(now, connection, IwarpDrop::kHandshakeTimeout);
      return;
    }
  }
  if (connection.fpdu_deadline <= now) {
    connection.fpdu_deadline = Instant::never();
    lose_stream(now, connection, StreamErrorCause::kFpduTimeout);
  }
  rearm(connection);
}

// Not by a message of the peer: the user is told by an event.
void IwarpTransport::lose_stream(Instant now, Connection& connection, StreamErrorCause cause) {
  const bool is_news = !connection.stream->in_error();
  if (is_news) {
    connection.stream->on_lost(cause);
  }
  watch_stream(now, connection);  // its user may have closed it before
  if (is_news) {
    post_event(connection, connection.is_established ? Kind::kDisconnected : Kind::kUnreachable);
  }
}

uint32_t IwarpTransport::copy_log(std::span<verbs::TransportEvent> out) const {
  return log_.copy(out);
}

verbs::QueuePairInfo IwarpTransport::describe(verbs::ConnectionId id) const {
  verbs::QueuePairInfo info;
  info.wire = "iWARP";
  const Connection* connection = find(id.value());
  if (connection == nullptr || !connection->stream) {
    return info;
  }
  const RdmapStream& stream = *connection->stream;
  const StreamError& error = stream.error();
  if (error.any()) {
    const bool by_owner = error.cause == StreamErrorCause::kClosed;
    info.error = {.cause = to_string(error.cause),
                  .origin = by_owner ? "owner" : "peer",
                  .detail = error.terminate == TerminateCause::kNone ? std::string_view() : to_string(error.terminate),
                  .sequence_name = "MSN",
                  .sequence = error.message};
  }
  const TcpPath path = connection->is_attached ? host_.path(connection->stream_id()).value_or(TcpPath{}) : TcpPath{};
  const StreamCounters& counters = stream.counters();
  info.traffic = {.payload_bytes_in = counters.payload_bytes_in,
                  .payload_bytes_out = counters.payload_bytes_out,
                  .retransmits = path.retransmits,
                  .round_trip = path.round_trip};
  info.set_detail(IwarpDetail{.is_established = connection->is_established,
                              .crc = stream.options().crc,
                              .ird = stream.options().ird,
                              .ord = stream.options().ord,
                              .ulpdu_bytes_max = stream.options().ulpdu_bytes_max,
                              .reads_outstanding = stream.reads_outstanding(),
                              .reads_answering = stream.reads_answering(),
                              .works_queued = stream.works_pending(),
                              .receives_posted = stream.receives(),
                              .unsent_bytes = connection->output.made() - connection->output.left(),
                              .input_bytes = connection->input.bytes().bytes(),
                              .counters = counters,
                              .error = error,
                              .path = path},
                  stream_fields());
  return info;
}

}  // namespace cw::iwarp
