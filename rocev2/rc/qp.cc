#include "rocev2/rc/qp.h"

#include <algorithm>
#include <bit>

#include "rocev2/rc/ack_policy.h"
#include "rocev2/rc/completer.h"
#include "rocev2/rc/requester.h"
#include "rocev2/rc/responder.h"
#include "rocev2/rc/responder_hold.h"
#include "rocev2/rc/responder_replies.h"
#include "rocev2/rc/retransmit.h"
#include "rocev2/rc/whole_sends.h"

namespace cw::rc {
namespace {

using wire::DropReason;

constexpr uint16_t kPkeyFullMember = 0x8000;

// Same partition, and at least one of the two a full member (IBA 10.9.3).
bool same_partition(uint16_t a, uint16_t b) {
  return ((a ^ b) & ~kPkeyFullMember & 0xffff) == 0 && ((a | b) & kPkeyFullMember) != 0;
}

}  // namespace

RcQp::RcQp(RcCore& core, verbs::Qpn qpn, const RcOptions& options, ReadReplay* replay)
    : selective_recovery_(options.selective_recovery),
      congestion_control_(options.congestion_control),
      user_data_(options.user_data),
      context_(core),
      rate_limits_(options.rate) {
  context_.local = qpn;
  context_.access = options.remote_access;
  context_.domain = options.domain;
  context_.psn_window_packets = options.psn_window_packets;
  send_.window = SendWindow(static_cast<uint16_t>(options.send_window_packets), options.initiator_depth_max);
  send_.queue_depth = static_cast<uint16_t>(options.send_queue_depth);
  send_.read_window = ReadWindow(options.read_window_packets, options.read_request_packets);
  send_.keepalive = Keepalive(options.keepalive);
  receive_.responder_resources = options.responder_resources_max;
  receive_.receive_bytes_max = options.receive_bytes_max;
  receive_.min_rnr_timer = options.min_rnr_timer;
  receive_.reads = replay;
  receive_.pool = options.receive_pool;
  receive_.advertises_credits = options.advertise_credits && options.receive_pool == nullptr;
  // A peer that counts our receives learns of them by acknowledgements.
  receive_.acks_later_max = core.ack_delay > Duration() && !receive_.advertises_credits ? kAcksLaterMax : uint8_t{0};
  set_state(QpEvent::kInitialize, QpError{});
}

RcQp::~RcQp() {
  CW_DASSERT(send_.queue_count == 0 && context_.completions.empty() && receive_.message == nullptr);
}

Status RcQp::to_rtr(const RcConnect& connect) {
  const Status valid = check(connect);
  if (!valid.ok()) {
    return valid;
  }
  if (!set_state(QpEvent::kReadyToReceive, QpError{})) {
    return cw::fail(Error::kBadState);
  }
  path_ = connect.path;
  path_.ecn_capable = path_.ecn_capable && congestion_control_;
  context_.remote = connect.remote_qpn;
  context_.pkey = connect.pkey;
  context_.mtu_bytes = static_cast<uint16_t>(connect.path_mtu_bytes);
  context_.mtu_shift = static_cast<uint8_t>(std::countr_zero(connect.path_mtu_bytes));
  context_.header = wire::PathHeader(path_);
  if (context_.core.express) {
    wire::Bth bth;
    bth.pkey = context_.pkey;
    bth.destination = context_.remote;
    context_.header.prepare_sends(bth);
  }
  context_.budget_place = context_.core.held_budget.place_of(path_.remote);
  context_.hold_packets = selective_recovery_ ? std::min(connect.peer_hold_packets, uint16_t{HeldPackets::kSpan}) : uint16_t{0};
  send_.partial_reads = context_.hold_packets > 0;
  receive_.expected = connect.remote_first_psn;
  receive_.msn = connect.msn & 0xff'ffff;
  receive_.responder_resources = std::min(receive_.responder_resources, connect.responder_resources);
  receive_.ack_psn = connect.remote_first_psn.minus(1);
  send_.window.begin_at(connect.local_first_psn, connect.initiator_depth);
  // A peer with a small READ depth is sent larger READ requests, or the window would never be used.
  const uint32_t share = send_.read_window.packets_max() / std::max<uint32_t>(send_.window.initiator_depth(), 1);
  send_.read_window =
      ReadWindow(send_.read_window.packets_max(), std::max(send_.read_window.request_packets(), std::bit_floor(share)));
  send_.retries = Retries(connect.retry_count);
  send_.rnr_retries = Retries(connect.rnr_retry);
  if (connect.resumes) {
    established_ = true;
    context_.awaits_late = selective_recovery_ && context_.hold_packets == 0;
    owe_nak(receive_, wire::NakCode::kPsnSequenceError);
    note_reply_due();
  }
  const uint8_t exponent = connect.ack_timeout == 0 ? kAckTimeoutMax : connect.ack_timeout;
  send_.ack_timeout = std::clamp(exponent, kAckTimeoutMin, kAckTimeoutMax);
  context_.note(TransportEventKind::kConnected, connect.local_first_psn);
  return {};
}

Status RcQp::to_rts() {
  if (!set_state(QpEvent::kReadyToSend, QpError{})) {
    return cw::fail(Error::kBadState);
  }
  send_.draining = false;
  note_sendable();
  if (send_.keepalive.is_enabled() && !ListNode<ActiveTag>::is_linked()) {
    context_.core.active.push_back(*this);  // its first turn tells the time from which the peer is watched
  }
  return {};
}

Status RcQp::drain() {
  if (!set_state(QpEvent::kDrain, QpError{})) {
    return cw::fail(Error::kBadState);
  }
  make_works(context_, send_);
  send_.draining = true;
  if (drained()) {
    signal_owner();
  }
  return {};
}

void RcQp::pause() {
  receive_.paused = true;
  prediction_.forget();
  if (receive_.in_progress == wire::OpcodeKind::kReserved) {
    drop_held(context_, receive_);
  }
}

bool RcQp::is_idle() const {
  const bool receives = receive_.message != nullptr || receive_.in_progress != wire::OpcodeKind::kReserved ||
                        !context_.completions.empty() || owes_read_responses(receive_);
  const bool sends = send_.queue_count > 0 || send_.window.una() != send_.window.limit_psn();
  return state_ == QpState::kRts && receive_.paused && !receives && !sends;
}

RcConnect RcQp::connected() const {
  return RcConnect{.path = path_,
                   .remote_qpn = context_.remote,
                   .remote_first_psn = receive_.expected,
                   .local_first_psn = send_.window.next_psn(),
                   .pkey = context_.pkey,
                   .path_mtu_bytes = context_.mtu_bytes,
                   .initiator_depth = send_.window.initiator_depth(),
                   .responder_resources = receive_.responder_resources,
                   .retry_count = send_.retries.max(),
                   .rnr_retry = send_.rnr_retries.max(),
                   .ack_timeout = send_.ack_timeout,
                   .peer_hold_packets = context_.hold_packets,
                   .resumes = true,
                   .msn = receive_.msn};
}

RcQpInfo RcQp::info() const {
  return RcQpInfo{.state = state_,
                  .error = error_,
                  .path = path_,
                  .local_qpn = context_.local,
                  .remote_qpn = context_.remote,
                  .path_mtu_bytes = context_.mtu_bytes,
                  .counters = context_.counters,
                  .una = send_.window.una(),
                  .next_psn = send_.window.next_psn(),
                  .expected_psn = receive_.expected,
                  .packets_in_flight = send_.window.packets_in_flight(),
                  .works_queued = send_.queue_count,
                  .reads_outstanding = send_.window.reads_outstanding(),
                  .receives_posted = receive_.receives_left(),
                  .retries = send_.retries.used(),
                  .round_trip = send_.rtt.srtt(),
                  .selective_recovery = context_.hold_packets > 0,
                  .rate_bytes_per_second = context_.rate != nullptr ? context_.rate->rate() : 0,
                  .limit_psn = send_.window.limit_psn(),
                  .msn = receive_.msn & 0xff'ffff,
                  .window_packets = send_.window.packets_max(),
                  .reads_max = send_.window.initiator_depth(),
                  .retry_count = send_.retries.max(),
                  .rnr_retry = send_.rnr_retries.max(),
                  .rnr_retries = send_.rnr_retries.used(),
                  .ack_timeout = send_.ack_timeout,
                  .waiting_rnr = send_.rnr.is_under_way(),
                  .recovering = send_.recovery.is_under_way(),
                  .gap = receive_.gap,
                  .credit_limited = send_.credit_limit.has_value(),
                  .credits_left = send_.credit_limit.has_value() ? send_.last_ssn.distance_to(*send_.credit_limit) : 0};
}

void RcQp::close() {
  fail(QpErrorCause::kClosed, QpErrorOrigin::kOwner, send_.window.una(), wire::Opcode::kRcAcknowledge);
}

bool RcQp::on_packet(Instant now, const wire::PacketView& view, Buffer* frame, uint16_t port) {
  if (!can_receive(state_)) {
    discard(DropReason::kUnknownQp, view.bth.psn);  // CVE-2026-93107: nothing is processed once in Error
    return false;
  }
  if (!context_.header.is_answered_by(view, port)) {
    discard(DropReason::kPathMismatch, view.bth.psn);
    return false;
  }
  if (!same_partition(view.bth.pkey, context_.pkey)) {
    discard(DropReason::kPkey, view.bth.psn);
    return false;
  }
  RcStats& stats = context_.core.stats;
  ++stats.packets_in;
  ++context_.counters.packets_in;
  stats.payload_bytes_in += view.payload.size();
  context_.counters.payload_bytes_in += view.payload.size();
  if (view.is_marked() && view.traits->kind != wire::OpcodeKind::kCongestion) [[unlikely]] {
    on_congestion_mark(now);
  }

  const PacketOutcome outcome = dispatch(now, view, frame);
  if (outcome.dropped) {
    discard(outcome.reason, view.bth.psn);
  } else if (view.traits->kind != wire::OpcodeKind::kCongestion) {  // which names no PSN that a forger would have to guess
    send_.keepalive.on_heard(now);
  }
  if (outcome.failure != QpErrorCause::kNone) {
    const QpErrorOrigin origin = view.traits->is_request ? QpErrorOrigin::kResponder : QpErrorOrigin::kRequester;
    fail(outcome.failure, origin, view.bth.psn, view.bth.opcode);
  }
  return outcome.took_frame;
}

// Whoever sends the packet that is expected knows its PSN, and so has our connection manager's answer. A duplicate or one behind
// a gap proves nothing.
PacketOutcome RcQp::on_first_request(Instant now, const wire::PacketView& view, Buffer* frame) {
  const wire::Psn before = receive_.expected;
  const PacketOutcome outcome = on_request(context_, receive_, now, view, frame);
  if (receive_.expected != before) {
    established_ = true;
    // Not before: what strangers send ahead of the first packet would be served behind it.
    context_.awaits_late = selective_recovery_ && context_.hold_packets == 0;
    signal_owner();
  }
  return outcome;
}

PacketOutcome RcQp::dispatch(Instant now, const wire::PacketView& view, Buffer* frame) {
  PacketOutcome outcome;
  const bool held = receive_.held != nullptr;
  switch (view.traits->kind) {
    case wire::OpcodeKind::kSend:
    case wire::OpcodeKind::kWrite:
    case wire::OpcodeKind::kReadRequest:
    case wire::OpcodeKind::kAtomic:
      // Touches nothing of our own requests: neither they nor the timer have to be looked at.
      outcome = established_ ? on_request(context_, receive_, now, view, frame) : on_first_request(now, view, frame);
      if (held || receive_.held != nullptr) [[unlikely]] {
        watch_gap(now);
      }
      after_request(now);
      if (outcome.took_frame && view.bth.opcode == wire::Opcode::kRcSendOnly) {
        learn_from(view);
      }
      return outcome;
    case wire::OpcodeKind::kAcknowledge:
      outcome = on_acknowledge(context_, send_, now, view);
      break;
    case wire::OpcodeKind::kReadResponse:
      make_works(context_, send_);
      outcome = on_read_response(context_, send_, now, view, frame);
      break;
    case wire::OpcodeKind::kGapReport:
      make_works(context_, send_);
      outcome = on_gap_report(context_, send_, now, view);
      break;
    case wire::OpcodeKind::kCongestion:
      on_cnp(now);
      return PacketOutcome::done();
    case wire::OpcodeKind::kDatagram:
      return PacketOutcome::drop(DropReason::kNotDatagram);
    case wire::OpcodeKind::kAtomicAcknowledge:
      make_works(context_, send_);
      outcome = on_atomic_acknowledge(context_, send_, now, view);
      break;
    case wire::OpcodeKind::kReserved:
      return PacketOutcome::drop(DropReason::kUnexpected);
  }
  after_answer();
  return outcome;
}

// An answer to what we sent has been looked at. What may be sent now, and how long to wait, is asked with the next turn: once for
// all answers of a burst.
void RcQp::after_answer() {
  if (!ListNode<ActiveTag>::is_linked()) {
    context_.core.active.push_back(*this);
  }
  if (!context_.completions.empty() || drained()) {
    signal_owner();
  }
}

// A request has been looked at: when it is answered, and whether its owner has something to poll.
void RcQp::after_request(Instant now) {
  if (receive_.reply == ReplyKind::kAckLater && now - send_.keepalive.alive_at() <= context_.core.ack_delay) {
    hold_acknowledgement(now);
    // With a gap filled, a READ and a SEND behind it are served at once: the READ's responses do not wait.
    if (owes_read_responses(receive_)) [[unlikely]] {
      note_reply_due();
    }
  } else {
    expedite_ack(receive_);
    note_reply_due();
  }
  if (!context_.completions.empty()) {
    signal_owner();
  }
}

// Only what has been executed, and is nobody's but the owner's now. What was held behind a gap has not, and may have been dropped
// again: its PSN is not the one before the next.
void RcQp::learn_from(const wire::PacketView& view) {
  if (context_.core.express && established_ && receive_.ack_psn == view.bth.psn && receive_.expected == view.bth.psn.next() &&
      !context_.completions.empty()) {
    prediction_.learn(view, std::min<uint32_t>(context_.mtu_bytes, receive_.receive_bytes_max));
  }
}

bool RcQp::predicts(Bytes frame, uint16_t port) const {
  if (HeaderPrediction::is_response(frame.data())) [[unlikely]] {
    return prediction_.has_learned() && port == context_.header.port() && middles_awaited(context_, send_) > 0 &&
           predicts_middle(frame, send_.window.una());
  }
  return prediction_.has_learned(frame.size()) && port == context_.header.port() && takes_whole_send(context_, receive_) &&
         prediction_.matches(frame, receive_.expected);
}

// So many whole messages may be taken one after the other, as takes_whole_send() lets the first. Responses to READs are noted
// with each.
uint32_t RcQp::whole_messages_max() const {
  return owes_read_responses(receive_) ? 1 : std::min(receive_.receives_left(), context_.core.receive_work_left());
}

void RcQp::take_predicted(Instant now, Buffer* frame) {
  const uint8_t* raw = frame->data;
  receive_.peer_port = HeaderPrediction::source_port(raw);
  frame->give_up_front(HeaderPrediction::kHeaderBytes);
  frame->size -= wire::kIcrcBytes;
  take_whole_send(context_, receive_, now, frame, HeaderPrediction::is_solicited(raw),
                  HeaderPrediction::asks_for_acknowledgement(raw));
}

uint32_t RcQp::take_predicted(Instant now, std::span<Buffer* const> frames) {
  return HeaderPrediction::is_response(frames.front()->data) ? take_predicted_middles(now, frames)
                                                             : take_predicted_sends(now, frames);
}

void RcQp::count_predicted(uint32_t packets, uint64_t payload_bytes) {
  RcStats& stats = context_.core.stats;
  stats.packets_in += packets;
  context_.counters.packets_in += packets;
  stats.payload_bytes_in += payload_bytes;
  context_.counters.payload_bytes_in += payload_bytes;
}

// What is said of the last of a row is what would have been said in the end, if it had been said of each: but for the first,
// which may end a silence.
uint32_t RcQp::take_predicted_sends(Instant now, std::span<Buffer* const> frames) {
  const auto most = static_cast<uint32_t>(std::min<size_t>(frames.size(), whole_messages_max()));
  uint64_t bytes = 0;
  uint32_t taken = 0;
  do {
    Buffer* frame = frames[taken++];
    take_predicted(now, frame);
    bytes += frame->size;
    if (taken == 1) {
      after_request(now);
      send_.keepalive.on_heard(now);
    }
  } while (taken < most && HeaderPrediction::is_send(frames[taken]->bytes()) && prediction_.has_learned(frames[taken]->size) &&
           prediction_.matches(frames[taken]->bytes(), receive_.expected));
  if (taken > 1) {
    after_request(now);
  }
  count_predicted(taken, bytes);
  return taken;
}

bool RcQp::predicts_middle(Bytes frame, wire::Psn psn) const {
  return frame.size() == HeaderPrediction::kHeaderBytes + context_.mtu_bytes + wire::kIcrcBytes &&
         prediction_.matches_middle(frame, psn);
}

uint32_t RcQp::take_predicted_middles(Instant now, std::span<Buffer* const> frames) {
  const auto most = static_cast<uint32_t>(std::min<size_t>(frames.size(), middles_awaited(context_, send_)));
  const wire::Psn una = send_.window.una();
  uint32_t taken = 1;
  while (taken < most && HeaderPrediction::is_middle(frames[taken]->bytes()) &&
         predicts_middle(frames[taken]->bytes(), una.plus(taken))) {
    ++taken;
  }
  const uint16_t source_port = HeaderPrediction::source_port(frames.front()->data);
  for (Buffer* frame : frames.first(taken)) {
    frame->trim_front(HeaderPrediction::kHeaderBytes);
    frame->size = context_.mtu_bytes;
  }
  take_middles(context_, send_, now, frames.first(taken), source_port);
  send_.keepalive.on_heard(now);
  count_predicted(taken, uint64_t{taken} * context_.mtu_bytes);
  after_answer();
  return taken;
}

bool RcQp::transmit_acknowledgement(wire::TxBatch& batch) {
  expedite_ack(receive_);
  if (cnp_due_ && !transmit_cnp(batch)) {
    return true;
  }
  if (owes_read_responses(receive_)) {
    return state_ == QpState::kError && transmit_refusal(batch);  // else it goes out behind them, in transmit()
  }
  const ReplyResult result = send_replies(context_, receive_, batch, 1);
  return result.packets == 0 && owes_reply(receive_);
}

// In Error: what was asked for before the request that we refused, and then the NAK, which the peer takes to be about the first
// request that has not been answered (IBA 9.7.5.2). Memory that has been withdrawn since ends the answers.
bool RcQp::transmit_refusal(wire::TxBatch& batch) {
  (void)send_replies(context_, receive_, batch, UINT32_MAX);
  return owes_reply(receive_);
}

bool RcQp::transmit(Instant now, wire::TxBatch& batch, uint32_t packets_max) {
  if (context_.rate == nullptr) [[likely]] {
    uint32_t replies = 0;
    return transmit_allowed(now, batch, packets_max, replies);
  }
  const uint32_t allowed = allowed_packets(now, packets_max);
  if (allowed == 0) {
    arm_timer();
    return false;
  }
  const QpCounters before = context_.counters;
  uint32_t replies = 0;
  bool more = transmit_allowed(now, batch, allowed, replies);
  note_sent(now, context_.counters.payload_bytes_out - before.payload_bytes_out,
            context_.counters.packets_out - before.packets_out, replies);
  return more;
}

bool RcQp::transmit_allowed(Instant now, wire::TxBatch& batch, uint32_t packets_max, uint32_t& replies) {
  if (owes_reply(receive_)) {
    if (owes_read_responses(receive_)) {
      receive_.reads->note_answering(now);
    }
    const ReplyResult result = send_replies(context_, receive_, batch, packets_max);
    replies = result.packets;
    if (result.failure != QpErrorCause::kNone) {
      fail(result.failure, QpErrorOrigin::kResponder, receive_.expected, wire::Opcode::kRcReadRequest);
      return false;
    }
    if (owes_reply(receive_)) {
      return true;
    }
  }
  if (!can_send(state_)) {
    return false;
  }
  send_.keepalive.watch_from(now);
  const bool more = replies < packets_max ? send_requests(context_, send_, now, batch, packets_max - replies) : true;
  arm_timer();
  return more;
}

void RcQp::on_deadline(Instant now) {
  rate_waits_ = false;
  if (receive_.held != nullptr) {
    watch_gap(now);
  }
  make_works(context_, send_);
  const wire::Psn oldest = send_.window.una();
  const QpErrorCause failure = on_send_timer(context_, send_, now);
  if (failure != QpErrorCause::kNone) {
    fail(failure, QpErrorOrigin::kRequester, oldest, wire::Opcode::kRcAcknowledge);
    return;
  }
  note_sendable();
  arm_timer();
}

void RcQp::release_everything() {
  set_state(QpEvent::kDestroy, QpError{});
  abandon_requests(context_, receive_);
  flush_works(context_, send_, verbs::WcStatus::kWorkRequestFlushed);
  lift_rate_limit();
  cnp_due_ = false;
  verbs::Completion dropped;
  while (poll_completion(dropped)) {
    dropped.payload.clear();
    if (receive_.pool != nullptr && verbs::is_receive(dropped.opcode)) {
      receive_.pool->give_back(1);
    }
  }
  context_.core.released.clear();
  context_.core.timers.cancel(*this);
  leave_ack_lists();
  ListNode<ActiveTag>::unlink_if_linked();
  ListNode<ReadyTag>::unlink_if_linked();
}

bool RcQp::is_consistent() const {
  const bool has_works = send_.queue_count > send_.whole_count;
  const bool queue_agrees = (send_.oldest != nullptr) == has_works && send_.queue_count <= send_.queue_depth;
  const bool whole_agrees =
      send_.whole_unsent <= send_.whole_count && send_.watched_count <= send_.whole_count &&
      (send_.whole_count == 0 || (send_.cursor.work == nullptr && !send_.is_disordered() && !send_.draining &&
                                  send_.window.next_psn() == send_.window.limit_psn() &&
                                  send_.window.packets_in_flight() >= uint32_t{send_.whole_count} - send_.whole_unsent));
  const bool reads_agree =
      send_.window.reads_outstanding() <= (send_.partial_reads ? ReadReplay::kHistory : send_.window.initiator_depth());
  const bool responses_agree =
      send_.window.next_psn() != send_.window.limit_psn() || send_.responses_awaited() <= send_.read_window.packets_max();
  const bool window_holds =
      send_.packets_missing() <= send_.window.packets_max() || send_.board != nullptr || send_.gaps != nullptr;
  const bool arrived_was_sent = send_.board == nullptr || send_.board->arrived_in_window() <= send_.window.packets_in_flight();
  const bool gaps_agree =
      send_.gaps == nullptr || (send_.gaps->is_consistent() && !send_.gaps->empty() &&
                                send_.gaps->first_missing() == send_.window.una() && send_.oldest->awaits_response());
  const bool idle_in_error = state_ != QpState::kError || (send_.queue_count == 0 && receive_.message == nullptr);
  const bool error_is_said = (state_ == QpState::kError) == (error_.cause != QpErrorCause::kNone);
  const bool timer_watches =
      !can_send(state_) || send_deadline(send_).is_never() || TimerNode::is_armed() || ListNode<ActiveTag>::is_linked();
  const bool work_is_seen = !can_send(state_) || send_stall(context_, send_) != SendStall::kNone ||
                            ListNode<ActiveTag>::is_linked() || (rate_waits_ && TimerNode::is_armed());
  const bool reply_is_seen = (receive_.reply == ReplyKind::kNone && !owes_reply(receive_)) || ListNode<AckTag>::is_linked() ||
                             ListNode<ActiveTag>::is_linked() || (rate_waits_ && TimerNode::is_armed());
  const bool gap_is_watched = gap_deadline().is_never() || TimerNode::is_armed();
  return whole_agrees && gap_is_watched && send_.window.is_consistent() && queue_agrees && reads_agree && responses_agree &&
         gaps_agree && window_holds && arrived_was_sent && idle_in_error && error_is_said && timer_watches && work_is_seen &&
         reply_is_seen;
}

bool RcQp::set_state(QpEvent event, const QpError& reason) {
  const auto next = next_state(state_, event);
  if (!next.has_value()) {
    return false;
  }
  state_ = *next;
  error_ = reason;
  if (!can_receive(state_)) {
    prediction_.forget();
  }
  return true;
}

void RcQp::fail(QpErrorCause cause, QpErrorOrigin origin, wire::Psn psn, wire::Opcode opcode) {
  if (!set_state(QpEvent::kFail, QpError{cause, origin, psn, opcode})) {
    return;
  }
  context_.core.stats.qps_failed += origin == QpErrorOrigin::kOwner ? 0 : 1;
  context_.note(TransportEventKind::kFailed, psn, static_cast<uint8_t>(cause));
  const bool says_why = origin == QpErrorOrigin::kResponder;
  if (says_why) {
    abandon_messages(context_, receive_);
  } else {
    abandon_requests(context_, receive_);
  }
  flush_works(context_, send_, status_of(cause));
  lift_rate_limit();
  cnp_due_ = false;
  context_.core.timers.cancel(*this);
  ListNode<ActiveTag>::unlink_if_linked();
  // The NAK with which we refused a request is the last packet; nothing else is owed any more.
  if (!says_why) {
    receive_.reply = ReplyKind::kNone;
    leave_ack_lists();
  } else {
    join_ack_due();
  }
  signal_owner();
}

void RcQp::discard(wire::DropReason reason, wire::Psn psn) {
  ++context_.core.stats.discards[static_cast<size_t>(reason)];
  ++context_.counters.discards;
  if (reason != wire::DropReason::kOutOfSequence) {  // which the responder has noted
    context_.note(TransportEventKind::kDiscarded, psn, static_cast<uint8_t>(reason));
  }
}

void RcQp::signal_owner() {
  if (!ListNode<ReadyTag>::is_linked()) {
    context_.core.ready.push_back(*this);
  }
}

// Joins the list that what it owes to the peer's requests calls for.
void RcQp::note_reply_due() {
  if (owes_read_responses(receive_)) {
    if (!ListNode<ActiveTag>::is_linked()) {
      context_.core.active.push_back(*this);
    }
  } else if (receive_.reply > ReplyKind::kAckLater) {
    join_ack_due();
  }
}

// A peer that goes back to every NAK is told of a gap when what is missing has not come in time. What has been held for too long
// is given up.
void RcQp::watch_gap(Instant now) {
  const GapTiming timing{.srtt = send_.rtt.srtt(), .ack_timeout = ack_timeout(send_.ack_timeout)};
  if (gap_report_due(receive_, timing) <= now) {
    report_gap_now(receive_, now, timing);
  }
  if (give_up_at(receive_, timing) <= now) {
    give_up_held(context_, receive_);
  }
  arm_timer();
}

Instant RcQp::gap_deadline() const {
  const GapTiming timing{.srtt = send_.rtt.srtt(), .ack_timeout = ack_timeout(send_.ack_timeout)};
  return earlier(gap_report_due(receive_, timing), give_up_at(receive_, timing));
}

void RcQp::hold_acknowledgement(Instant now) {
  if (!ListNode<AckTag>::is_linked()) {
    ack_by_ = now + context_.core.ack_delay;
    ack_held_ = true;
    context_.core.ack_held.push_back(*this);
  }
}

void RcQp::join_ack_due() {
  if (ack_held_) {
    leave_ack_lists();
  }
  if (!ListNode<AckTag>::is_linked()) {
    context_.core.ack_due.push_back(*this);
  }
}

void RcQp::leave_ack_lists() {
  ListNode<AckTag>::unlink_if_linked();
  ack_held_ = false;
}

// The same for everything that there is to send.
void RcQp::note_sendable() {
  note_reply_due();
  if (ListNode<ActiveTag>::is_linked()) {
    return;
  }
  const bool requests = can_send(state_) && (send_.probe.is_due() || send_.keepalive.is_due() || owes_repetition(send_) ||
                                             send_stall(context_, send_) == SendStall::kNone);
  if (requests) {
    context_.core.active.push_back(*this);
  }
}

void RcQp::arm_timer() {
  Instant deadline = send_deadline(send_);
  if (receive_.held != nullptr) [[unlikely]] {
    deadline = earlier(deadline, gap_deadline());
  }
  context_.core.timers.arm(*this, rate_waits_ ? earlier(deadline, context_.rate->next_send_at()) : deadline);
}

}  // namespace cw::rc
