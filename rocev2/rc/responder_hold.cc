#include "rocev2/rc/responder_hold.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/ack_policy.h"

namespace cw::rc {

using wire::DropReason;

bool hold(QpContext& context, ReceiveState& state, const wire::PacketView& view, Buffer* frame, PacketOutcome& outcome) {
  // What is held is executed before its original can come, so that a forger would have a whole span of PSNs to guess instead of
  // one. The source port, which peers of ours choose at random, makes up for that. Another one is no fault: it is only not held.
  if (state.peer_port != 0 && view.source_port != state.peer_port) {
    return false;
  }
  const wire::Psn psn = view.bth.psn;
  RcCore& core = context.core;
  if (state.held == nullptr) {
    state.held = core.held.create();
  }
  const bool near = state.held != nullptr && state.expected.distance_to(psn) < int32_t{HeldPackets::kSpan};
  // No queue pair may hold more than are left for the others: one alone gets half of the budget, two a third each, and so on.
  const bool has_share = state.held != nullptr && state.held->count() + core.held_packets < core.held_packets_max;
  const bool has_room = has_share && core.stock == BufferStock::kPlenty;
  if (!near || (!state.held->has(psn) && !has_room)) {
    ++core.stats.holds_refused;
    return false;
  }
  const bool follows = state.gap && !state.held->empty() && state.held->highest().next() == psn;
  // Worth a packet: a new hole, a repetition that overtook another, or the peer asks.
  if (!follows || view.bth.ack_request) {
    owe_gap_report(state);
  }
  ++core.stats.out_of_sequence;
  state.gap = true;
  state.last_ahead = psn;
  if (state.held->has(psn)) {
    outcome = PacketOutcome::drop(DropReason::kDuplicate);
    return true;
  }
  state.held->put(psn, frame);
  ++core.held_packets;
  ++core.stats.packets_held;
  outcome = PacketOutcome::took();
  return true;
}

void drop_held(QpContext& context, ReceiveState& state) {
  if (state.held != nullptr) {
    context.core.held_packets -= state.held->count();
    release_buffers(state.held->take_all());
    context.core.held.destroy(std::exchange(state.held, nullptr));
  }
}

void drop_held_between(QpContext& context, ReceiveState& state, wire::Psn from, wire::Psn to) {
  const int32_t steps = std::min<int32_t>(from.distance_to(to), HeldPackets::kSpan);
  for (int32_t i = 0; i < steps; ++i) {
    if (Buffer* frame = state.held->take(from.plus(static_cast<uint32_t>(i)))) {
      --context.core.held_packets;
      release_buffers(frame);
    }
  }
}

}  // namespace cw::rc
