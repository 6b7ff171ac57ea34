// One queue pair of a reliable connection: owns its two halves, its path and its state, and is what the upper layers post to.
//
// The requester's half (SendState, worked on by requester, completer and retransmit) and the responder's half (ReceiveState,
// worked on by responder) share a QpContext and never see each other. This class lets packets in (path binding), turns failures
// into the Error state, and tells the endpoint that the queue pair has something to send or something for its owner.
//
// Ownership: a posted payload belongs to the queue pair until the completion is polled or, for success, until the peer has
// acknowledged it. A frame whose payload was accepted belongs to the message that it became part of. Failure: a packet that does
// not fit the path or the PSN window is counted and ignored. A fault of the connected peer, or retries exhausted, moves to Error,
// once, with a QpError that says why; then every work is flushed as a completion and nothing is sent.
#pragma once

#include <cstdint>
#include <span>

#include "base/intrusive_list.h"
#include "base/prefetch.h"
#include "base/result.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "rocev2/rc/header_prediction.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/qp_error.h"
#include "rocev2/rc/qp_state.h"
#include "rocev2/rc/rc_options.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/rc/send_state.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/tx_batch.h"
#include "verbs/queue_pair.h"

namespace cw::rc {

// A copy of everything worth showing about a queue pair: logs, causewayctl.
struct RcQpInfo {
  QpState state = QpState::kReset;
  QpError error;
  wire::Path path;
  verbs::Qpn local_qpn;
  verbs::Qpn remote_qpn;
  uint16_t path_mtu_bytes = 0;
  QpCounters counters;
  wire::Psn una;           // oldest PSN that the peer has not acknowledged
  wire::Psn next_psn;      // next that we send
  wire::Psn expected_psn;  // next that we expect
  uint32_t packets_in_flight = 0;
  uint32_t works_queued = 0;  // posted and not completed
  uint32_t reads_outstanding = 0;
  uint32_t receives_posted = 0;
  uint8_t retries = 0;                 // since the last progress
  Duration round_trip;                 // smoothed, 0 when not measured yet
  bool selective_recovery = false;     // agreed with the peer
  uint64_t rate_bytes_per_second = 0;  // limit because of congestion; 0: none
  wire::Psn limit_psn;                 // one past the highest ever sent
  uint32_t msn = 0;                    // messages of the peer completed, 24 bits
  uint16_t window_packets = 0;
  uint8_t reads_max = 0;
  uint8_t retry_count = 0;  // as connected
  uint8_t rnr_retry = 0;    // as connected; 7 = for ever
  uint8_t rnr_retries = 0;  // since the last progress
  uint8_t ack_timeout = 0;  // exponent, as connected
  bool waiting_rnr = false;
  bool recovering = false;
  bool gap = false;             // of the peer's packets one is missing
  bool credit_limited = false;  // the peer counts its receives
  int32_t credits_left = 0;     // valid when credit_limited; negative: so many messages wait for receives
};

class alignas(kCacheLineBytes) RcQp final : public verbs::QueuePair,
                                            public ListNode<AckTag>,
                                            public ListNode<ActiveTag>,
                                            public ListNode<ReadyTag>,
                                            public TimerNode {
 public:
  // By Endpoint only. `qpn` is ours; `options` have been checked.
  RcQp(RcCore& core, verbs::Qpn qpn, const RcOptions& options, ReadReplay* replay);
  ~RcQp() override;

  // verbs::QueuePair. Posting is possible in RTS and SQD; receives from INIT on.
  [[nodiscard]] Status post_send(verbs::SendRequest&& request) override;
  [[nodiscard]] Status post_write(verbs::WriteRequest&& request) override;
  [[nodiscard]] Status post_read(verbs::ReadRequest&& request) override;
  [[nodiscard]] Status post_atomic(const verbs::AtomicRequest& request) override;
  void post_receives(uint32_t count) override;
  [[nodiscard]] bool poll_completion(verbs::Completion& out) override;
  [[nodiscard]] uint32_t poll_messages(std::span<verbs::ReceivedMessage> out) override;
  [[nodiscard]] uint32_t post_receives_and_sends(std::span<verbs::PlainSend> sends) override;
  [[nodiscard]] uint32_t send_queue_room() const override;
  [[nodiscard]] uint32_t works_pending() const override { return send_.queue_count; }
  [[nodiscard]] bool in_error() const override { return state_ == QpState::kError; }

  [[nodiscard]] QpState state() const { return state_; }
  // Why it is in Error; cause kNone otherwise.
  [[nodiscard]] const QpError& error() const { return error_; }
  [[nodiscard]] const wire::Path& path() const { return path_; }
  [[nodiscard]] verbs::Qpn local_qpn() const { return context_.local; }
  [[nodiscard]] verbs::Qpn remote_qpn() const { return context_.remote; }
  [[nodiscard]] const QpCounters& counters() const { return context_.counters; }
  [[nodiscard]] RcQpInfo info() const;
  [[nodiscard]] uint64_t user_data() const { return user_data_; }
  void set_user_data(uint64_t value) { user_data_ = value; }

  // True when the peer has sent a valid request: in RTR this stands for a lost RTU (IBA "communication established").
  [[nodiscard]] bool communication_established() const { return established_; }
  // Payload that the peer has not acknowledged, or works to send: what draining waits for.
  [[nodiscard]] bool has_unfinished_work() const { return works_pending() > 0; }

  // RTS -> SQD: no posted work is begun any more, what has been begun is finished; posting goes on. The owner gets its turn
  // (poll_ready) when drained() has become true; to_rts resumes. kBadState elsewhere.
  [[nodiscard]] Status drain();
  // In SQD, and nothing that was begun is unfinished.
  [[nodiscard]] bool drained() const { return state_ == QpState::kSqd && (send_.oldest == nullptr || !send_.oldest->begun); }

  // Moves to Error by our own wish (disconnect, administrator): flushes, sends nothing more. Nothing happens when in Error
  // already.
  void close() override;

  // For a process that is followed by another one. From here on no message is begun: what begins one is dropped, and its sender
  // is told by the next process to send it again. What has begun is finished.
  void pause();
  // Paused, and nothing is under way: connected() says all that there is to say of the connection.
  [[nodiscard]] bool is_idle() const;
  // What the queue pair would be connected with to go on as it is. Precondition: is_idle().
  [[nodiscard]] RcConnect connected() const;

  // What must hold between calls; for tests, simulation and fuzzers.
  [[nodiscard]] bool is_consistent() const;

  // In Error, and the NAK that tells the peer why has not been sent.
  [[nodiscard]] bool owes_refusal() const { return state_ == QpState::kError && receive_.reply == ReplyKind::kNak; }

  // What a packet will look at.
  void prefetch() const { prefetch_range(this, &path_); }

  // By Endpoint only.
  [[nodiscard]] Status to_rtr(const RcConnect& connect);
  [[nodiscard]] Status to_rts();
  [[nodiscard]] bool on_packet(Instant now, const wire::PacketView& view, Buffer* frame, uint16_t port);
  // The frame, which came in by `port`, is an intact SEND of one packet that can be executed at once, or the response that comes
  // next, from the middle of a READ request: take_predicted() does with it what on_packet() would. False says nothing about it.
  // Precondition: HeaderPrediction::may_match().
  [[nodiscard]] bool predicts(Bytes frame, uint16_t port) const;
  // Takes the first of `frames`, of which predicts() is true, and those right behind it of which it would be true in their turn:
  // all came in one burst by one port. Says how many.
  [[nodiscard]] uint32_t take_predicted(Instant now, std::span<Buffer* const> frames);
  // The acknowledgement or NAK that is due. True when it still is, because the batch took no more.
  [[nodiscard]] bool transmit_acknowledgement(wire::TxBatch& batch);
  // The held acknowledgement goes with the next transmission. Precondition: the queue pair is in RcCore::ack_held.
  void flush_acknowledgement() { join_ack_due(); }
  // By when a held acknowledgement leaves at the latest.
  [[nodiscard]] Instant ack_by() const { return ack_by_; }
  // READ responses and requests, up to `packets_max` and what the batch takes. True when it wants to be asked again.
  [[nodiscard]] bool transmit(Instant now, wire::TxBatch& batch, uint32_t packets_max);
  void on_deadline(Instant now);
  // Gives back all works and buffers without completions and leaves every list. Last call before destruction.
  void release_everything();
  [[nodiscard]] ReadReplay* replay() const { return receive_.reads; }

 private:
  [[nodiscard]] Status admit(uint64_t bytes) const;
  void enqueue(Work* work);
  [[nodiscard]] PacketOutcome on_first_request(Instant now, const wire::PacketView& view, Buffer* frame);
  [[nodiscard]] PacketOutcome dispatch(Instant now, const wire::PacketView& view, Buffer* frame);
  void after_request(Instant now);
  void after_answer();
  [[nodiscard]] uint32_t whole_messages_max() const;
  [[nodiscard]] bool predicts_middle(Bytes frame, wire::Psn psn) const;
  [[nodiscard]] uint32_t take_predicted_sends(Instant now, std::span<Buffer* const> frames);
  [[nodiscard]] uint32_t take_predicted_middles(Instant now, std::span<Buffer* const> frames);
  void count_predicted(uint32_t packets, uint64_t payload_bytes);
  void take_predicted(Instant now, Buffer* frame);
  void learn_from(const wire::PacketView& view);
  [[nodiscard]] bool transmit_refusal(wire::TxBatch& batch);
  void fail(QpErrorCause cause, QpErrorOrigin origin, wire::Psn psn, wire::Opcode opcode);
  // The only writer of state_ and error_. False, and nothing changed, when the table does not allow it.
  bool set_state(QpEvent event, const QpError& reason);
  void discard(wire::DropReason reason, wire::Psn psn);
  void signal_owner();
  void note_reply_due();
  void watch_gap(Instant now);
  [[nodiscard]] Instant gap_deadline() const;
  void hold_acknowledgement(Instant now);
  void join_ack_due();
  void leave_ack_lists();
  void note_sendable();
  void arm_timer();

  // Congestion (qp_congestion.cc).
  void on_congestion_mark(Instant now);
  void on_cnp(Instant now);
  [[nodiscard]] bool transmit_cnp(wire::TxBatch& batch);
  // Packets that the rate allows now, up to `packets_max`; 0: the timer knows when.
  [[nodiscard]] bool transmit_allowed(Instant now, wire::TxBatch& batch, uint32_t packets_max, uint32_t& replies);
  [[nodiscard]] uint32_t allowed_packets(Instant now, uint32_t packets_max);
  void note_sent(Instant now, uint64_t payload_bytes, uint64_t packets, uint32_t replies);
  void lift_rate_limit();

  // What every packet looks at comes first, here as in the parts: with thousands of queue pairs the cache lines of a queue pair
  // are what its packets cost.
  QpState state_ = QpState::kReset;
  bool established_ = false;
  bool cnp_due_ = false;     // the peer's packets came marked
  bool rate_waits_ = false;  // data waits for context_.rate->next_send_at()
  bool ack_held_ = false;    // in RcCore::ack_held
  bool selective_recovery_;
  bool congestion_control_;
  uint64_t user_data_ = 0;
  Instant ack_by_;  // valid when ack_held_
  HeaderPrediction prediction_;
  QpContext context_;
  ReceiveState receive_;
  SendState send_;
  wire::Path path_;
  QpError error_;
  DcqcnLimits rate_limits_;
  Instant next_cnp_at_;  // the peer is not notified again before
};

}  // namespace cw::rc
