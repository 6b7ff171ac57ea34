// The InfiniBand communication manager (IBA chapter 12) as an object without I/O: it takes 256-byte MADs and a time, and gives
// back MADs, events and a deadline. Both roles; one object serves any number of ports and addresses.
//
// What it owns: communication ids, transaction ids, repetition, duplicates, half-open and dead connections, rate limits. What it
// does not: queue pairs. The user makes them when a ConnectRequest or ConnectReply arrives and destroys them at the ending event.
//
// Hostile peers. QP 1 has a public Q_Key, so anybody can send; nothing is believed. A message moves a connection only if both
// communication ids (random, 32 bits each) and the path it came over are those of the connection. A message that names no
// connection on its path is answered the same way whether such a connection exists elsewhere or not. No datagram causes more than
// one answer, answers and new requests are rate-limited, and everything is allocated at construction.
//
// A peer that restarts. Its first REQ comes from the same address and often with the same QPN as a connection that we still
// hold, under a new communication id. The new request is served at once, where the kernel's CM would first reject it as stale and
// let the peer try again after a pause; the old connection ends (kSuperseded) when the new one is established. Not before: an RTU
// names our random communication id, which went to the peer's address, while a REQ with that address and a guessed QPN can come
// from anybody. A REQ ends nothing but, where there is no room, the oldest connection that waits for the answer to our DREQ, else
// the oldest half-open one of the network that has the most of them (kEvicted): a flood pushes out itself.
//
// A gateway that restarts knows no connection: DREQs are answered by DREP, so that peers finish their teardown quickly, and REPs
// by REJ, so that they do not wait for an RTU.
//
// Thread: all calls from one. `now` never goes back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/intrusive_list.h"
#include "base/prefix_table.h"
#include "base/random.h"
#include "base/request_rates.h"
#include "base/result.h"
#include "base/ring.h"
#include "base/slab.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "base/token_bucket.h"
#include "control/cm/cm_address.h"
#include "control/cm/cm_event.h"
#include "control/cm/cm_options.h"
#include "control/cm/cm_stats.h"
#include "control/cm/connect_parameters.h"
#include "control/cm/connection_state.h"
#include "control/cm/connection_table.h"
#include "control/cm/reject_reason.h"
#include "control/cm/service_id.h"
#include "control/cm/wire/mad.h"
#include "control/cm/wire/rej.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/req.h"

namespace cw::cm {

// What both ends of an established connection know of it.
struct EstablishedState {
  CmAddress address;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  verbs::Qpn local_qpn;
  verbs::Qpn remote_qpn;
  uint64_t transaction_id = 0;       // of our DREQ
  uint64_t peer_transaction_id = 0;  // of the REQ or REP that it was made with
  bool passive = false;
  uint8_t ack_timeout_code = 0;
};

class ConnectionManager {
 public:
  // `random` must be a CSPRNG in production and outlive the manager.
  ConnectionManager(const CmOptions& options, RandomSource& random);
  ~ConnectionManager();  // says nothing to peers: disconnect() first where that matters
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // Requests for `service` become ConnectRequest events; for anything else they are rejected with kInvalidServiceId, as a TCP
  // port without listener resets. Listening twice is fine. kLimit: CmOptions::service_max are listening.
  [[nodiscard]] Status listen(ServiceId service);
  // Stops new requests; connections stay as they are.
  void unlisten(ServiceId service);

  // A MAD from the GSI. Never fails: what is not acted upon is counted.
  void on_mad(Instant now, const CmAddress& from, std::span<const uint8_t, kMadSize> mad);
  // Takes out one datagram to send; false when there is none.
  [[nodiscard]] bool poll_transmit(CmDatagram& out);
  [[nodiscard]] bool has_events() const { return !events_.empty(); }
  // Takes out one event; false when there is none.
  [[nodiscard]] bool poll_event(CmEvent& out);
  // on_deadline() has nothing to do before this instant; never() when nothing waits.
  [[nodiscard]] Instant next_deadline() const;
  void on_deadline(Instant now);

  // Passive. Each needs a connection whose ConnectRequest was polled and that is still undecided, else kBadState (the peer may
  // have given up meanwhile; its ending event is on its way or was polled).

  // Sends REP, until RTU, REJ, data or the end of the attempt. kLimit: the private data is too long.
  Status accept(Instant now, ConnectionId connection, const AcceptParameters& parameters);
  // Sends REJ and forgets the connection; a repeated REQ is answered by the same REJ. No event follows. kLimit as above
  // (kRejPrivateDataSize).
  Status reject(Instant now, ConnectionId connection, RejectReason reason, Bytes private_data = {});
  // Sends MRA: asks the peer to wait up to `service_time` more, and gives the user decision_max from now. For decisions that take
  // longer than a second or two, such as a backend that is slow to connect; a quick one needs none.
  Status delay(Instant now, ConnectionId connection, Duration service_time);
  // A hint of the queue pair: the first packet from the peer arrived. Counts as the RTU if that is missing, else does nothing.
  // Also right for connections that ended meanwhile.
  void data_arrived(Instant now, ConnectionId connection);

  // Active. Sends REQ. kBadValue: addresses of two families, bad MTU. kLimit: private data too long. kNoResources: table full.
  [[nodiscard]] Result<ConnectionId> connect(Instant now, const CmAddress& to, ServiceId service,
                                             const ConnectParameters& parameters);
  // Answers a ConnectReply: our queue pair is ready to send and receive. Sends RTU; the connection is established. No event
  // follows. It is not sent by itself on REP, so that the peer never sends into a queue pair that is not ready yet.
  Status ready(Instant now, ConnectionId connection);

  // Both. Ends a connection in any state: DREQ where it was established, else REJ. Exactly one ending event follows, unless one
  // is there already. The queue pair may be destroyed before that event.
  void disconnect(Instant now, ConnectionId connection);

  // A process that is followed by another one takes leave of nobody: what the next one has to know of an established connection,
  // nullopt of any other. The connection is forgotten here with forget(), without a word to the peer and without an event.
  [[nodiscard]] std::optional<EstablishedState> saved(ConnectionId connection);
  void forget(ConnectionId connection);
  // In the next process, before it has connections of its own. kNoResources: no room, or its communication id is in use or
  // no id of this core's.
  [[nodiscard]] Result<ConnectionId> resume(const EstablishedState& state);

  [[nodiscard]] const CmStats& stats() const { return stats_; }
  // Connections that have not ended; half-open ones included.
  [[nodiscard]] uint32_t live_count() const { return live_count_; }
  [[nodiscard]] uint32_t half_open_count() const { return half_open_count_; }
  // Remembered dead connections.
  [[nodiscard]] uint32_t timewait_count() const { return timewait_count_; }
  // ConnectionState::kIdle for ids that are not remembered any more.
  [[nodiscard]] ConnectionState state_of(ConnectionId connection);
  // The invariants of the tables; slow, for tests and simulation.
  [[nodiscard]] bool is_consistent() const;

 private:
  struct Arrival {
    Instant now;
    const CmAddress& from;
    uint64_t transaction_id;
    Bytes message;
  };
  // What a message named by its communication ids, or why it does not count.
  struct Match {
    Connection* connection;
    CmDrop drop;
  };

  // Messages (connection_manager_receive.cc, connection_manager_request.cc)
  void on_message(const Arrival& arrival, MessageType type);
  void on_req(const Arrival& arrival);
  void on_duplicate_req(const Arrival& arrival, const Req& req, Connection& connection);
  void on_rep(const Arrival& arrival);
  void on_rtu(const Arrival& arrival);
  void on_mra(const Arrival& arrival);
  void on_rej(const Arrival& arrival);
  void on_dreq(const Arrival& arrival);
  void on_drep(const Arrival& arrival);
  void on_lap(const Arrival& arrival);
  void on_sidr_req(const Arrival& arrival);
  // Why one more request cannot be looked at; kCount when it can, and then it is taken from the budgets.
  [[nodiscard]] std::optional<RejectReason> judge(const CmAddress& from, const Req& req) const;
  void take_in(const Arrival& arrival, const Req& req, Connection& connection, PrefixTable::Index prefix,
               const Connection* rival);
  void take_reply(const Arrival& arrival, const Rep& rep, Connection& connection);
  [[nodiscard]] Match match(const CmAddress& from, uint32_t our_comm_id, uint32_t peer_comm_id);
  [[nodiscard]] Match match_rejected(const CmAddress& from, const Rej& rej);
  // The row for `input`, or nullptr after counting why there is none or why nothing more is to be done (duplicates).
  [[nodiscard]] const Transition* step(Connection& connection, ConnectionInput input, MessageType type);

  // Sending (connection_manager_send.cc)
  template <typename Message>
  bool send(const CmAddress& to, uint64_t transaction_id, const Message& message);
  // Also keeps it, to be sent again.
  template <typename Message>
  void send_and_keep(Connection& connection, uint64_t transaction_id, const Message& message);
  bool enqueue(const CmAddress& to, const Mad& mad);
  // To a peer that is owed nothing: only while answer_rate lasts.
  template <typename Message>
  void answer(const Arrival& arrival, const Message& message);
  // The same for a datagram that counts as dropped whether it is answered or not.
  template <typename Message>
  void drop_and_answer(const Arrival& arrival, CmDrop reason, const Message& message);
  void answer_again(Instant now, Connection& connection);
  void send_kept(Connection& connection);
  [[nodiscard]] static MessageType type_of_kept(const Connection& connection);
  // Why nothing can be answered now; kCount when it can, and then the answer is taken from the budgets.
  [[nodiscard]] CmDrop take_answer(Instant now, const CmAddress& to);
  void refuse(const Arrival& arrival, RejectReason reason, AboutMessage about, uint32_t our_comm_id, uint32_t peer_comm_id);
  void send_rej(Connection& connection, RejectReason reason, Bytes private_data);

  // Life of a connection (connection_manager_life.cc)
  [[nodiscard]] Connection* admit();
  // Gives the Handshake back when nothing needs it any more.
  void trim(Connection& connection);
  void release_handshake(Connection& connection);
  void set_state(Connection& connection, ConnectionState next);
  void repeat_until(Instant now, Connection& connection, Duration wait);
  void wait_until(Connection& connection, Instant give_up_at);
  void on_timer(Instant now, Connection& connection);
  void repeat(Instant now, Connection& connection);
  void give_up(Instant now, Connection& connection);
  void establish(Instant now, Connection& connection);
  void supersede(Instant now, Connection& connection);
  void evict(Instant now, Connection& connection);
  // The oldest of the network that has the most of them. Precondition: there is one.
  void evict_half_open(Instant now);
  // Takes the place of a connection that counts for less than a new request; false when there is none.
  bool make_room(Instant now);
  void end(Instant now, Connection& connection, CmOutcome outcome);
  template <typename Detail>
  void end(Instant now, Connection& connection, CmOutcome outcome, const Detail& detail);
  void release(Connection& connection);
  template <typename Detail>
  void post(Connection& connection, const Detail& detail);
  void drop(CmDrop reason) { ++stats_.drops[static_cast<size_t>(reason)]; }

  const CmOptions options_;
  CmStats stats_;
  ConnectionTable table_;
  Slab<Handshake> handshakes_;
  TimerWheel timers_;
  RequestRates request_rates_;
  TokenBucket answer_bucket_;
  PrefixTable prefixes_;
  std::vector<ServiceId> services_;  // at most service_max
  Ring<CmDatagram> transmit_queue_;
  IntrusiveList<Connection, PendingEventTag> events_;
  IntrusiveList<Connection, TimewaitTag> timewaits_;  // oldest first; only those whose events have been polled
  // Who has to go when there is no room, oldest first: half-open connections by PrefixTable::Index, and those that wait for DREP.
  std::vector<IntrusiveList<Connection, EvictionTag>> half_open_;
  IntrusiveList<Connection, EvictionTag> closing_;
  uint32_t live_count_ = 0;
  uint32_t half_open_count_ = 0;
  uint32_t timewait_count_ = 0;
};

}  // namespace cw::cm
