#include "rocev2/rc/completer.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/retransmit.h"
#include "rocev2/wire/aeth.h"

namespace cw::rc {
namespace {

using wire::DropReason;
using wire::Psn;

// Takes the oldest work out of the queue and gives it to the owner, or back to the slab when nobody wants to know.
void complete_oldest(QpContext& context, SendState& state, verbs::WcStatus status) {
  Work* work = state.oldest;
  state.oldest = std::exchange(work->next, nullptr);
  if (state.oldest == nullptr) {
    state.newest = nullptr;
  }
  --state.queue_count;
  const bool keeps_payload = work->kind == WorkKind::kRead && status == verbs::WcStatus::kSuccess;
  if (!keeps_payload) {
    context.core.released.append(std::move(work->payload));
  }
  work->status = status;
  if (work->signaled || status != verbs::WcStatus::kSuccess) {
    context.completions.push(work);
  } else {
    context.core.sends.destroy(work);
  }
}

// una has moved: retries start again, and a cursor that was left behind catches up.
void note_progress(QpContext& context, SendState& state, Instant now) {
  state.progress_at = now;
  state.retries = 0;
  state.rnr_retries = 0;
  state.probes = 0;
  state.probe_due = false;
  state.recovering = false;
  state.ahead_seen = false;
  state.waiting_rnr = false;
  if (state.sampling && state.sample_psn.distance_to(state.una) > 0) {
    take_sample(state, now);
  }
  settle_board(context, state);
  if (state.next_psn.distance_to(state.una) > 0) {
    state.next_psn = state.una;
    state.read_psns = 0;
    state.reads_outstanding = 0;
    state.cursor = cursor_at_una(state, context.mtu_bytes);
  }
}

// The peer says with each answer how many receives it has, or that it does not count them (IBA 9.7.7.2). A count that is older
// than what we know changes nothing.
void take_credits(SendState& state, const wire::Aeth& aeth) {
  if (aeth.syndrome == wire::Aeth::kCreditsInvalid) {
    state.credit_limited = false;
    return;
  }
  if (aeth.kind() != wire::AethKind::kAck) {
    return;
  }
  const Psn limit = Psn(aeth.msn).plus(wire::credit_count(aeth.code()));
  if (!state.credit_limited || state.credit_limit.distance_to(limit) > 0) {
    state.credit_limit = limit;
    state.credit_limited = true;
  }
}

// Everything before `upto` has arrived. Stops at a READ or atomic whose response is missing; una says how far it
// came. True when una moved.
// Precondition: upto in [una, limit_psn].
bool acknowledge_before(QpContext& context, SendState& state, Instant now, Psn upto) {
  const Psn before = state.una;
  while (state.una != upto) {
    const Work& work = *state.oldest;
    if (work.awaits_response()) {
      break;
    }
    const Psn end = work.first_psn.plus(work.packets);
    if (end.distance_to(upto) < 0) {
      state.una = upto;
      break;
    }
    state.una = end;
    complete_oldest(context, state, verbs::WcStatus::kSuccess);
  }
  if (state.una == before) {
    return false;
  }
  note_progress(context, state, now);
  return true;
}

bool is_outstanding(const SendState& state, Psn psn) {
  return state.una.distance_to(psn) >= 0 && psn.distance_to(state.limit_psn) > 0;
}

PacketOutcome drop_as_stale(const QpContext& context, const SendState& state, Psn psn) {
  const int32_t distance = state.una.distance_to(psn);
  const bool settled_before = distance < 0 && context.inside_window(distance);
  return PacketOutcome::drop(settled_before ? DropReason::kDuplicate : DropReason::kPsnStale);
}

// `psn` has been answered and is behind una.
PacketOutcome on_implied_nak(QpContext& context, SendState& state, Instant now, Psn psn, bool progressed) {
  if (!is_news_of_gap(state, psn)) {
    return PacketOutcome::done();
  }
  ++context.core.stats.implied_naks;
  const QpErrorCause failure = repeat_from_una(context, state, now, progressed);
  return failure == QpErrorCause::kNone ? PacketOutcome::done() : PacketOutcome::fail(failure);
}

PacketOutcome on_ack(QpContext& context, SendState& state, Instant now, Psn psn) {
  const bool progressed = acknowledge_before(context, state, now, psn.next());
  if (state.una != psn.next()) {
    return on_implied_nak(context, state, now, psn, progressed);
  }
  ++context.core.stats.acks_received;
  if (is_probe_answered_alone(state, now, psn)) {
    go_back(context, state, now);
  }
  return PacketOutcome::done();
}

PacketOutcome on_rnr_nak(QpContext& context, SendState& state, Instant now, uint8_t timer_code) {
  ++context.core.stats.rnr_naks_received;
  ++context.counters.naks_received;
  if (state.waiting_rnr) {
    return PacketOutcome::drop(DropReason::kDuplicate);  // else a copy of the packet could stretch the wait
  }
  constexpr uint8_t kForEver = 7;
  if (state.rnr_retry != kForEver && state.rnr_retries >= state.rnr_retry) {
    ++context.core.stats.rnr_retries_exhausted;
    return PacketOutcome::fail(QpErrorCause::kRnrRetryExceeded);
  }
  if (state.rnr_retries < kForEver) {
    ++state.rnr_retries;
  }
  go_back(context, state, now);
  state.waiting_rnr = true;
  state.rnr_until = now + wire::rnr_timer(timer_code);
  return PacketOutcome::done();
}

PacketOutcome on_sequence_nak(QpContext& context, SendState& state, Instant now, bool progressed) {
  ++context.core.stats.naks_received[static_cast<size_t>(wire::NakCode::kPsnSequenceError)];
  ++context.counters.naks_received;
  const QpErrorCause failure = repeat_from_una(context, state, now, progressed);
  return failure == QpErrorCause::kNone ? PacketOutcome::done() : PacketOutcome::fail(failure);
}

// Any other NAK code.
PacketOutcome on_refusal(QpContext& context, uint8_t code) {
  ++context.core.stats.naks_received[std::min<uint32_t>(code, kNakCodeCount - 1)];
  ++context.counters.naks_received;
  switch (static_cast<wire::NakCode>(code)) {
    case wire::NakCode::kInvalidRequest:
      return PacketOutcome::fail(QpErrorCause::kNakInvalidRequest);
    case wire::NakCode::kRemoteAccessError:
      return PacketOutcome::fail(QpErrorCause::kNakRemoteAccess);
    case wire::NakCode::kRemoteOperationalError:
      return PacketOutcome::fail(QpErrorCause::kNakRemoteOperation);
    case wire::NakCode::kPsnSequenceError:
    case wire::NakCode::kInvalidRdRequest:
      break;  // the latter is for reliable datagrams only
  }
  return PacketOutcome::drop(DropReason::kUnexpected);
}

// The response with PSN una, opcode and length against the request (IBA 9.7.5.1). A READ that was repeated is answered from a
// First again, wherever in the message that is.
bool fits_request(const QpContext& context, const Work& read, uint32_t index, const wire::PacketView& view) {
  const bool last = index + 1 == read.packets;
  if (view.traits->ends_message() != last) {
    return false;
  }
  if (index == 0 && !view.traits->starts_message()) {
    return false;
  }
  const uint32_t wanted = last ? read.length - index * context.mtu_bytes : context.mtu_bytes;
  return view.payload.size() == wanted;
}

// The response with PSN una has arrived. The cursor has either passed the whole work or, after going back, stands at or before
// this response.
void take_response(QpContext& context, SendState& state, Instant now, bool last) {
  if (state.awaiting()) {
    --state.read_psns;
    state.reads_outstanding = static_cast<uint8_t>(state.reads_outstanding - (last ? 1 : 0));
  }
  state.una = state.una.next();
  if (last) {
    complete_oldest(context, state, verbs::WcStatus::kSuccess);
  }
  note_progress(context, state, now);
}

// Whether a response with this PSN is the one awaited next; if so, everything before it is acknowledged. Else `outcome` says what
// became of the packet. A useless response is a sign of life nevertheless, unless it lies outside the PSN window.
bool is_due(QpContext& context, SendState& state, Instant now, Psn psn, PacketOutcome& outcome) {
  if (!is_outstanding(state, psn)) {
    outcome = drop_as_stale(context, state, psn);
    state.heard_at = outcome.reason == DropReason::kDuplicate ? now : state.heard_at;
    return false;
  }
  const bool progressed = acknowledge_before(context, state, now, psn);
  if (state.una != psn) {
    state.heard_at = now;
    outcome = on_implied_nak(context, state, now, psn, progressed);
    if (outcome.failure == QpErrorCause::kNone) {
      outcome = PacketOutcome::drop(DropReason::kOutOfSequence);
    }
    return false;
  }
  return true;
}

// Trims the frame to the payload and appends it to the READ's data. False when there is nothing to keep.
bool keep_payload(Work& read, const wire::PacketView& view, Buffer* frame) {
  if (view.payload.empty()) {
    return false;
  }
  frame->trim_front(static_cast<uint32_t>(view.payload.data() - frame->data));
  frame->size = static_cast<uint32_t>(view.payload.size());
  read.payload.push_back(frame);
  return true;
}

}  // namespace

PacketOutcome on_acknowledge(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  const Psn psn = view.bth.psn;
  const wire::Aeth aeth = view.aeth();
  if (!is_outstanding(state, psn)) {
    if (psn.next() == state.una) {
      take_credits(state, aeth);  // an acknowledgement repeated to say that there are receives again
    }
    return drop_as_stale(context, state, psn);
  }
  take_credits(state, aeth);
  if (aeth.kind() == wire::AethKind::kReserved) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (aeth.kind() == wire::AethKind::kAck) {
    return on_ack(context, state, now, psn);
  }
  // A NAK acknowledges everything before the PSN that it names.
  const bool progressed = acknowledge_before(context, state, now, psn);
  if (aeth.kind() == wire::AethKind::kNak && aeth.code() != static_cast<uint8_t>(wire::NakCode::kPsnSequenceError)) {
    // Even when READ data before it are missing: the peer is in Error and would not answer a repetition.
    return on_refusal(context, aeth.code());
  }
  if (state.una != psn) {
    return on_implied_nak(context, state, now, psn, progressed);
  }
  if (aeth.kind() == wire::AethKind::kRnrNak) {
    return on_rnr_nak(context, state, now, aeth.code());
  }
  return on_sequence_nak(context, state, now, progressed);
}

PacketOutcome on_gap_report(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  const Psn psn = view.bth.psn;
  const auto report = wire::GapReport::parse(view.payload);
  if (context.hold_packets == 0 || !report.ok() ||
      view.aeth() != wire::Aeth::nak(wire::NakCode::kPsnSequenceError, view.aeth().msn)) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (!is_outstanding(state, psn)) {
    return drop_as_stale(context, state, psn);
  }
  ++context.core.stats.gap_reports_received;
  const bool progressed = acknowledge_before(context, state, now, psn);
  if (state.una != psn) {
    return on_implied_nak(context, state, now, psn, progressed);
  }
  if (state.waiting_rnr || note_gap(context, state, now, *report)) {
    ++context.core.stats.naks_received[static_cast<size_t>(wire::NakCode::kPsnSequenceError)];
    ++context.counters.naks_received;
    return PacketOutcome::done();
  }
  return on_sequence_nak(context, state, now, progressed);
}

PacketOutcome on_read_response(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  const Psn psn = view.bth.psn;
  PacketOutcome outcome;
  if (!is_due(context, state, now, psn, outcome)) {
    return outcome;
  }
  Work& read = *state.oldest;
  if (read.kind != WorkKind::kRead) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  const uint32_t index = static_cast<uint32_t>(read.first_psn.distance_to(psn));
  if (!fits_request(context, read, index, view)) {
    ++context.core.stats.bad_responses;
    return PacketOutcome::fail(QpErrorCause::kBadResponse);
  }
  const bool took = keep_payload(read, view, frame);
  if (view.traits->aeth != wire::OpcodeTraits::kAbsent) {
    take_credits(state, view.aeth());
  }
  take_response(context, state, now, index + 1 == read.packets);
  return took ? PacketOutcome::took() : PacketOutcome::done();
}

PacketOutcome on_atomic_acknowledge(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  PacketOutcome outcome;
  if (!is_due(context, state, now, view.bth.psn, outcome)) {
    return outcome;
  }
  Work& work = *state.oldest;
  const bool is_atomic = work.kind == WorkKind::kCompareSwap || work.kind == WorkKind::kFetchAdd;
  if (!is_atomic || view.aeth().kind() != wire::AethKind::kAck) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  work.operand = view.atomic_ack_eth().original;
  take_credits(state, view.aeth());
  take_response(context, state, now, true);
  return PacketOutcome::done();
}

void flush_works(QpContext& context, SendState& state, verbs::WcStatus first) {
  verbs::WcStatus status = first;
  while (state.oldest != nullptr) {
    complete_oldest(context, state, status);
    status = verbs::WcStatus::kWorkRequestFlushed;
  }
  drop_board(context, state);
  state.cursor = SendCursor{};
  state.una = state.limit_psn;
  state.next_psn = state.limit_psn;
  state.read_psns = 0;
  state.reads_outstanding = 0;
  state.waiting_rnr = false;
  state.probe_due = false;
  state.probing = false;
  state.sampling = false;
}

verbs::WcStatus status_of(QpErrorCause cause) {
  switch (cause) {
    case QpErrorCause::kRetryExceeded:
      return verbs::WcStatus::kRetryExceeded;
    case QpErrorCause::kRnrRetryExceeded:
      return verbs::WcStatus::kRnrRetryExceeded;
    case QpErrorCause::kBadResponse:
      return verbs::WcStatus::kBadResponse;
    case QpErrorCause::kNakInvalidRequest:
      return verbs::WcStatus::kRemoteInvalidRequest;
    case QpErrorCause::kNakRemoteAccess:
      return verbs::WcStatus::kRemoteAccessError;
    case QpErrorCause::kNakRemoteOperation:
      return verbs::WcStatus::kRemoteOperationError;
    case QpErrorCause::kNone:
    case QpErrorCause::kClosed:
    case QpErrorCause::kOpcodeSequence:
    case QpErrorCause::kOperationNotAllowed:
    case QpErrorCause::kPacketLength:
    case QpErrorCause::kMessageTooLong:
    case QpErrorCause::kWriteLength:
    case QpErrorCause::kMemoryAccess:
    case QpErrorCause::kMisalignedAtomic:
    case QpErrorCause::kMemoryGone:
      break;
  }
  return verbs::WcStatus::kWorkRequestFlushed;
}

}  // namespace cw::rc
