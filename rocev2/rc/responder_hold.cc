#include "rocev2/rc/responder_hold.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/ack_policy.h"
#include "rocev2/rc/reorder_window.h"

namespace cw::rc {
namespace {

using wire::DropReason;

bool has_room(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view) {
  // What is held is executed before its original can come, so that a forger would have a whole span of PSNs to guess instead of
  // one. The source port, which peers of ours choose at random, makes up for that. Another one is no fault: it is only not held.
  if (state.peer_port != 0 && view.source_port != state.peer_port) {
    return false;
  }
  const wire::Psn psn = view.bth.psn;
  RcCore& core = context.core;
  const bool near = state.expected.distance_to(psn) < int32_t{HeldPackets::kSpan};
  const bool has_share = core.held_budget.has_room(context.budget_place) && core.watermark == BufferWatermark::kPlenty;
  if (state.held == nullptr && near && has_share) {
    state.held = core.held.create();
  }
  if (state.held == nullptr || !near || (!state.held->has(psn) && !has_share)) {
    ++core.stats.holds_refused;
    return false;
  }
  state.held->gap_since = state.held->empty() ? now : state.held->gap_since;
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
  context.core.held_budget.take(context.budget_place);
  ++context.core.stats.packets_held;
  return PacketOutcome::took();
}

}  // namespace

bool hold(QpContext& context, ReceiveState& state, Instant now, const wire::PacketView& view, Buffer* frame,
          PacketOutcome& outcome) {
  if (!has_room(context, state, now, view)) {
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
  if (state.gap && !holds) {
    return false;  // the peer has been told of the gap or to wait for a receive, and repeats everything anyway
  }
  const wire::Psn psn = view.bth.psn;
  const bool keeps = has_room(context, state, now, view);
  if (!holds && !keeps) {
    return false;
  }
  GapWait& wait = state.held->wait;
  const bool repeated = keeps ? state.held->has(psn) : state.last_ahead.distance_to(psn) <= 0;
  if (!holds || (wait.told && repeated)) {
    // A new gap, or the peer has gone back and what is missing has been overtaken again.
    wait = GapWait{.since = now, .again_at = wait.again_at, .told = false};
  }
  context.note(TransportEventKind::kOutOfSequence, psn);
  if (keeps) {
    outcome = keep(context, state, psn, frame);
  } else {
    ++context.core.stats.out_of_sequence;
    state.last_ahead = psn;
    outcome = PacketOutcome::drop(DropReason::kOutOfSequence);
  }
  return true;
}

Instant gap_report_due(const ReceiveState& state, const GapTiming& timing) {
  if (state.held == nullptr || state.held->wait.told) {
    return Instant::never();
  }
  // The whole window, however little late packets have been so far and however many have overtaken what is missing: a peer that
  // hears of a gap too early sends everything again, and a Linux peer may even end the connection.
  const GapWait& wait = state.held->wait;
  return std::max(wait.since + std::max(timing.srtt, ReorderWindow::kMost), wait.again_at);
}

void report_gap_now(ReceiveState& state, Instant now, const GapTiming& timing) {
  GapWait& wait = state.held->wait;
  wait.told = true;
  // A copy that the network has made of a packet behind the gap looks like the peer going back, but comes sooner.
  wait.again_at = now + (timing.srtt == Duration() ? timing.ack_timeout / 4 : std::max(timing.srtt, ReorderWindow::kMost) * 2);
  owe_gap_report(state);
}

Instant give_up_at(const ReceiveState& state, const GapTiming& timing) {
  return state.held == nullptr
             ? Instant::never()
             : state.held->gap_since + std::clamp(timing.ack_timeout * kHoldAckTimeouts, kHoldLifeLeast, kHoldLifeMost);
}

void give_up_held(QpContext& context, ReceiveState& state) {
  context.core.stats.holds_expired += state.held->count();
  if (!state.held->wait.told) {
    owe_gap_report(state);
  }
  drop_held(context, state);
}

void await_next_gap(const QpContext& context, ReceiveState& state, Instant now) {
  state.held->gap_since = now;
  if (context.awaits_late) {
    GapWait& wait = state.held->wait;
    wait = GapWait{.since = now, .again_at = wait.again_at, .told = false};
  } else {
    owe_gap_report(state);
  }
}

void drop_held(QpContext& context, ReceiveState& state) {
  if (state.held != nullptr) {
    context.core.held_budget.give_back(context.budget_place, state.held->count());
    release_buffers(state.held->take_all());
    context.core.held.destroy(std::exchange(state.held, nullptr));
  }
}

void drop_held_between(QpContext& context, ReceiveState& state, wire::Psn from, wire::Psn to) {
  const int32_t steps = std::min<int32_t>(from.distance_to(to), HeldPackets::kSpan);
  for (int32_t i = 0; i < steps; ++i) {
    if (Buffer* frame = state.held->take(from.plus(static_cast<uint32_t>(i)))) {
      context.core.held_budget.give_back(context.budget_place, 1);
      release_buffers(frame);
    }
  }
}

}  // namespace cw::rc
