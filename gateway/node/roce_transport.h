// RoCEv2 as the gateway and the client role see it (verbs::Transport): the connection manager and the queue pairs of a Node. What
// only this wire has is decided here: path MTU, PSNs, retries and timeouts, UDP source ports, and whether two of our kind recover
// lost packets selectively.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/fixed_map.h"
#include "base/timer_wheel.h"
#include "gateway/node/causeway_offer.h"
#include "gateway/node/node.h"
#include "rocev2/rc/rc_options.h"
#include "verbs/transport.h"

namespace cw::node {

struct RoceOptions {
  uint32_t connections_max = 64;  // half-open ones included
  // receive_bytes_max and user_data are set for each connection; on the active side also remote access and domain.
  rc::RcOptions rc;
  // Passive side
  uint8_t retry_count = 7;             // 0..7; a client that asks for less gets less
  uint8_t rnr_retry_count = 7;         // the same; 7 = without end
  uint8_t target_ack_delay_code = 12;  // how long we may sit on an ACK, as the client is told: 17 ms, a busy core's worst
  uint8_t ack_timeout_min_code = 14;   // what the client asks for counts, but not below this: 67 ms
  // Active side
  uint32_t path_mtu_bytes = 4096;  // 256, 512, 1024, 2048 or 4096: must fit both ports
  uint8_t ack_timeout = 14;
  Duration resolve_timeout = Duration::seconds(5);  // of the server's hardware address
};

class RoceTransport final : public verbs::Transport {
 public:
  // All references must outlive the transport, which ends the queue pairs that are left.
  RoceTransport(const RoceOptions& options, Node& node, RandomSource& random);
  ~RoceTransport() override;
  RoceTransport(const RoceTransport&) = delete;
  RoceTransport& operator=(const RoceTransport&) = delete;

  // For connections that begin from now on. connections_max stays.
  void reconfigure(const RoceOptions& fresh);

  [[nodiscard]] Status listen(uint16_t port) override;
  void unlisten(uint16_t port) override;
  [[nodiscard]] bool has_events() const override { return !own_events_.empty() || node_.cm().has_events(); }
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
  [[nodiscard]] bool pause(verbs::ConnectionId connection) override;
  [[nodiscard]] bool save(verbs::ConnectionId connection, std::vector<uint8_t>& out) override;
  [[nodiscard]] Result<verbs::ResumedConnection> resume(Instant now, Bytes saved,
                                                        const verbs::ConnectionOptions& options) override;
  [[nodiscard]] bool poll_ready(verbs::ReadyQueuePair& out) override;
  [[nodiscard]] uint32_t peek_ready(std::span<uint64_t> out) const override;
  [[nodiscard]] verbs::QueuePairInfo describe(verbs::ConnectionId connection) const override;
  [[nodiscard]] uint32_t log_capacity() const override;
  [[nodiscard]] uint32_t copy_log(std::span<verbs::TransportEvent> out) const override;
  [[nodiscard]] uint32_t live_count() const override { return node_.cm().live_count(); }
  [[nodiscard]] Instant next_deadline() const override { return timers_.next_deadline(); }
  void on_deadline(Instant now) override;

 private:
  struct Attempt;
  // One connection from its request, or connect(), to destroy().
  struct Record {
    uint32_t generation = 0;
    bool in_use = false;
    verbs::Qpn remote_qpn;
    cm::ConnectionId cm_id;
    cm::CmAddress address;
    rc::RcQp* qp = nullptr;
    uint64_t context = 0;
    std::unique_ptr<Attempt> attempt;  // active side, until establish()
  };

  [[nodiscard]] Record* take_record();
  void release(Record& record);
  [[nodiscard]] Record* find(verbs::ConnectionId connection);
  [[nodiscard]] const Record* find(verbs::ConnectionId connection) const;
  [[nodiscard]] Record* find(cm::ConnectionId connection);
  [[nodiscard]] uint32_t slot_of(const Record& record) const { return static_cast<uint32_t>(&record - records_.data()); }
  [[nodiscard]] verbs::ConnectionId id_of(const Record& record) const;
  // Of event_. False: it is nobody's.
  [[nodiscard]] bool translate(Instant now, verbs::ConnectionEvent& out);
  [[nodiscard]] bool take_request(Instant now, const cm::ConnectRequest& request, verbs::ConnectionEvent& out);
  void take_response(Instant now, Record& record, const cm::ConnectReply& reply, verbs::ConnectionEvent& out);
  void start_handshake(Instant now, Record& record, const wire::MacAddress& mac);
  void give_up(const Record& record, cm::RejectReason reason);
  [[nodiscard]] verbs::ConnectionLimits limits_of(uint32_t path_mtu_bytes) const;
  // Whether two of our kind recover lost packets selectively: what we offer, behind what the user says, and what the peer has.
  [[nodiscard]] CausewayOffer offer() const;
  [[nodiscard]] uint8_t responder_resources(const verbs::ReadDepths& wanted) const;
  void take_offer(rc::RcConnect& connect, Bytes peer_private_data);

  RoceOptions options_;
  Node& node_;
  RandomSource& random_;
  std::vector<Record> records_;  // by slot
  std::vector<uint32_t> free_records_;
  FixedMap<uint32_t> by_cm_id_;                    // slots
  TimerWheel timers_;                              // attempts whose server's hardware address is looked for
  cm::CmEvent event_;                              // polled last
  std::deque<verbs::ConnectionEvent> own_events_;  // at most one for each attempt
};

}  // namespace cw::node
