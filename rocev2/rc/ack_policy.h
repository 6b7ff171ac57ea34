// When the responder acknowledges: whatever asks for it, and every repetition, but once per queue pair and burst. The reply is
// only noted here; it is sent at the next poll_transmit, when everything that arrived in the burst has been executed, so that one
// cumulative acknowledgement answers all of it. A NAK wins over an acknowledgement, because it implies one.
//
// With many queue pairs a burst holds one or two messages of each, and an acknowledgement for every one would be half of all
// packets. So the acknowledgement of a SEND's end may wait for those of the SENDs behind it (EndpointOptions::ack_delay): until
// there are kAcksLaterMax, until the delay is over, or until nothing more comes in. Not where the peer has been silent for
// longer than the delay: company is not to be expected, and coming back to a queue pair costs its cache lines again. Only SENDs:
// who waits for the end of a WRITE waits for its acknowledgement, who sends calls waits for the replies. What asks for an
// acknowledgement within a long message runs out of window, and a repetition shows that one was lost: neither waits.
#pragma once

#include <cstdint>

#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/aeth.h"

namespace cw::rc {

constexpr uint8_t kAcksLaterMax = 16;

inline void owe_ack(ReceiveState& state) {
  if (state.reply <= ReplyKind::kAckLater) {
    state.reply = ReplyKind::kAck;
  }
}

inline void owe_ack_later(ReceiveState& state) {
  if (state.reply == ReplyKind::kNone) {
    state.reply = ReplyKind::kAckLater;
    state.acks_later = 0;
  }
  if (state.reply == ReplyKind::kAckLater && ++state.acks_later >= state.acks_later_max) {
    state.reply = ReplyKind::kAck;
  }
}

inline void owe_nak(ReceiveState& state, wire::NakCode code) {
  state.reply = ReplyKind::kNak;
  state.nak_code = static_cast<uint8_t>(code);
}

// It does not wait any longer.
inline void expedite_ack(ReceiveState& state) {
  if (state.reply == ReplyKind::kAckLater) {
    state.reply = ReplyKind::kAck;
  }
}

// The gap has changed: the peer is told what is missing and what is held, which implies an acknowledgement. Not when it has been
// told to wait or has been refused.
inline void owe_gap_report(ReceiveState& state) {
  if (state.reply <= ReplyKind::kAck) {
    owe_nak(state, wire::NakCode::kPsnSequenceError);
  }
}

inline void owe_rnr_nak(ReceiveState& state, uint8_t timer_code) {
  state.reply = ReplyKind::kRnrNak;
  state.nak_code = timer_code;
}

// The packet that a sequence or RNR NAK asked for has arrived: a NAK that has not been sent yet is out of date.
inline void forgive_gap(ReceiveState& state) {
  state.gap = false;
  if (state.reply == ReplyKind::kNak || state.reply == ReplyKind::kRnrNak) {
    state.reply = ReplyKind::kAck;
  }
}

// A READ's responses acknowledge everything before it.
inline void answered_by_read(ReceiveState& state) {
  if (state.reply <= ReplyKind::kAck) {
    state.reply = ReplyKind::kNone;
  }
}

}  // namespace cw::rc
