// The checks that a request packet has to pass, one small function each, in the standard's order (IBA 9.7.4.1): PSN, opcode
// sequence, operation, resources, length, memory. Each looks and says a Verdict; none changes anything.
#pragma once

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

struct Verdict {
  enum class Action : uint8_t {
    kContinue,          // passes
    kIgnore,            // count under `reason`
    kDuplicateRequest,  // seen before: answer again
    kNakSequence,       // something before it is missing
    kRnrNak,            // no receive posted, or, counted under kNoBuffer, few packet buffers
    kNakInvalid,        // NAK Invalid Request; the queue pair fails with `cause`
    kNakAccess,         // NAK Remote Access Error; likewise
  };
  Action action = Action::kContinue;
  wire::DropReason reason = wire::DropReason::kCount;
  QpErrorCause cause = QpErrorCause::kNone;
  friend bool operator==(const Verdict&, const Verdict&) = default;

  [[nodiscard]] static Verdict pass() { return {}; }
  [[nodiscard]] static Verdict ignore(wire::DropReason why) { return {.action = Action::kIgnore, .reason = why}; }
  [[nodiscard]] static Verdict of(Action action) { return {.action = action}; }
  [[nodiscard]] static Verdict short_of_buffers() { return {.action = Action::kRnrNak, .reason = wire::DropReason::kNoBuffer}; }
  [[nodiscard]] static Verdict invalid(QpErrorCause cause) { return {.action = Action::kNakInvalid, .cause = cause}; }
  [[nodiscard]] static Verdict access() { return {.action = Action::kNakAccess, .cause = QpErrorCause::kMemoryAccess}; }
};

[[nodiscard]] Verdict check_psn(const QpContext& context, const ReceiveState& state, wire::Psn psn);
[[nodiscard]] Verdict check_opcode_sequence(const ReceiveState& state, const wire::OpcodeTraits& traits);
[[nodiscard]] Verdict check_operation(const QpContext& context, const ReceiveState& state, const wire::OpcodeTraits& traits);
[[nodiscard]] Verdict check_resources(const QpContext& context, const ReceiveState& state, const wire::OpcodeTraits& traits);
[[nodiscard]] Verdict check_length(const QpContext& context, const ReceiveState& state, const wire::PacketView& view);
[[nodiscard]] Verdict check_memory(const QpContext& context, const ReceiveState& state, const wire::PacketView& view);

// All of them in order, up to the first that does not pass. Into memory of the caller: returned in a register, the Verdict
// would be put together from its bytes first, and that once per packet.
[[gnu::flatten]] void check_request(const QpContext& context, const ReceiveState& state, const wire::PacketView& view,
                                    Verdict& verdict);

// True when executing the packet consumes one of the posted receives.
[[nodiscard]] bool takes_receive(const wire::OpcodeTraits& traits);

}  // namespace cw::rc
