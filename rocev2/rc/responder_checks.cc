#include "rocev2/rc/responder_checks.h"

#include "rocev2/rc/rc_options.h"
#include "verbs/work_request.h"

namespace cw::rc {
namespace {

using wire::DropReason;
using wire::OpcodeKind;
using wire::OpcodeTraits;
using Action = Verdict::Action;

bool carries_immediate(const OpcodeTraits& traits) {
  return traits.immdt != OpcodeTraits::kAbsent;
}
bool carries_invalidate(const OpcodeTraits& traits) {
  return traits.ieth != OpcodeTraits::kAbsent;
}

// Of a queue pair that is paused: what would begin a message, or comes behind what would.
bool is_for_the_next_process(const ReceiveState& state, const Verdict& verdict) {
  const bool is_new = verdict.action == Action::kContinue || verdict.action == Action::kNakSequence ||
                      verdict.reason == DropReason::kOutOfSequence;
  return state.in_progress == OpcodeKind::kReserved && is_new;
}

}  // namespace

Verdict check_psn(const QpContext& context, const ReceiveState& state, wire::Psn psn) {
  const int32_t distance = state.expected.distance_to(psn);
  if (distance == 0) {
    return Verdict::pass();
  }
  if (!context.inside_window(distance)) {
    return Verdict::ignore(DropReason::kPsnStale);
  }
  if (distance < 0) {
    return Verdict::of(Action::kDuplicateRequest);
  }
  // One NAK per gap (IBA 9.7.5.2.8). A PSN that does not follow the last one behind the gap means that the peer has gone back and
  // that the missing packet was lost again: saying so once more spares it the timeout.
  const bool peer_went_back = state.gap && state.last_ahead.distance_to(psn) <= 0;
  if (state.gap && !peer_went_back) {
    return Verdict::ignore(DropReason::kOutOfSequence);
  }
  return Verdict::of(Action::kNakSequence);
}

Verdict check_opcode_sequence(const ReceiveState& state, const OpcodeTraits& traits) {
  const bool between_messages = state.in_progress == OpcodeKind::kReserved;
  const bool fits = between_messages ? traits.starts_message() : !traits.starts_message() && traits.kind == state.in_progress;
  return fits ? Verdict::pass() : Verdict::invalid(QpErrorCause::kOpcodeSequence);
}

Verdict check_operation(const QpContext& context, const ReceiveState& state, const OpcodeTraits& traits) {
  const bool exposes_memory = context.core.memory != nullptr;
  bool allowed = false;
  switch (traits.kind) {
    case OpcodeKind::kSend:
      allowed = true;
      break;
    case OpcodeKind::kWrite:
      allowed = exposes_memory && grants(context.access, verbs::RemoteAccess::kWrite);
      break;
    case OpcodeKind::kReadRequest:
      allowed = exposes_memory && grants(context.access, verbs::RemoteAccess::kRead) && state.reads != nullptr &&
                state.responder_resources > 0;
      break;
    case OpcodeKind::kAtomic:
      allowed = exposes_memory && grants(context.access, verbs::RemoteAccess::kAtomic) && state.reads != nullptr &&
                state.responder_resources > 0;
      break;
    case OpcodeKind::kReserved:
    case OpcodeKind::kReadResponse:
    case OpcodeKind::kAcknowledge:
    case OpcodeKind::kAtomicAcknowledge:
    case OpcodeKind::kDatagram:
    case OpcodeKind::kCongestion:
    case OpcodeKind::kGapReport:
      break;
  }
  return allowed ? Verdict::pass() : Verdict::invalid(QpErrorCause::kOperationNotAllowed);
}

bool takes_receive(const OpcodeTraits& traits) {
  return traits.kind == OpcodeKind::kSend ? traits.starts_message()
                                          : traits.kind == OpcodeKind::kWrite && carries_immediate(traits);
}

Verdict check_resources(const QpContext& context, const ReceiveState& state, const OpcodeTraits& traits) {
  if ((traits.kind == OpcodeKind::kReadRequest || traits.kind == OpcodeKind::kAtomic) && state.reads->full()) {
    // More READs and atomics than agreed, or repetitions that we have not got round to: the peer's timeout brings it back.
    return Verdict::ignore(DropReason::kNoBuffer);
  }
  if (takes_receive(traits) && (state.receives_left() == 0 || !context.core.has_receive_work())) {
    return Verdict::of(Action::kRnrNak);
  }
  if (context.core.watermark != BufferWatermark::kPlenty && traits.kind == OpcodeKind::kSend && traits.starts_message())
      [[unlikely]] {
    return Verdict::short_of_buffers();
  }
  return Verdict::pass();
}

Verdict check_length(const QpContext& context, const ReceiveState& state, const wire::PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  if (!traits.may_carry_payload && !view.payload.empty()) {
    return Verdict::invalid(QpErrorCause::kPacketLength);
  }
  if (traits.kind == OpcodeKind::kAtomic) {
    return view.atomic_eth().address % verbs::kAtomicBytes == 0 ? Verdict::pass()
                                                                : Verdict::invalid(QpErrorCause::kMisalignedAtomic);
  }
  if (traits.kind == OpcodeKind::kReadRequest) {
    const uint32_t length = view.reth().length;
    const bool fits = length <= kMessageBytesMax && context.packets_of(length) <= context.psn_window_packets;
    return fits ? Verdict::pass() : Verdict::invalid(QpErrorCause::kMessageTooLong);
  }
  const size_t bytes = view.payload.size();
  const bool full = bytes == context.mtu_bytes;
  const bool right_for_place =
      traits.ends_message() ? bytes <= context.mtu_bytes && (bytes > 0 || traits.starts_message()) : full;
  if (!right_for_place) {
    return Verdict::invalid(QpErrorCause::kPacketLength);
  }
  if (traits.kind == OpcodeKind::kSend) {
    const uint64_t so_far = state.message != nullptr ? state.message->length : 0;
    return so_far + bytes <= state.receive_bytes_max ? Verdict::pass() : Verdict::invalid(QpErrorCause::kMessageTooLong);
  }
  const uint64_t left = traits.starts_message() ? view.reth().length : state.write_left;
  const bool right_for_message = traits.ends_message() ? bytes == left : bytes < left;
  return right_for_message && left <= kMessageBytesMax ? Verdict::pass() : Verdict::invalid(QpErrorCause::kWriteLength);
}

Verdict check_memory(const QpContext& context, const ReceiveState& state, const wire::PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  if (traits.kind == OpcodeKind::kSend) {
    // Whose key it is gets decided when it is invalidated, at the end of the message.
    return carries_invalidate(traits) && context.core.memory == nullptr ? Verdict::access() : Verdict::pass();
  }
  if (traits.kind == OpcodeKind::kAtomic) {
    const wire::AtomicEth atomic = view.atomic_eth();
    const auto memory = context.core.memory->resolve(context.domain, atomic.rkey, atomic.address, verbs::kAtomicBytes,
                                                     verbs::RemoteAccess::kAtomic);
    return memory.ok() ? Verdict::pass() : Verdict::access();
  }
  // The first packet proves the whole range; each further one proves its own part again, because the owner may have withdrawn the
  // region. A zero length names no memory, and its key is not looked at (IBA 9.7.4.1.5).
  const bool starts = traits.starts_message();
  const wire::Reth named =
      starts ? view.reth() : wire::Reth{state.write_address, state.write_rkey, static_cast<uint32_t>(view.payload.size())};
  if (named.length == 0) {
    return Verdict::pass();
  }
  const auto access = traits.kind == OpcodeKind::kWrite ? verbs::RemoteAccess::kWrite : verbs::RemoteAccess::kRead;
  const auto memory = context.core.memory->resolve(context.domain, named.rkey, named.address, named.length, access);
  return memory.ok() ? Verdict::pass() : Verdict::access();
}

void check_request(const QpContext& context, const ReceiveState& state, const wire::PacketView& view, Verdict& verdict) {
  verdict = check_psn(context, state, view.bth.psn);
  if (state.paused && is_for_the_next_process(state, verdict)) [[unlikely]] {
    verdict = Verdict::ignore(DropReason::kPaused);
    return;
  }
  if (verdict.action == Action::kContinue) {
    verdict = check_opcode_sequence(state, *view.traits);
  }
  if (verdict.action == Action::kContinue) {
    verdict = check_operation(context, state, *view.traits);
  }
  if (verdict.action == Action::kContinue) {
    verdict = check_resources(context, state, *view.traits);
  }
  if (verdict.action == Action::kContinue) {
    verdict = check_length(context, state, view);
  }
  if (verdict.action == Action::kContinue) {
    verdict = check_memory(context, state, view);
  }
}

}  // namespace cw::rc
