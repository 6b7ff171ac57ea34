// The responder: executes the peer's requests in PSN order, exactly once, and notes what has to be answered.
//
// Ownership: a SEND's frame becomes part of the message, trimmed to its payload; a WRITE is copied into the named memory; READ
// responses are built from the named memory when they are sent. A message costs one Work of the endpoint's receive slab from its
// first packet until it is polled. Failure: what the peer does wrong is answered by one NAK and ends the queue pair
// (PacketOutcome::failure); a missing receive is answered by an RNR NAK and changes nothing.
#pragma once

#include "base/time.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// A SEND, WRITE, READ or atomic request.
[[nodiscard]] PacketOutcome on_request(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view,
                                       Buffer* frame);

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
