#include "rocev2/rc/responder_hold.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/ack_policy.h"

namespace cw::rc {
namespace {

using wire::DropReason;

bool has_room(QpContext& context, ReceiveState& state, const wire::PacketView& view) {
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
  return true;
}

// Precondition: has_room().
PacketOutcome keep(QpContext& context, ReceiveState& state, wire::Psn psn, Buffer* frame) {
  ++context.core.stats.out_of_sequence;
  state.gap = true;
  state.last_ahead = psn;
  if (state.held->has(psn)) {
    return PacketOutcome::drop(DropReason::kDuplicate);
  }
  state.held->put(psn, frame);
  ++context.core.held_packets;
  ++context.core.stats.packets_held;
  return PacketOutcome::took();
}

}  // namespace

bool hold(QpContext& context, ReceiveState& state, const wire::PacketView& view, Buffer* frame, PacketOutcome& outcome) {
  if (!has_room(context, state, view)) {
    return false;
  }
  const wire::Psn psn = view.bth.psn;
  const bool follows = state.gap && !state.held->empty() && state.held->highest().next() == psn;
  // Worth a packet: a new hole, a repetition that overtook another, or the peer asks.
  if (!follows || view.bth.ack_request) {
    owe_gap_report(state);
  }
  outcome = keep(context, state, psn, frame);
  return true;
}

bool hold_quietly(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame,
                  PacketOutcome& outcome) {
  const bool holds = state.held != nullptr && !state.held->empty();
  // The peer has been told of the gap or to wait for a receive, and repeats everything anyway.
  if ((state.gap && !holds) || !has_room(context, state, view)) {
    return false;
  }
  GapWait& wait = state.held->wait;
  const bool repeated = state.held->has(view.bth.psn);
  if (!holds || (wait.told && repeated)) {
    // A new gap, or the peer has gone back and what is missing has been overtaken again.
    wait = GapWait{.since = now, .told = false};
  }
  wait.overtakers += repeated ? 0 : 1;
  context.note(TransportEventKind::kOutOfSequence, view.bth.psn);
  outcome = keep(context, state, view.bth.psn, frame);
  return true;
}

Instant gap_report_due(const ReceiveState& state, Duration srtt) {
  if (state.held == nullptr || state.held->wait.told) {
    return Instant::never();
  }
  const GapWait& wait = state.held->wait;
  if (!state.reordering.reorders() && wait.overtakers >= ReorderWindow::kDupThresh) {
    return wait.since;
  }
  // The whole window at once, however little late packets have been so far: a peer that hears of a gap too early sends everything
  // again, and a Linux peer may even end the connection.
  return wait.since + std::max(srtt, ReorderWindow::kMost);
}

void report_gap_now(ReceiveState& state, Instant now, Duration srtt) {
  state.held->wait.told = true;
  state.held->wait.answer_at = now + srtt / 2;
  owe_gap_report(state);
}

void learn_lateness(ReceiveState& state, Instant now) {
  const GapWait& wait = state.held->wait;
  if (!wait.told || now < wait.answer_at) {
    state.reordering.on_late(now - wait.since);
  } else {
    state.reordering.on_lost(now, ReorderWindow::kMost);
  }
}

void await_next_gap(ReceiveState& state, Instant now) {
  GapWait& wait = state.held->wait;
  // What the peer repeats after a NAK brings the rest too, so that packets which came before prove nothing.
  wait = GapWait{.since = now, .overtakers = wait.told ? 0 : state.held->count(), .told = false};
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
