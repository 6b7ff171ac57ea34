// Selective recovery, the responder's side: requests that came behind a gap are kept, in the buffers they arrived in, and are
// executed in PSN order when their turn comes, so that nothing but the order of arrival changes.
//
// Only packets from the UDP source port of those executed so far are kept: a forger has to guess it too.
//
// A peer that goes back to every sequence NAK (any but Causeway) is told of a gap only when what is missing has not come within
// the reordering window: the NAK makes it repeat everything from there, also where nothing was lost. Linux's rdma_rxe, moreover,
// executes the REG_MR work requests between repeated SENDs a second time, which fails and ends the connection.
//
// Bounds: HeldPackets::kSpan packets per queue pair, and HeldBudget over all, of which one client gets no more than it leaves to
// the others; what does not fit is dropped and counted, and will be repeated like anything else that is missing. What is held is
// given up when the peer repeats everything anyway, and kHoldAckTimeouts after the gap began: its requester has timed out by then
// and repeats everything, or it wants to keep others from holding anything.
#pragma once

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// Of the requester's half: the round trip, 0 when it has not been measured, and the timeout without back-off.
struct GapTiming {
  Duration srtt;
  Duration ack_timeout;
};

// What is held longest without anything being executed: so many timeouts of ours, in these bounds.
inline constexpr int64_t kHoldAckTimeouts = 4;
inline constexpr Duration kHoldLifeLeast = Duration::ms(100);
inline constexpr Duration kHoldLifeMost = Duration::seconds(2);

// A request ahead of the expected PSN, from a peer that recovers selectively. False when there is no room: then the peer is
// answered as an ordinary one. Else `outcome` says whether the frame was kept.
[[nodiscard]] bool hold(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame,
                        PacketOutcome& outcome);

// The same from a peer that goes back: nothing is said yet. False when nothing is held and there is no room, also when the peer
// repeats everything from the gap anyway.
[[nodiscard]] bool hold_quietly(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame,
                                PacketOutcome& outcome);
// When a peer that goes back is to be told of the gap; never() when there is none or it has been told. Not twice before the
// answer can have come.
[[nodiscard]] Instant gap_report_due(const ReceiveState& state, const GapTiming& timing);
// Precondition: something is held.
void report_gap_now(ReceiveState& state, Instant now, const GapTiming& timing);
// When what is held is given up; never() when there is nothing.
[[nodiscard]] Instant give_up_at(const ReceiveState& state, const GapTiming& timing);
// Precondition: something is held.
void give_up_held(QpContext& context, ReceiveState& state);
// The missing packet has come, and what was held behind it has been served, up to another one that is missing. Precondition:
// something is held.
void await_next_gap(const QpContext& context, ReceiveState& state, Instant now);

// Gives up everything that is held.
void drop_held(QpContext& context, ReceiveState& state);

// The expected PSN has moved over [from, to): nothing held there can be a request any more. Precondition: something is held.
void drop_held_between(QpContext& context, ReceiveState& state, wire::Psn from, wire::Psn to);

}  // namespace cw::rc
