// The completer: what acknowledgements, NAKs and READ responses do to the works in flight.
//
// Every decision is a PSN distance within [una, limit_psn): a packet about a PSN that was never sent, or that is settled already,
// changes nothing. Acknowledgement is cumulative, except that a READ or atomic is complete by its response only: when
// something behind it is answered first, responses were lost (implied NAK, IBA 9.7.5.1.1); the READ goes on from where its data
// end, the atomic is asked for again, and the peer remembers what it answered.
//
// Ownership: a READ response's frame becomes part of the READ's payload, trimmed to the data.
#pragma once

#include <span>

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/send_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// opcode ACKNOWLEDGE.
[[nodiscard]] PacketOutcome on_acknowledge(QpContext& context, SendState& state, Instant now, const wire::PacketView& view);
// Causeway's gap report: a sequence NAK that says what the peer holds.
[[nodiscard]] PacketOutcome on_gap_report(QpContext& context, SendState& state, Instant now, const wire::PacketView& view);
// opcode RDMA READ response First, Middle, Last, Only.
[[nodiscard]] PacketOutcome on_read_response(QpContext& context, SendState& state, Instant now, const wire::PacketView& view,
                                             Buffer* frame);
// So many READ Response Middles from una on, of whole packets, would each be taken at once, and nothing else would come of them:
// they lie within one request, and nothing is missing, late or being looked for.
[[nodiscard]] uint32_t middles_awaited(const QpContext& context, const SendState& state);
// What on_read_response() does with these, one after the other. Takes the frames, trimmed to the payload; all came from this UDP
// source port. Precondition: they are middles_awaited() at most, and at least one.
void take_middles(QpContext& context, SendState& state, Instant now, std::span<Buffer* const> frames, uint16_t source_port);
// opcode ATOMIC ACKNOWLEDGE.
[[nodiscard]] PacketOutcome on_atomic_acknowledge(QpContext& context, SendState& state, Instant now,
                                                  const wire::PacketView& view);

// The queue pair failed: every work becomes a completion, the oldest with `first`, the others as flushed.
void flush_works(QpContext& context, SendState& state, verbs::WcStatus first);

// What the oldest work's completion says when `cause` ended the queue pair.
[[nodiscard]] verbs::WcStatus status_of(QpErrorCause cause);

}  // namespace cw::rc
