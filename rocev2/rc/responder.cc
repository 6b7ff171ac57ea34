#include "rocev2/rc/responder.h"

#include <cstring>
#include <utility>

#include "rocev2/rc/ack_policy.h"
#include "rocev2/rc/responder_checks.h"
#include "rocev2/rc/responder_hold.h"
#include "verbs/work_request.h"

namespace cw::rc {
namespace {

using wire::DropReason;
using wire::NakCode;
using wire::OpcodeKind;
using wire::OpcodeTraits;

constexpr uint32_t kMsnMask = 0xff'ffff;

void take_permission(ReceiveState& state) {
  if (state.pool != nullptr) {
    state.pool->take();
  } else {
    --state.receives;
  }
}

// A Work for a message that begins. check_resources has seen that there is one.
Work* take_receive(QpContext& context, ReceiveState& state, Instant now) {
  Work* message = context.core.receives.create();
  CW_ASSERT(message != nullptr);
  message->kind = WorkKind::kReceive;
  message->begun_at = now;
  take_permission(state);
  return message;
}

void deliver(QpContext& context, Work* message, verbs::WcStatus status) {
  message->status = status;
  context.completions.push(context.core, message);
}

bool append_payload(Work& message, const wire::PacketView& view, Buffer* frame) {
  if (view.payload.empty()) {
    return false;
  }
  frame->give_up_front(static_cast<uint32_t>(view.payload.data() - frame->data));
  frame->size = static_cast<uint32_t>(view.payload.size());
  message.payload.push_back(frame);
  message.length += frame->size;
  return true;
}

void step_over_packet(ReceiveState& state) {
  state.ack_psn = state.expected;
  state.expected = state.expected.next();
}

void end_message(ReceiveState& state) {
  state.msn = (state.msn + 1) & kMsnMask;
  state.in_progress = OpcodeKind::kReserved;
}

// The packet has been executed: the next one is expected.
void step_over(ReceiveState& state, const wire::PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  step_over_packet(state);
  if (traits.ends_message()) {
    end_message(state);
  } else {
    state.in_progress = traits.kind;
  }
  if (view.bth.ack_request) {
    if (traits.kind == OpcodeKind::kSend && traits.ends_message()) {
      owe_ack_later(state);
    } else {
      owe_ack(state);
    }
  }
}

PacketOutcome refuse(QpContext& context, ReceiveState& state, NakCode code, QpErrorCause cause) {
  abandon_messages(context, state);  // what READs before it asked for is still answered
  owe_nak(state, code);
  return PacketOutcome::fail(cause);
}

// The owner learns of a message that was too long for it as of a receive that failed (IBA 9.7.5.2.4).
void deliver_too_long(QpContext& context, ReceiveState& state, Instant now) {
  Work* message = std::exchange(state.message, nullptr);
  if (message == nullptr && state.receives_left() > 0 && context.core.has_receive_work()) {
    message = take_receive(context, state, now);
  }
  if (message != nullptr) {
    context.core.released.append(std::move(message->payload));
    deliver(context, message, verbs::WcStatus::kLocalLengthError);
  }
}

PacketOutcome execute_send(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  const OpcodeTraits& traits = *view.traits;
  const bool invalidates = traits.ieth != OpcodeTraits::kAbsent;
  // Before the message is delivered, and before anything of it is kept: the owner may rely on the key being dead.
  if (invalidates && !context.core.memory->invalidate(context.domain, view.invalidate_rkey())) {
    return refuse(context, state, NakCode::kRemoteAccessError, QpErrorCause::kMemoryAccess);
  }
  if (traits.starts_message()) {
    state.message = take_receive(context, state, now);
  }
  Work& message = *state.message;
  const bool took = append_payload(message, view, frame);
  if (traits.ends_message()) {
    if (traits.immdt != OpcodeTraits::kAbsent) {
      message.has_immediate = true;
      message.immediate = view.immediate();
    }
    message.solicited = view.bth.solicited;
    if (invalidates) {
      message.has_invalidate = true;
      message.rkey = view.invalidate_rkey();
    }
    deliver(context, std::exchange(state.message, nullptr), verbs::WcStatus::kSuccess);
  }
  step_over(state, view);
  return took ? PacketOutcome::took() : PacketOutcome::done();
}

PacketOutcome execute_write(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  if (traits.starts_message()) {
    const wire::Reth reth = view.reth();
    state.write_rkey = reth.rkey;
    state.write_address = reth.address;
    state.write_left = reth.length;
    state.write_bytes = reth.length;
  }
  const uint32_t bytes = static_cast<uint32_t>(view.payload.size());
  if (bytes > 0) {
    const auto memory =
        context.core.memory->resolve(context.domain, state.write_rkey, state.write_address, bytes, verbs::RemoteAccess::kWrite);
    if (!memory.ok()) {
      return refuse(context, state, NakCode::kRemoteAccessError, QpErrorCause::kMemoryAccess);
    }
    std::memcpy(memory.value().data(), view.payload.data(), bytes);
    state.write_address += bytes;
    state.write_left -= bytes;
  }
  if (traits.immdt != OpcodeTraits::kAbsent) {
    Work* message = take_receive(context, state, now);
    message->write_immediate = true;
    message->length = state.write_bytes;
    message->has_immediate = true;
    message->immediate = view.immediate();
    message->solicited = view.bth.solicited;
    deliver(context, message, verbs::WcStatus::kSuccess);
  }
  step_over(state, view);
  return PacketOutcome::done();
}

PacketOutcome execute_read(QpContext& context, ReceiveState& state, const wire::PacketView& view) {
  const wire::Reth reth = view.reth();
  state.msn = (state.msn + 1) & kMsnMask;
  state.reads->accept(
      {.first_psn = state.expected, .rkey = reth.rkey, .address = reth.address, .bytes = reth.length, .msn = state.msn});
  state.expected = state.expected.plus(context.packets_of(reth.length));
  answered_by_read(state);
  return PacketOutcome::done();
}

// The eight bytes are one number in our own byte order, as our own loads and stores see it; on the wire it is big-endian.
// Nothing else of this core runs between load and store, so that the operation is atomic to every other access by way of this
// endpoint (IBV_ATOMIC_HCA), but not to other threads that use the memory themselves.
PacketOutcome execute_atomic(QpContext& context, ReceiveState& state, const wire::PacketView& view) {
  const wire::AtomicEth atomic = view.atomic_eth();
  const auto memory = context.core.memory->resolve(context.domain, atomic.rkey, atomic.address, verbs::kAtomicBytes,
                                                   verbs::RemoteAccess::kAtomic);
  if (!memory.ok()) {
    return refuse(context, state, NakCode::kRemoteAccessError, QpErrorCause::kMemoryAccess);
  }
  uint64_t original = 0;
  std::memcpy(&original, memory.value().data(), sizeof(original));
  const bool compares = view.bth.opcode == wire::Opcode::kRcCompareSwap;
  if (!compares || original == atomic.compare) {
    const uint64_t changed = compares ? atomic.swap_or_add : original + atomic.swap_or_add;
    std::memcpy(memory.value().data(), &changed, sizeof(changed));
  }
  state.msn = (state.msn + 1) & kMsnMask;
  state.reads->accept({.first_psn = state.expected,
                       .rkey = atomic.rkey,
                       .address = atomic.address,
                       .original = original,
                       .msn = state.msn,
                       .kind = compares ? ReadJobKind::kCompareSwap : ReadJobKind::kFetchAdd});
  state.expected = state.expected.next();
  answered_by_read(state);
  return PacketOutcome::done();
}

PacketOutcome execute(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  forgive_gap(state);
  state.peer_port = view.source_port;
  switch (view.traits->kind) {
    case OpcodeKind::kSend:
      return execute_send(context, state, now, view, frame);
    case OpcodeKind::kWrite:
      return execute_write(context, state, now, view);
    case OpcodeKind::kAtomic:
      return execute_atomic(context, state, view);
    default:
      return execute_read(context, state, view);  // check_operation let nothing else pass
  }
}

// A request that has been executed already: acknowledged again, read again, or answered from memory; never executed again.
PacketOutcome repeat(QpContext& context, ReceiveState& state, const wire::PacketView& view) {
  ++context.core.stats.duplicate_requests;
  ++context.counters.duplicate_requests;
  context.note(TransportEventKind::kDuplicateRequest, view.bth.psn);
  switch (view.traits->kind) {
    case OpcodeKind::kReadRequest:
      if (state.reads == nullptr || !state.reads->replay(view.bth.psn, view.reth(), context.mtu_bytes)) {
        return PacketOutcome::drop(DropReason::kDuplicate);
      }
      ++context.core.stats.reads_replayed;
      return PacketOutcome::done();
    case OpcodeKind::kAtomic:
      if (state.reads == nullptr || !state.reads->replay_atomic(view.bth.psn, view.bth.opcode, view.atomic_eth())) {
        return PacketOutcome::drop(DropReason::kDuplicate);
      }
      ++context.core.stats.atomics_replayed;
      return PacketOutcome::done();
    case OpcodeKind::kSend:
    case OpcodeKind::kWrite:
      if (state.held != nullptr && context.hold_packets > 0) {
        owe_gap_report(state);
      } else {
        owe_ack(state);
      }
      return PacketOutcome::done();
    default:
      return PacketOutcome::drop(DropReason::kDuplicate);
  }
}

PacketOutcome report_gap(QpContext& context, ReceiveState& state, wire::Psn psn) {
  ++context.core.stats.out_of_sequence;
  context.note(TransportEventKind::kOutOfSequence, psn);
  state.gap = true;
  state.last_ahead = psn;
  owe_nak(state, NakCode::kPsnSequenceError);
  return PacketOutcome::drop(DropReason::kOutOfSequence);
}

// How long a peer waits whose message found few packet buffers: they come back with the answers of others, and each repetition
// brings all packets of the message for nothing.
constexpr uint8_t kBuffersTimer = 20;  // 10.24 ms

PacketOutcome report_not_ready(ReceiveState& state, DropReason reason) {
  // What follows this packet is behind a gap, which the RNR NAK has told already.
  state.gap = true;
  state.last_ahead = state.expected;
  if (reason == DropReason::kNoBuffer) {
    owe_rnr_nak(state, kBuffersTimer);
    return PacketOutcome::drop(reason);
  }
  owe_rnr_nak(state, state.min_rnr_timer);
  return PacketOutcome::done();
}

PacketOutcome serve(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  Verdict verdict;
  check_request(context, state, view, verdict);
  const bool ahead = verdict.action == Verdict::Action::kNakSequence || verdict.reason == DropReason::kOutOfSequence;
  PacketOutcome outcome;
  if (ahead && context.hold_packets > 0 && hold(context, state, now, view, frame, outcome)) {
    return outcome;
  }
  if (ahead && context.awaits_late && hold_quietly(context, state, now, view, frame, outcome)) {
    return outcome;
  }
  switch (verdict.action) {
    case Verdict::Action::kContinue:
      return execute(context, state, now, view, frame);
    case Verdict::Action::kIgnore:
      if (verdict.reason == DropReason::kOutOfSequence) {
        ++context.core.stats.out_of_sequence;
        context.note(TransportEventKind::kOutOfSequence, view.bth.psn);
        state.last_ahead = view.bth.psn;
      }
      return PacketOutcome::drop(verdict.reason);
    case Verdict::Action::kDuplicateRequest:
      return repeat(context, state, view);
    case Verdict::Action::kNakSequence:
      return report_gap(context, state, view.bth.psn);
    case Verdict::Action::kRnrNak:
      if (context.awaits_late) {
        drop_held(context, state);  // the peer repeats it
      }
      return report_not_ready(state, verdict.reason);
    case Verdict::Action::kNakInvalid:
      if (verdict.cause == QpErrorCause::kMessageTooLong) {
        deliver_too_long(context, state, now);
      }
      return refuse(context, state, NakCode::kInvalidRequest, verdict.cause);
    case Verdict::Action::kNakAccess:
      return refuse(context, state, NakCode::kRemoteAccessError, verdict.cause);
  }
  return PacketOutcome::drop(DropReason::kUnexpected);
}

// `expected` has moved on: what was held for it is served as if it came now. Everything held is given up when one of them cannot
// be executed yet, because then the peer repeats all of it.
PacketOutcome serve_held(QpContext& context, ReceiveState& state, Instant now) {
  while (Buffer* frame = state.held->take(state.expected)) {
    context.core.held_budget.give_back(context.budget_place, 1);
    const auto view = wire::PacketView::parse(frame->bytes());
    CW_ASSERT(view.ok());  // it was when it came
    const wire::Psn before = state.expected;
    const PacketOutcome outcome = serve(context, state, now, *view, frame);
    if (!outcome.took_frame) {
      release_buffers(frame);
    }
    if (outcome.failure != QpErrorCause::kNone) {
      return outcome;
    }
    if (state.expected == before) {
      drop_held(context, state);
      return PacketOutcome::done();
    }
    drop_held_between(context, state, before, state.expected);
  }
  if (state.held->empty()) {
    drop_held(context, state);
  } else {
    state.gap = true;
    await_next_gap(context, state, now);
  }
  return PacketOutcome::done();
}

}  // namespace

PacketOutcome on_request(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  const wire::Psn before = state.expected;
  const PacketOutcome outcome = serve(context, state, now, view, frame);
  if (state.held == nullptr || state.expected == before) [[likely]] {
    return outcome;
  }
  drop_held_between(context, state, before, state.expected);
  const PacketOutcome further = serve_held(context, state, now);
  return PacketOutcome{.took_frame = outcome.took_frame, .failure = further.failure};
}

void take_whole_send(QpContext& context, ReceiveState& state, Instant now, Buffer* frame, bool solicited, bool ack_request) {
  if (!solicited) [[likely]] {
    take_permission(state);
    context.completions.push_whole(context.core, frame, now);
  } else {
    Work* message = take_receive(context, state, now);
    message->payload.push_back(frame);
    message->length = frame->size;
    message->solicited = true;
    deliver(context, message, verbs::WcStatus::kSuccess);
  }
  step_over_packet(state);
  end_message(state);
  if (ack_request) {
    owe_ack_later(state);
  }
}

void abandon_messages(QpContext& context, ReceiveState& state) {
  drop_held(context, state);
  if (state.message != nullptr) {
    context.core.released.append(std::move(state.message->payload));
    context.core.receives.destroy(std::exchange(state.message, nullptr));
    if (state.pool != nullptr) {
      state.pool->give_back(1);  // nobody will poll this message, and so nobody would post for it again
    }
  }
  state.in_progress = OpcodeKind::kReserved;
}

void abandon_requests(QpContext& context, ReceiveState& state) {
  abandon_messages(context, state);
  if (state.reads != nullptr) {
    state.reads->clear();
  }
}

}  // namespace cw::rc
