// READ responses and atomic answers that come before their turn because others before them were lost: they are kept, and only
// what is missing is asked for again (ReadGaps says how that shows). Towards every peer: what a repetition asks for differs.
//
// Without this a lost response would cost all READs behind it, which the peer would answer once more: as many as the initiator
// depth allows, of any length. It is left to that only when the slab of gaps is empty.
//
// What is kept is part of its READ, so that nobody who guesses a PSN may add to it: it has to come from the UDP source port of
// the last response that came in its turn. Ownership: a frame taken belongs to its READ's payload.
#pragma once

#include "base/time.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/send_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// The response number `index` of the work: opcode and length against the request (IBA 9.7.5.1). What was repeated is answered
// from a First again, wherever in the message that is, and ends with a Last where only a part was asked for.
[[nodiscard]] bool fits_request(const QpContext& context, const SendState& state, const Work& work, uint32_t index,
                                const wire::PacketView& view);
// The frame, trimmed to the payload; nullptr when there is nothing to keep.
[[nodiscard]] Buffer* trim_to_payload(const wire::PacketView& view, Buffer* frame);

// From now on gaps are watched. False when they cannot be, and everything has to be repeated from una on.
// Precondition: una belongs to a READ or atomic.
[[nodiscard]] bool open_gaps(QpContext& context, SendState& state, uint16_t source_port);
// The peer has executed everything before `psn`: responses that have not come are lost. False when that cannot be noted.
// Precondition: psn lies behind una, which belongs to a READ or atomic.
[[nodiscard]] bool note_executed_before(QpContext& context, SendState& state, Instant now, wire::Psn psn, uint16_t source_port);
// A response with a PSN in [una, limit_psn). The caller moves una to what is missing then. Precondition: gaps are watched.
[[nodiscard]] PacketOutcome take_early(QpContext& context, SendState& state, Instant now, const wire::PacketView& view,
                                       Buffer* frame);
// The probe for one response of a READ request has been answered, and nothing behind it has come: the rest of the request, which
// the peer has executed, is lost. True when `view` says that.
[[nodiscard]] bool is_lone_probe_answer(SendState& state, const Work& read, const wire::PacketView& view);
void note_rest_lost(QpContext& context, SendState& state, Instant now, uint16_t source_port);

// Forgets the gaps and gives up what has come early.
void drop_gaps(QpContext& context, SendState& state);

}  // namespace cw::rc
