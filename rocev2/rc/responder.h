// The responder: executes the peer's requests in PSN order, exactly once, and notes what has to be answered.
//
// Ownership: a SEND's frame becomes part of the message, trimmed to its payload; a WRITE is copied into the named memory; READ
// responses are built from the named memory when they are sent. A message costs one Work of the endpoint's receive slab, or
// counts as one, from its first packet until it is polled. Failure: what the peer does wrong is answered by one NAK and ends the
// queue pair (PacketOutcome::failure); a missing receive is answered by an RNR NAK and changes nothing.
#pragma once

#include "base/time.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// A SEND, WRITE, READ or atomic request.
[[nodiscard]] PacketOutcome on_request(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view,
                                       Buffer* frame);

// A SEND of one packet with nothing but payload would be executed at once: the checks that do not depend on the packet, when
// its PSN is the expected one and its length is not above receive_bytes_max nor the path MTU.
[[nodiscard]] inline bool takes_whole_send(const QpContext& context, const ReceiveState& state) {
  return state.in_progress == wire::OpcodeKind::kReserved && !state.gap && state.held == nullptr &&
         state.reply <= ReplyKind::kAck && state.receives_left() > 0 && context.core.has_receive_work() &&
         context.core.watermark == BufferWatermark::kPlenty;
}
// What on_request() does with such a SEND. Takes `frame`, trimmed to the payload. Precondition: takes_whole_send().
void take_whole_send(QpContext& context, ReceiveState& state, Instant now, Buffer* frame, bool solicited, bool ack_request);

// Something has to be sent now.
[[nodiscard]] inline bool owes_reply(const ReceiveState& state) {
  return state.reply > ReplyKind::kAckLater || (state.reads != nullptr && !state.reads->idle());
}
[[nodiscard]] inline bool owes_read_responses(const ReceiveState& state) {
  return state.reads != nullptr && !state.reads->idle();
}

// A request was refused: forgets the message being assembled. READs before it are still answered, and then comes the NAK.
void abandon_messages(QpContext& context, ReceiveState& state);
// The queue pair failed for another reason or is destroyed: forgets the READs too. A NAK that is owed stays to be sent.
void abandon_requests(QpContext& context, ReceiveState& state);

}  // namespace cw::rc
