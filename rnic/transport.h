// RNICs, and whatever else libibverbs drives, as the gateway sees them (verbs::Transport): rdma-core makes the connections, the
// device carries them, and no packet is seen here. Without I/O: an RnicHost has rdma-core.
//
//   passive: on_request() -> kConnectRequest -> accept() -> answer -> on_established(), kEstablished
//   active:  connect() -> on_address_resolved() -> on_route_resolved() -> queue pair, request -> on_connected(), kConnectResponse
//            -> establish()
//
// The connection manager tells its events and the device its completions on separate ways, in whatever order: the first message
// comes before on_established(), work is flushed before anybody says why, the peer leaves before it was established.
//
// What was posted in a turn, and the answer to a connection request, or our own, leave with flush(): so they go out behind the
// receive that the peer's first message needs. Of a connection that we ask for a few are posted before its user has it.
//
// Each step of connect() has a deadline of ours, whatever rdma-core does, and a place of connections_max is taken from the first
// one on. Memory is exposed on the active side alone, and where there is an RnicMemory.
//
// The shell's turn: it tells what the device and the connection manager have, lets the user act, calls flush(), and
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
#include "base/slab.h"
#include "base/timer_wheel.h"
#include "base/token_bucket.h"
#include "rnic/rnic_core.h"
#include "rnic/rnic_error.h"
#include "rnic/rnic_host.h"
#include "rnic/rnic_log.h"
#include "rnic/rnic_memory.h"
#include "rnic/rnic_queue_pair.h"
#include "verbs/refusal.h"
#include "verbs/transport.h"

namespace cw::rnic {

struct RnicOptions {
  uint32_t connections_max = 64;  // half-open ones not included; of the active side those that are being made are
  // Requests that are not established, whether they were answered or not. With those that were, queue pairs that nobody has
  // proved to want: rdma-core wants them before it answers.
  uint32_t half_open_max = 64;
  uint32_t parting_max = 256;  // connections without a user whose peers do not know yet that they are over
  PrefixLimits prefix{.half_open_max = 48};
  RateLimit request_rate{.per_second = 1000, .burst = 500};
  // From our answer until the connection is established, and from our request until it is answered.
  Duration handshake_timeout = Duration::seconds(5);
  Duration resolve_timeout = Duration::seconds(5);  // active side: of the server's address, and of the way to it, each
  Duration parting_timeout = Duration::seconds(2);
  // How long the connection manager may take to say why work was flushed.
  Duration flush_patience = Duration::ms(50);
  Duration keepalive = Duration::seconds(30);  // an idle peer is asked after so long whether it is there; zero: never
  // How long it may take to answer. Longer than most devices try, so that they say what is wrong.
  Duration keepalive_patience = Duration::seconds(30);
  uint16_t reads_max = 16;          // READs of ours at a time, at most
  uint16_t reads_of_peer_max = 16;  // READs of the peer that the device answers at a time, where memory is exposed
  uint32_t send_queue_depth = 256;
  uint32_t receive_queue_depth = 128;  // messages that one connection may have receives for; more wait
  uint32_t inline_bytes = 128;         // asked for; the device may have less
};

enum class RnicDrop : uint8_t {
  kRate,              // requests beyond request_rate
  kPrefixRate,        // beyond what its network may ask
  kNoRoom,            // as many requests or connections as there may be
  kNoListener,        // for the port that was called
  kPrefixHalfOpen,    // evicted for a newer one of its network
  kHalfOpen,          // evicted for a newer one of another network
  kHandshakeTimeout,  // not established in time
  kNoQueuePair,       // the device has none, or no room for completions
  kPieces,            // a message of the agreed length takes more pieces than the device has for a receive
  kAnswerFailed,      // rdma-core did not take our answer
  kLostInSetup,       // the peer went away, or rejected our answer
  kCount
};
inline constexpr uint32_t kRnicDropCount = static_cast<uint32_t>(RnicDrop::kCount);
[[nodiscard]] std::string_view to_string(RnicDrop drop) noexcept;

struct RnicStats {
  uint64_t requests = 0;
  uint64_t established = 0;
  uint64_t connections = 0;  // gauge: of these, those that their users have
  uint64_t exposed = 0;      // gauge: of those, the ones of which the device does not say that no memory is exposed
  uint64_t early = 0;        // whose first message came before they were established
  std::array<uint64_t, kRnicDropCount> drops{};
  std::array<uint64_t, kConnectFailureCount> connect_failures{};  // of the active side
  std::array<uint64_t, kRnicErrorCauseCount> errors{};            // why queue pairs have ended
  std::array<uint64_t, kDeviceEventCount> device_events{};
};

class RnicTransport final : public verbs::Transport {
 public:
  // All references outlive the transport. `memory`: where what peers may touch is registered, of the domain that connect() says;
  // nullptr, as in the gateway, exposes nothing.
  RnicTransport(const RnicOptions& options, RnicHost& host, BufferPool& pool, RandomSource& random, RnicMemory* memory = nullptr);
  ~RnicTransport() override;
  RnicTransport(const RnicTransport&) = delete;
  RnicTransport& operator=(const RnicTransport&) = delete;

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

  // For connections to come. Sizes and rates stay.
  void reconfigure(const RnicOptions& fresh);

  // The host's side: events of the connection manager.
  // nullopt: refused, the host rejects it.
  [[nodiscard]] std::optional<RnicId> on_request(Instant now, const RnicRequest& request);
  void on_established(Instant now, RnicId connection);
  // The peer has taken leave, or has taken note of ours.
  void on_disconnected(Instant now, RnicId connection);
  // Passive: it was not made: rejected by the peer, not answered, or the connection manager's own failure.
  void on_failed(Instant now, RnicId connection);
  // Active: what has become of resolve_address(), resolve_route() and connect().
  void on_address_resolved(Instant now, RnicId connection);
  void on_route_resolved(Instant now, RnicId connection);
  void on_connected(Instant now, RnicId connection, const RnicResponse& response);
  // `by_wire`: what the wire says of the reason; the peer's private data may say more.
  void on_rejected(Instant now, RnicId connection, const verbs::Rejection& by_wire, Bytes private_data);
  void on_not_connected(Instant now, RnicId connection, ConnectFailure failure);
  // Nothing more comes of a connection that has ended.
  void on_parted(Instant now, RnicId connection);
  // The device's events, of a queue pair or of what more than one may have: a port, a completion queue, the device. Each is told
  // once, whoever it concerns, and is counted here.
  void on_queue_pair_event(Instant now, RnicId connection, DeviceEvent event);
  void on_device_event(Instant now, DeviceEvent event);
  // on_device_event() has told what has failed: its completion queue, or its device.
  void on_device_failed(Instant now, RnicId connection, DeviceEvent event);
  // Likewise, the device goes: nothing may refer to it when this returns.
  void on_device_removed(Instant now, RnicId connection);
  void on_completion(Instant now, const WorkDone& done);
  // Gives the device and the peers what the turn has brought. True when there was something.
  bool flush(Instant now);

  [[nodiscard]] const RnicWorkStats& work_stats() const { return core_.stats; }
  [[nodiscard]] const RnicStats& stats() const { return stats_; }
  [[nodiscard]] uint32_t half_open_count() const { return half_open_count_; }
  [[nodiscard]] uint32_t parting_count() const { return parting_count_; }

 private:
  class Connection;
  struct EventTag {};
  struct HalfOpenTag {};
  struct PartingTag {};
  struct AnswerTag {};
  struct Slot {
    Connection* connection = nullptr;
    uint32_t generation = 0;
  };

  [[nodiscard]] Connection* take_connection();
  void free_connection(Connection& connection);
  [[nodiscard]] Connection* find(uint64_t id);
  [[nodiscard]] const Connection* find(uint64_t id) const;
  [[nodiscard]] Connection* of_user(verbs::ConnectionId id);

  // Set-up
  void note(Instant now, const Connection& connection, RnicEventKind kind, uint16_t detail = 0);
  void count_drop(Instant now, const Connection& connection, RnicDrop drop);
  void evict_oldest(Instant now, PrefixTable::Index prefix, RnicDrop drop);
  void settle_half_open(Connection& connection);
  void refuse(Connection& connection, const verbs::Refusal& refusal);
  void fail_setup(Instant now, Connection& connection, RnicDrop drop);
  void fail_connect(Instant now, Connection& connection, ConnectFailure failure);
  void end_connect(Instant now, Connection& connection, ConnectFailure failure, const verbs::Rejection& rejection);
  [[nodiscard]] std::optional<RnicDrop> make_queue_pair(Connection& connection);
  void ask(Instant now, Connection& connection);
  void answer(Instant now, Connection& connection);
  void become_established(Instant now, Connection& connection);
  void note_established(Instant now, Connection& connection);
  [[nodiscard]] verbs::ConnectionLimits limits() const;

  // Life
  void lose(Instant now, Connection& connection, const RnicError& error);
  void note_end(Instant now, Connection& connection);
  void post_event(Connection& connection, verbs::ConnectionEvent::Kind kind);
  void drop_event(Connection& connection);
  [[nodiscard]] Bytes keep_told(Bytes private_data);
  void say_goodbye(Connection& connection);
  void destroy_at_host(Connection& connection);
  void drop_queue_pair(Connection& connection);
  void begin_parting(Connection& connection);
  void release(Connection& connection);
  void rearm(Connection& connection);
  void watch_peer(Instant now, Connection& connection);
  void on_timer(Instant now, Connection& connection);

  RnicOptions options_;
  RnicHost& host_;
  RnicMemory* memory_;
  RnicCore core_;
  RnicLog log_;
  RequestRates requests_;
  PrefixTable prefixes_;
  TimerWheel timers_;
  Slab<Connection> connections_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<uint16_t> ports_;
  IntrusiveList<Connection, EventTag> with_events_;
  IntrusiveList<Connection, HalfOpenTag> half_open_;  // the oldest first
  IntrusiveList<Connection, PartingTag> parting_;     // the oldest first
  IntrusiveList<Connection, AnswerTag> to_answer_;
  std::array<uint8_t, 256> told_{};  // the private data of the event that was polled last
  uint32_t half_open_count_ = 0;
  uint32_t parting_count_ = 0;
  uint32_t open_count_ = 0;  // established, or asked for by us, with a user
  uint32_t live_count_ = 0;
  Instant now_;  // of the last call that said it: destroy() does not
  RnicStats stats_;
};

}  // namespace cw::rnic
