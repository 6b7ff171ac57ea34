// Selective recovery, the responder's side: requests that came behind a gap are kept, in the buffers they arrived in, and are
// executed in PSN order when their turn comes, so that nothing but the order of arrival changes.
//
// Only packets from the UDP source port of those executed so far are kept: a forger has to guess it too.
//
// A peer that goes back to every sequence NAK (any but Causeway) is told of a gap only when what is missing has not come within
// the reordering window: the NAK makes it repeat everything from there, also where nothing was lost. Linux's rdma_rxe, moreover,
// executes the REG_MR work requests between repeated SENDs a second time, which fails and ends the connection.
//
// Bounds: HeldPackets::kSpan packets per queue pair, RcCore::held_packets_max over all, of which
// one queue pair gets no more than it leaves to the others; what does not fit is dropped and counted,
// and will be repeated like anything else that is missing. What is held is given up only when the peer repeats everything anyway.
#pragma once

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/packet_view.h"

namespace cw::rc {

// A request ahead of the expected PSN, from a peer that recovers selectively. False when there is no room: then the peer is
// answered as an ordinary one. Else `outcome` says whether the frame was kept.
[[nodiscard]] bool hold(QpContext& context, ReceiveState& state, const wire::PacketView& view, Buffer* frame,
                        PacketOutcome& outcome);

// The same from a peer that goes back: the packet is kept and nothing is said yet. False also when the peer repeats everything
// from the gap anyway.
[[nodiscard]] bool hold_quietly(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame,
                                PacketOutcome& outcome);
// When a peer that goes back is to be told of the gap; never() when there is none or it has been told. `srtt`: the round trip,
// 0 when it has not been measured.
[[nodiscard]] Instant gap_report_due(const ReceiveState& state, Duration srtt);
// Precondition of the following three: something is held or has just been served.
void report_gap_now(ReceiveState& state, Instant now, Duration srtt);
// The missing packet has come.
void learn_lateness(ReceiveState& state, Instant now);
// What was held behind it has been served, up to another one that is missing.
void await_next_gap(ReceiveState& state, Instant now);

// Gives up everything that is held.
void drop_held(QpContext& context, ReceiveState& state);

// The expected PSN has moved over [from, to): nothing held there can be a request any more. Precondition: something is held.
void drop_held_between(QpContext& context, ReceiveState& state, wire::Psn from, wire::Psn to);

}  // namespace cw::rc
