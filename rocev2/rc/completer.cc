#include "rocev2/rc/completer.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/early_responses.h"
#include "rocev2/rc/retransmit.h"
#include "rocev2/rc/whole_sends.h"
#include "rocev2/wire/aeth.h"

namespace cw::rc {
namespace {

using wire::DropReason;
using wire::Psn;

// Takes the oldest work out of the queue and gives it to the owner, or back to the slab when nobody wants to know.
void complete_oldest(QpContext& context, SendState& state, verbs::WcStatus status) {
  Work* work = state.oldest;
  state.oldest = std::exchange(work->next, nullptr);
  --state.queue_count;
  const bool keeps_payload = work->kind == WorkKind::kRead && status == verbs::WcStatus::kSuccess;
  if (!keeps_payload) {
    context.core.released.append(std::move(work->payload));
  }
  work->status = status;
  if (work->signaled || status != verbs::WcStatus::kSuccess) {
    context.completions.push(context.core, work);
  } else {
    context.core.sends.destroy(work);
  }
}

// una has moved: retries start again, and a cursor that was left behind catches up. `reported`: the peer has said what else it
// holds, if anything, as acknowledgements and gap reports do.
void note_progress(QpContext& context, SendState& state, Instant now, bool reported) {
  state.progress_at = now;
  state.retries.on_progress();
  state.rnr_retries.on_progress();
  state.probe.on_progress(now, least_answer_time(state), !state.window.awaiting());
  if (state.recovery.is_under_way() && !state.recovery.timed_out() && state.rtt.is_trusted() &&
      now - state.recovery.went_back_at() < least_answer_time(state)) {
    note_late(context, state, now - state.recovery.went_back_at(), true);  // no repetition has been answered so soon
    state.suspected.learn(true);
  }
  state.suspected.drop();
  state.recovery.end();
  state.rnr.end();
  if (const auto sampled = state.rtt.sampled_psn(); sampled.has_value() && sampled->distance_to(state.window.una()) > 0) {
    take_sample(state, now);
  }
  settle_board(context, state, now, reported);
  if (state.window.catch_up()) {
    state.cursor = cursor_at_una(state, context.mtu_bytes);
  }
}

// The peer says with each answer how many receives it has, or that it does not count them (IBA 9.7.7.2). A count that is older
// than what we know changes nothing.
void take_credits(SendState& state, const wire::Aeth& aeth) {
  if (aeth.syndrome == wire::Aeth::kCreditsInvalid) {
    state.credit_limit.reset();
    return;
  }
  if (aeth.kind() != wire::AethKind::kAck) {
    return;
  }
  const Psn limit = Psn(aeth.msn).plus(wire::credit_count(aeth.code()));
  if (!state.credit_limit.has_value() || state.credit_limit->distance_to(limit) > 0) {
    state.credit_limit = limit;
  }
}

// The oldest works, as long as they are of one packet each, nobody wants to know of them, and they lie before `upto`: what
// acknowledge_before() does with each. Most of what is acknowledged is like that.
void acknowledge_plain_ones(QpContext& context, SendState& state, Psn upto) {
  Work* work = state.oldest;
  Psn una = state.window.una();
  while (work != nullptr && una != upto && work->plain && work->packets == 1 && !work->signaled) {
    Work* next = work->next;
    una = una.next();
    context.core.released.append(std::move(work->payload));
    context.core.sends.destroy(work);
    --state.queue_count;
    work = next;
  }
  state.oldest = work;
  state.window.acknowledge(una);
}

// Everything before `upto` has arrived. Stops at a READ or atomic whose response is missing; una says how far it
// came. True when una moved.
// Precondition: upto in [una, limit_psn].
bool acknowledge_before(QpContext& context, SendState& state, Instant now, Psn upto, bool reported) {
  const Psn before = state.window.una();
  acknowledge_plain_ones(context, state, upto);
  for (; state.window.una() != upto; acknowledge_plain_ones(context, state, upto)) {
    if (state.oldest == nullptr) {
      acknowledge_whole_sends(context, state, upto);
      break;
    }
    const Work& work = *state.oldest;
    if (work.awaits_response()) {
      break;
    }
    const Psn end = work.first_psn.plus(work.packets);
    if (end.distance_to(upto) < 0) {
      state.window.acknowledge(upto);
      break;
    }
    state.window.acknowledge(end);
    complete_oldest(context, state, verbs::WcStatus::kSuccess);
  }
  if (state.window.una() == before) {
    return false;
  }
  note_progress(context, state, now, reported);
  return true;
}

PacketOutcome drop_as_stale(const QpContext& context, const SendState& state, Psn psn) {
  const int32_t distance = state.window.una().distance_to(psn);
  const bool settled_before = distance < 0 && context.inside_window(distance);
  return PacketOutcome::drop(settled_before ? DropReason::kDuplicate : DropReason::kPsnStale);
}

// `psn` has been answered and is behind una.
PacketOutcome on_implied_nak(QpContext& context, SendState& state, Instant now, Psn psn, bool progressed) {
  if (!is_news_of_gap(state, psn)) {
    return PacketOutcome::done();
  }
  ++context.core.stats.implied_naks;
  context.note(TransportEventKind::kResponseMissing, psn);
  const QpErrorCause failure = repeat_from(context, state, now, state.window.una(), progressed);
  return failure == QpErrorCause::kNone ? PacketOutcome::done() : PacketOutcome::fail(failure);
}

PacketOutcome on_ack(QpContext& context, SendState& state, Instant now, Psn psn, uint16_t source_port) {
  const bool progressed = acknowledge_before(context, state, now, psn.next(), true);
  if (state.window.una() != psn.next()) {
    make_works(context, state);
    if (note_executed_before(context, state, now, psn.next(), source_port)) {
      return PacketOutcome::done();
    }
    return on_implied_nak(context, state, now, psn, progressed);
  }
  state.peer_port = source_port;
  ++context.core.stats.acks_received;
  settle_probe(state, now);
  return PacketOutcome::done();
}

PacketOutcome on_rnr_nak(QpContext& context, SendState& state, Instant now, Psn psn, uint8_t timer_code) {
  ++context.core.stats.rnr_naks_received;
  ++context.counters.naks_received;
  context.note(TransportEventKind::kRnrNakReceived, psn, timer_code);
  if (state.rnr.is_under_way()) {
    return PacketOutcome::drop(DropReason::kDuplicate);  // else a copy of the packet could stretch the wait
  }
  constexpr uint8_t kForEver = 7;
  if (state.rnr_retries.max() != kForEver && state.rnr_retries.exhausted()) {
    ++context.core.stats.rnr_retries_exhausted;
    return PacketOutcome::fail(QpErrorCause::kRnrRetryExceeded);
  }
  if (state.rnr_retries.used() < kForEver) {
    state.rnr_retries.use();
  }
  go_back_to(context, state, now, psn);
  state.rnr.start(now + wire::rnr_timer(timer_code));
  return PacketOutcome::done();
}

PacketOutcome on_sequence_nak(QpContext& context, SendState& state, Instant now, Psn psn, bool progressed) {
  ++context.core.stats.naks_received[static_cast<size_t>(wire::NakCode::kPsnSequenceError)];
  ++context.counters.naks_received;
  context.note(TransportEventKind::kNakReceived, psn, static_cast<uint8_t>(wire::NakCode::kPsnSequenceError));
  const QpErrorCause failure = repeat_from(context, state, now, psn, progressed);
  return failure == QpErrorCause::kNone ? PacketOutcome::done() : PacketOutcome::fail(failure);
}

// Any other NAK code.
PacketOutcome on_refusal(QpContext& context, Psn psn, uint8_t code) {
  context.note(TransportEventKind::kNakReceived, psn, code);
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

// The responses from una on up to number `end` of the oldest work, none of them of a later request than the first, have arrived.
// The cursor has either passed the whole request or, after going back, stands at or before these responses.
void settle_responses(QpContext& context, SendState& state, uint32_t end) {
  const uint32_t begin = state.index_of_una();
  const bool whole = end == state.oldest->request_end(begin, state.read_window.request_packets());
  state.window.on_responses(end - begin, whole);
  if (end == state.oldest->packets) {
    complete_oldest(context, state, verbs::WcStatus::kSuccess);
  }
}

// The response with PSN una has arrived.
void take_response(QpContext& context, SendState& state, Instant now) {
  settle_responses(context, state, state.index_of_una() + 1);
  note_progress(context, state, now, false);
}

// Everything before `upto`, responses included, has been answered and has arrived. Precondition: upto is behind una, and gaps
// were watched.
void settle_before(QpContext& context, SendState& state, Instant now, Psn upto) {
  while (state.window.una() != upto) {
    const Work& work = *state.oldest;
    const auto ahead = static_cast<uint32_t>(work.first_psn.distance_to(upto));
    if (work.awaits_response()) {
      const uint32_t begin = state.index_of_una();
      const uint32_t end = std::min(ahead, work.request_end(begin, state.read_window.request_packets()));
      if (state.gaps != nullptr) {
        state.gaps->note_settled(end - begin);
      }
      settle_responses(context, state, end);
    } else if (ahead < work.packets) {
      state.window.acknowledge(upto);
    } else {
      state.window.acknowledge(work.first_psn.plus(work.packets));
      complete_oldest(context, state, verbs::WcStatus::kSuccess);
    }
  }
  note_progress(context, state, now, false);
}

// A response has come while others were missing: una goes to what is missing now.
void settle_gaps(QpContext& context, SendState& state, Instant now) {
  if (state.gaps == nullptr) {
    return;
  }
  const Psn upto = state.gaps->first_missing();
  if (state.gaps->empty()) {
    context.core.read_gaps.destroy(std::exchange(state.gaps, nullptr));
  }
  if (upto != state.window.una()) {
    settle_before(context, state, now, upto);
  }
}

enum class Turn : uint8_t {
  kNow,    // the response awaited next
  kEarly,  // others are missing: see early_responses.h
  kNone,   // of no use
};

// When it is the turn of a response; everything before it that needs none is acknowledged. For kNone `outcome` says what became
// of the packet. A useless response is a sign of life nevertheless, unless it lies outside the PSN window.
Turn turn_of(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, PacketOutcome& outcome) {
  const Psn psn = view.bth.psn;
  if (!state.window.is_outstanding(psn)) {
    outcome = drop_as_stale(context, state, psn);
    state.heard_at = outcome.reason == DropReason::kDuplicate ? now : state.heard_at;
    return Turn::kNone;
  }
  note_pause(state, now, psn);
  if (state.gaps != nullptr) {
    return Turn::kEarly;
  }
  const bool progressed = acknowledge_before(context, state, now, psn, false);
  if (state.window.una() == psn) {
    return Turn::kNow;
  }
  if (open_gaps(context, state, view.source_port)) {
    return Turn::kEarly;
  }
  state.heard_at = now;
  outcome = on_implied_nak(context, state, now, psn, progressed);
  if (outcome.failure == QpErrorCause::kNone) {
    outcome = PacketOutcome::drop(DropReason::kOutOfSequence);
  }
  return Turn::kNone;
}

PacketOutcome take_early_response(QpContext& context, SendState& state, Instant now, const wire::PacketView& view,
                                  Buffer* frame) {
  const PacketOutcome outcome = take_early(context, state, now, view, frame);
  settle_gaps(context, state, now);
  return outcome;
}

// A later request has been answered, so that a NAK for this one is an old one.
bool is_executed(const SendState& state, Psn psn) {
  return state.gaps != nullptr && psn.distance_to(state.gaps->frontier()) > 0;
}

}  // namespace

PacketOutcome on_acknowledge(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  const Psn psn = view.bth.psn;
  const wire::Aeth aeth = view.aeth();
  if (!state.window.is_outstanding(psn)) {
    if (psn.next() == state.window.una()) {
      take_credits(state, aeth);  // an acknowledgement repeated to say that there are receives again
    }
    if (state.keepalive.count() > 0 && aeth.kind() == wire::AethKind::kAck && state.window.una().distance_to(psn) < 0) {
      return PacketOutcome::done();  // names the last SEND or WRITE, however long ago that was
    }
    return drop_as_stale(context, state, psn);
  }
  take_credits(state, aeth);
  if (aeth.kind() == wire::AethKind::kReserved) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (aeth.kind() == wire::AethKind::kAck) {
    return on_ack(context, state, now, psn, view.source_port);
  }
  make_works(context, state);
  // A NAK acknowledges everything before the PSN that it names.
  const bool progressed = acknowledge_before(context, state, now, psn, true);
  if (aeth.kind() == wire::AethKind::kNak && aeth.code() != static_cast<uint8_t>(wire::NakCode::kPsnSequenceError)) {
    // Even when READ data before it are missing: the peer is in Error and would not answer a repetition.
    return on_refusal(context, view.bth.psn, aeth.code());
  }
  if (is_executed(state, psn)) {
    return PacketOutcome::drop(DropReason::kDuplicate);
  }
  if (state.window.una() != psn && !note_executed_before(context, state, now, psn, view.source_port)) {
    return on_implied_nak(context, state, now, psn, progressed);
  }
  if (aeth.kind() == wire::AethKind::kRnrNak) {
    return on_rnr_nak(context, state, now, psn, aeth.code());
  }
  return on_sequence_nak(context, state, now, psn, progressed);
}

PacketOutcome on_gap_report(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  const Psn psn = view.bth.psn;
  const auto report = wire::GapReport::parse(view.payload);
  if (context.hold_packets == 0 || !report.ok() ||
      view.aeth() != wire::Aeth::nak(wire::NakCode::kPsnSequenceError, view.aeth().msn)) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (!state.window.is_outstanding(psn)) {
    return drop_as_stale(context, state, psn);
  }
  ++context.core.stats.gap_reports_received;
  context.note(TransportEventKind::kGapReportReceived, psn);
  const bool progressed = acknowledge_before(context, state, now, psn, true);
  if (is_executed(state, psn)) {
    return PacketOutcome::drop(DropReason::kDuplicate);
  }
  if (state.window.una() != psn && !note_executed_before(context, state, now, psn, view.source_port)) {
    return on_implied_nak(context, state, now, psn, progressed);
  }
  if (state.rnr.is_under_way() || note_gap(context, state, now, psn, *report)) {
    ++context.core.stats.naks_received[static_cast<size_t>(wire::NakCode::kPsnSequenceError)];
    ++context.counters.naks_received;
    return PacketOutcome::done();
  }
  return on_sequence_nak(context, state, now, psn, progressed);
}

PacketOutcome on_read_response(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  if (state.repeats != nullptr && view.traits->starts_message()) [[unlikely]] {
    // While no round trip has been measured, no answer is too early.
    const Duration least = state.rtt.is_measured() ? least_answer_time(state) : Duration();
    state.repeats->note_answer(view.bth.psn, now, least);
  }
  PacketOutcome outcome;
  const Turn turn = turn_of(context, state, now, view, outcome);
  if (turn == Turn::kNone) {
    return outcome;
  }
  const bool has_aeth = view.traits->aeth != wire::OpcodeTraits::kAbsent;
  if (turn == Turn::kEarly) {
    outcome = take_early_response(context, state, now, view, frame);
    if (has_aeth && !outcome.dropped) {
      take_credits(state, view.aeth());
    }
    return outcome;
  }
  Work& read = *state.oldest;
  if (read.kind != WorkKind::kRead) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  const uint32_t index = static_cast<uint32_t>(read.first_psn.distance_to(view.bth.psn));
  if (!fits_request(context, state, read, index, view)) {
    ++context.core.stats.bad_responses;
    return PacketOutcome::fail(QpErrorCause::kBadResponse);
  }
  state.peer_port = view.source_port;
  const bool last = index + 1 == read.request_end(index, state.read_window.request_packets());
  const bool lone_probe = is_lone_probe_answer(state, read, view) && !last;
  Buffer* kept = trim_to_payload(view, frame);
  if (kept != nullptr) {
    read.payload.push_back(kept);
  }
  if (has_aeth) {
    take_credits(state, view.aeth());
  }
  take_response(context, state, now);
  if (lone_probe) {
    note_rest_lost(context, state, now, view.source_port);
  }
  return kept != nullptr ? PacketOutcome::took() : PacketOutcome::done();
}

uint32_t middles_awaited(const QpContext& context, const SendState& state) {
  const Work* read = state.oldest;
  const bool is_ordinary = !state.is_disordered() && !state.recovery.is_under_way() && !state.rnr.is_under_way() &&
                           state.probe.is_at_rest() && state.window.next_psn() == state.window.limit_psn() &&
                           context.core.watermark == BufferWatermark::kPlenty;
  if (read == nullptr || read->kind != WorkKind::kRead || !is_ordinary) {
    return 0;
  }
  const uint32_t index = state.index_of_una();
  if (!state.is_within_request(index)) {
    return 0;  // a First
  }
  const uint32_t before_last = read->request_end(index, state.read_window.request_packets()) - 1 - index;
  uint32_t most = std::min(before_last, state.window.psns_in_flight());
  if (const auto sampled = state.rtt.sampled_psn()) {
    // What the sample says counts from the next packet on.
    const int32_t distance = state.window.una().distance_to(*sampled);
    most = distance < 0 ? most : std::min(most, static_cast<uint32_t>(distance) + 1);
  }
  return most;
}

// To note progress once more in the same instant changes nothing where there is nothing to be learned from it: the last says it
// for all. Each says how long the silence before it was.
void take_middles(QpContext& context, SendState& state, Instant now, std::span<Buffer* const> frames, uint16_t source_port) {
  make_works(context, state);
  Work& read = *state.oldest;
  state.peer_port = source_port;
  for (Buffer* frame : frames) {
    note_pause(state, now, state.window.una());
    state.progress_at = now;
    read.payload.push_back(frame);
  }
  state.window.on_responses(static_cast<uint32_t>(frames.size()), false);
  note_progress(context, state, now, false);
}

PacketOutcome on_atomic_acknowledge(QpContext& context, SendState& state, Instant now, const wire::PacketView& view) {
  PacketOutcome outcome;
  const Turn turn = turn_of(context, state, now, view, outcome);
  if (turn == Turn::kNone) {
    return outcome;
  }
  if (turn == Turn::kEarly) {
    outcome = take_early_response(context, state, now, view, nullptr);
    if (!outcome.dropped) {
      take_credits(state, view.aeth());
    }
    return outcome;
  }
  Work& work = *state.oldest;
  const bool is_atomic = work.kind == WorkKind::kCompareSwap || work.kind == WorkKind::kFetchAdd;
  if (!is_atomic || view.aeth().kind() != wire::AethKind::kAck) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  state.peer_port = view.source_port;
  work.original = view.atomic_ack_eth().original;
  take_credits(state, view.aeth());
  take_response(context, state, now);
  return PacketOutcome::done();
}

void flush_works(QpContext& context, SendState& state, verbs::WcStatus first) {
  make_works(context, state);
  drop_gaps(context, state);
  verbs::WcStatus status = first;
  while (state.oldest != nullptr) {
    complete_oldest(context, state, status);
    status = verbs::WcStatus::kWorkRequestFlushed;
  }
  drop_board(context, state);
  drop_repeats(context, state);
  state.cursor = SendCursor{};
  state.window.abandon();
  state.rnr.end();
  state.keepalive.clear_due();
  state.recovery.clear_timeout();
  state.probe.cancel();
  state.rtt.cancel_sample();
}

verbs::WcStatus status_of(QpErrorCause cause) {
  switch (cause) {
    case QpErrorCause::kRetryExceeded:
    case QpErrorCause::kPeerSilent:
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
