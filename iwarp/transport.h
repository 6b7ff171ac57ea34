// iWARP as the gateway and the client role see it (verbs::Transport): TCP connections that speak MPA, and then carry an RDMAP
// stream each. Without I/O: a StreamHost has the sockets.
//
//   passive: on_accepted() -> MPA Request -> kConnectRequest -> accept() -> Reply, kEstablished
//   active:  connect() -> on_connected() -> Request -> Reply -> kConnectResponse -> establish()
//
// A TCP connection has proved its peer's address before we hear of it, and nothing else: it is half-open until we answer its
// Request, or, where the peer is to say that it is ready, until it has said so. There are few half-open connections, each has a
// time limit, and each network of clients a share: the oldest of the busiest network makes room for a new one. If its user has
// accepted that one, it is told kUnreachable. What may be asked for in a second is said in base/request_rates.h.
//
// A connection that is over for its user lives on without one until what was to be said has left and the peer has said FIN, for
// a bounded time. Few of those that were never established do so: the oldest makes room. One that failed, or that its user
// closed, ends its TCP connection in the same way while its user still has it.
//
// The shell's turn: it gives what sockets have read, lets the user act, takes poll_sendable() until there is none, and calls
// on_deadline().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/intrusive_list.h"
#include "base/prefix_table.h"
#include "base/random.h"
#include "base/request_rates.h"
#include "base/timer_wheel.h"
#include "base/token_bucket.h"
#include "iwarp/connection_log.h"
#include "iwarp/mpa/setup.h"
#include "iwarp/stream/stream.h"
#include "iwarp/stream_fields.h"
#include "iwarp/stream_host.h"
#include "verbs/transport.h"

namespace cw::iwarp {

struct IwarpOptions {
  uint32_t connections_max = 64;  // half-open ones not included
  uint32_t half_open_max = 64;    // TCP connections without an MPA Request, an answer to it, or the first FPDU that it announced
  uint32_t parting_max = 256;     // connections never established that wait for their last words to leave, and the peer's FIN
  PrefixLimits prefix{.half_open_max = 48};                  // what one network of clients may have of them, and ask
  RateLimit request_rate{.per_second = 1000, .burst = 500};  // TCP connections taken
  Duration handshake_timeout = Duration::seconds(5);         // for the Request, or the Reply; then for the first FPDU
  Duration fpdu_timeout = Duration::seconds(10);             // for an FPDU that has begun
  Duration parting_timeout = Duration::seconds(2);           // for our last words, and the peer's FIN
  // Bytes of FPDUs that have begun, over all connections. Beyond, a long FPDU waits until others have ended; one is always taken.
  uint64_t input_bytes_max = 4u << 20;
  bool crc = true;    // asked for; a peer that asks has it anyway
  uint16_t ird = 16;  // READs of the peer that we answer at a time: active side
  uint16_t ord = 32;  // READs of ours at a time, at most
  uint16_t send_queue_depth = 256;
  uint32_t fpdu_bytes_max = 0xffff;  // of FPDUs that we make, whatever the MSS
  uint32_t send_work_max = 16384;    // of all streams
  uint32_t receive_work_max = 16384;
};

enum class IwarpDrop : uint8_t {
  kRate,              // TCP connections beyond request_rate
  kPrefixRate,        // beyond what its network may ask
  kNoRoom,            // as many connections as there may be
  kNoListener,        // for the port that was called
  kPrefixHalfOpen,    // evicted for a newer one of its network
  kHalfOpen,          // evicted for a newer one of another network
  kHandshakeTimeout,  // no complete Request, or Reply
  kBadSetup,          // by_mpa_error says why
  kLostInSetup,       // the peer went away
  kNoBuffers,         // for the Reply
  kCount
};
inline constexpr uint32_t kIwarpDropCount = static_cast<uint32_t>(IwarpDrop::kCount);
[[nodiscard]] std::string_view to_string(IwarpDrop drop) noexcept;

struct IwarpStats {
  uint64_t accepted = 0;     // TCP connections
  uint64_t established = 0;  // of both sides
  uint64_t connections = 0;  // gauge: of these, those that their users have
  uint64_t input_waits = 0;  // FPDUs that waited for others to end
  std::array<uint64_t, kIwarpDropCount> drops{};
  std::array<uint64_t, kMpaErrorCount> mpa_errors{};
  std::array<uint64_t, kStreamErrorCauseCount> stream_errors{};  // why streams have ended
};

class IwarpTransport final : public verbs::Transport {
 public:
  // All references outlive the transport. `memory`: what peers may touch, of the domain that connect() or accept() says;
  // nullptr, as in the gateway, exposes nothing.
  IwarpTransport(const IwarpOptions& options, StreamHost& host, BufferPool& pool, RandomSource& random,
                 verbs::MemoryTable* memory = nullptr);
  ~IwarpTransport() override;
  IwarpTransport(const IwarpTransport&) = delete;
  IwarpTransport& operator=(const IwarpTransport&) = delete;

  // verbs::Transport
  [[nodiscard]] Status listen(uint16_t port) override;
  void unlisten(uint16_t port) override;
  [[nodiscard]] bool has_events() const override { return !with_events_.empty(); }
  [[nodiscard]] bool poll_event(Instant now, verbs::ConnectionEvent& out) override;
  [[nodiscard]] Result<verbs::AcceptedConnection> accept(Instant now, verbs::ConnectionId connection,
                                                         const verbs::ConnectionOptions& options) override;
  void reject(Instant now, verbs::ConnectionId connection, verbs::RejectReason reason, Bytes private_data) override;
  void notify(Instant now, verbs::ConnectionId connection) override;
  [[nodiscard]] Result<verbs::ConnectionId> connect(Instant now, const IpAddress& server, uint16_t port,
                                                    const verbs::ConnectionOptions& options) override;
  void establish(Instant now, verbs::ConnectionId connection) override;
  void disconnect(Instant now, verbs::ConnectionId connection) override;
  void destroy(verbs::ConnectionId connection) override;
  [[nodiscard]] bool poll_ready(verbs::ReadyQueuePair& out) override;
  [[nodiscard]] uint32_t peek_ready(std::span<uint64_t> out) const override;
  [[nodiscard]] verbs::QueuePairInfo describe(verbs::ConnectionId connection) const override;
  [[nodiscard]] uint32_t live_count() const override { return live_count_; }
  [[nodiscard]] uint32_t log_capacity() const override { return log_.capacity(); }
  [[nodiscard]] uint32_t copy_log(std::span<verbs::TransportEvent> out) const override;
  [[nodiscard]] Instant next_deadline() const override { return timers_.next_deadline(); }
  void on_deadline(Instant now) override;

  // For connections to come: what they ask for, and how long they may take. Sizes and rates stay.
  void reconfigure(const IwarpOptions& fresh);

  // The host's side. `mss_bytes`: what one TCP segment carries.
  // nullopt: refused, the host resets it.
  [[nodiscard]] std::optional<StreamId> on_accepted(Instant now, const IpAddress& peer, uint16_t peer_port,
                                                    uint16_t listener_port, uint32_t mss_bytes);
  void on_connected(Instant now, StreamId stream, uint32_t mss_bytes);
  // The connection is gone; the id is dead for the host.
  void on_lost(Instant now, StreamId stream, StreamErrorCause cause);
  // The peer has ended its half: FIN.
  void on_end_of_stream(Instant now, StreamId stream);
  // Where the next bytes of the peer go. 0: do not read now; poll_sendable() brings the stream up again when it may be read.
  [[nodiscard]] uint32_t receive_space(Instant now, StreamId stream, std::span<MutableBytes> out);
  // So many bytes were written there.
  void on_received(Instant now, StreamId stream, uint32_t bytes);
  // A stream with something to write, or whose reading may go on; each once until the next news.
  [[nodiscard]] bool poll_sendable(Instant now, StreamId& out);
  // What is to be written next, as far as `out` reaches; the same until on_written().
  [[nodiscard]] uint32_t send_pieces(StreamId stream, std::span<Bytes> out);
  void on_written(Instant now, StreamId stream, uint64_t bytes);
  // It had its share of the turn, and there may be more: poll_sendable() gives it again.
  void request_send(StreamId stream);

  [[nodiscard]] const StreamStats& stream_stats() const { return core_.stats; }
  [[nodiscard]] const IwarpStats& stats() const { return stats_; }
  [[nodiscard]] TcpStats tcp_stats() const { return host_.look_at_tcp(); }
  [[nodiscard]] uint32_t half_open_count() const { return half_open_count_; }
  // Of connections without a user that are not over yet, and of those that were never established.
  [[nodiscard]] uint32_t parting_count() const { return parting_count_; }
  [[nodiscard]] uint32_t parting_stranger_count() const { return stranger_count_; }
  // Buffers of the pool that wait for the next read of any connection.
  [[nodiscard]] uint32_t spare_buffer_count() const { return core_.spares.count(); }

 private:
  class Connection;
  struct EventTag {};
  struct HalfOpenTag {};
  struct PartingTag {};
  struct ServiceTag {};
  struct InputTag {};
  struct Slot {
    Connection* connection = nullptr;
    uint32_t generation = 0;
  };

  [[nodiscard]] Connection* take_connection(Instant now);
  void free_connection(Connection& connection);
  [[nodiscard]] Connection* find(uint64_t id);
  [[nodiscard]] const Connection* find(uint64_t id) const;
  // Of an id that the user holds.
  [[nodiscard]] Connection* of_user(verbs::ConnectionId id);
  [[nodiscard]] Connection& of(RdmapStream& stream);

  // Set-up
  void note(Instant now, const Connection& connection, ConnectionEventKind kind, uint16_t detail = 0, uint32_t sequence = 0);
  void note_established(Instant now, Connection& connection);
  void note_end(Instant now, const Connection& connection);
  void count_drop(Instant now, const Connection& connection, IwarpDrop drop);
  void evict_oldest(Instant now, PrefixTable::Index prefix, IwarpDrop drop);
  void evict(Instant now, Connection& connection, IwarpDrop drop);
  void settle_half_open(Connection& connection);
  void become_open(Connection& connection);
  void take_setup_bytes(Instant now, Connection& connection);
  void fail_setup(Instant now, Connection& connection, IwarpDrop drop);
  void start_stream(Connection& connection, const MpaSession& session, const verbs::ConnectionOptions& wanted);
  void say(Connection& connection, Bytes frame);
  [[nodiscard]] verbs::ConnectionLimits limits() const;
  // Of our options, and of what the user wants.
  [[nodiscard]] verbs::ReadDepths depths(const verbs::ConnectionOptions& wanted) const;

  // Life
  void take_input(Instant now, Connection& connection);
  // Bytes that may be read now.
  [[nodiscard]] static uint32_t input_room(const Connection& connection);
  void reserve_input(Connection& connection, bool is_next);
  void give_input_back(Connection& connection);
  void grant_input();
  void watch_stream(Instant now, Connection& connection);
  void lose_stream(Instant now, Connection& connection, StreamErrorCause cause);
  // Whether the host has to look at it.
  [[nodiscard]] bool serve(Instant now, Connection& connection);
  void post_event(Connection& connection, verbs::ConnectionEvent::Kind kind);
  void drop_event(Connection& connection);
  [[nodiscard]] Bytes keep_told(Bytes private_data);
  void begin_parting(Connection& connection);
  void release(Connection& connection, ReleaseKind kind);
  void request_service(Connection& connection);
  void rearm(Connection& connection);
  void on_timer(Instant now, Connection& connection);

  IwarpOptions options_;
  StreamHost& host_;
  StreamCore core_;
  ConnectionLog log_;
  RequestRates requests_;
  PrefixTable prefixes_;
  TimerWheel timers_;
  Slab<Connection> connections_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<uint16_t> ports_;
  IntrusiveList<Connection, EventTag> with_events_;
  IntrusiveList<Connection, HalfOpenTag> half_open_;  // the oldest first
  // Without a user, the oldest first. Those that were never established have a bound, and make room for others before the rest.
  IntrusiveList<Connection, PartingTag> parting_;
  IntrusiveList<Connection, PartingTag> parting_strangers_;
  IntrusiveList<Connection, ServiceTag> serviceable_;
  IntrusiveList<Connection, InputTag> wait_for_input_;  // until there is room for the FPDU that has begun, the first first
  uint64_t input_reserved_ = 0;
  std::array<uint8_t, kMpaPrivateDataBytesMax> told_{};  // the private data of the event that was polled last
  uint32_t half_open_count_ = 0;
  uint32_t parting_count_ = 0;   // of both lists
  uint32_t stranger_count_ = 0;  // of parting_strangers_
  uint32_t open_count_ = 0;      // accepted and not half-open any more, or connected; with a user
  uint32_t live_count_ = 0;
  IwarpStats stats_;
};

}  // namespace cw::iwarp
