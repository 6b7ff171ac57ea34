#include "rocev2/rc/early_responses.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/retransmit.h"

namespace cw::rc {
namespace {

using wire::DropReason;
using wire::OpcodeKind;
using wire::Psn;

uint32_t index_in(const Work& work, Psn psn) {
  return static_cast<uint32_t>(work.first_psn.distance_to(psn));
}

bool answers(const wire::PacketView& view, const Work& work) {
  if (view.traits->kind == OpcodeKind::kReadResponse) {
    return work.kind == WorkKind::kRead;
  }
  return work.awaits_response() && work.kind != WorkKind::kRead && view.aeth().kind() == wire::AethKind::kAck;
}

// How what is missing was asked for so far: when everything from una on has been repeated, a second time.
ReadGaps::Asking asked_so_far(SendState& state) {
  return state.recovery.is_under_way()
             ? state.gaps->ask(state.window.una(), state.window.limit_psn(), state.recovery.went_back_at())
             : ReadGaps::Asking{};
}

// Answers that were under way when una was repeated say nothing about the repetition.
bool tells_of_repetition(const SendState& state, Instant now) {
  return !state.recovery.is_under_way() || now - state.recovery.went_back_at() >= echo_time(state);
}

// The round trip of a packet that is passed counts only when its own answer has come.
void sample_early(SendState& state, Instant now, Psn psn) {
  const auto sampled = state.rtt.sampled_psn();
  if (!sampled.has_value() || sampled->distance_to(psn) < 0) {
    return;
  }
  if (*sampled == psn) {
    take_sample(state, now);
  } else {
    state.rtt.cancel_sample();
  }
}

PacketOutcome refuse_response(QpContext& context) {
  ++context.core.stats.bad_responses;
  return PacketOutcome::fail(QpErrorCause::kBadResponse);
}

// What a response of the right kind and length brings. For a READ the frame, trimmed, or nullptr when it is empty.
Buffer* take_content(Work& work, const wire::PacketView& view, Buffer* frame) {
  if (work.kind == WorkKind::kRead) {
    return trim_to_payload(view, frame);
  }
  work.original = view.atomic_ack_eth().original;
  return nullptr;
}

// Nothing at or behind this PSN has been answered before.
PacketOutcome take_at_frontier(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  ReadGaps& gaps = *state.gaps;
  const Psn psn = view.bth.psn;
  if (!gaps.move_frontier(psn, asked_so_far(state), now, tells_of_repetition(state, now))) {
    return PacketOutcome::drop(DropReason::kOutOfSequence);
  }
  gaps.note_answer_of(psn, now);
  sample_early(state, now, psn);
  Work& work = gaps.work_at_frontier();
  if (!answers(view, work)) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (!fits_request(context, state, work, index_in(work, psn), view)) {
    return refuse_response(context);
  }
  Buffer* kept = take_content(work, view, frame);
  if (kept != nullptr) {
    work.payload.push_back(kept);
  }
  gaps.pass_frontier();
  ++context.core.stats.responses_early;
  return kept != nullptr ? PacketOutcome::took() : PacketOutcome::done();
}

// Whether the response answers a repetition, as far as one can know. What a repetition begins with within a READ request is its
// First or Only, where the answer to the request itself has a Middle or Last. About the others the time tells.
bool answers_repetition(const SendState& state, Instant now, const wire::PacketView& view, const ReadGaps::Hole& hole) {
  if (!hole.asked.again() || now - hole.asked.at < least_answer_time(state)) {
    return false;
  }
  const Psn psn = view.bth.psn;
  const bool within_request = hole.work->kind == WorkKind::kRead && state.is_within_request(index_in(*hole.work, psn));
  return psn != hole.asked.first || !within_request || view.traits->starts_message();
}

// What was missing has come. True when it is the answer to a repetition.
bool learn_from(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, const ReadGaps::Hole& hole) {
  const bool repeated = answers_repetition(state, now, view, hole);
  if (repeated) {
    state.reorder.on_lost(now, state.rtt.srtt());
  } else if (!state.recovery.is_under_way()) {
    note_late(context, state, now - hole.noted_at, hole.asked.again());
  }
  return repeated;
}

PacketOutcome take_in_hole(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, Buffer* frame,
                           ReadGaps::Hole& hole) {
  ReadGaps& gaps = *state.gaps;
  const Psn psn = view.bth.psn;
  Work& work = *hole.work;
  if (!answers(view, work)) {
    return PacketOutcome::drop(DropReason::kUnexpected);
  }
  if (!fits_request(context, state, work, index_in(work, psn), view)) {
    return refuse_response(context);
  }
  if (!gaps.can_fill(hole, psn)) {
    return PacketOutcome::drop(DropReason::kOutOfSequence);
  }
  const ReadGaps::Asking asked = hole.asked;
  const bool repeated = learn_from(context, state, now, view, hole);
  const bool lone_probe = is_lone_probe_answer(state, work, view);
  Buffer* kept = take_content(work, view, frame);
  context.core.stats.responses_early += psn != state.window.una() ? 1 : 0;
  gaps.fill(hole, psn, kept);
  if (lone_probe) {
    note_rest_lost(context, state, now, view.source_port);
  } else if (repeated) {
    gaps.note_answer_to(asked, psn, now);
  }
  return kept != nullptr ? PacketOutcome::took() : PacketOutcome::done();
}

}  // namespace

bool fits_request(const QpContext& context, const SendState& state, const Work& work, uint32_t index,
                  const wire::PacketView& view) {
  if (work.kind != WorkKind::kRead) {
    return true;
  }
  const bool last = index + 1 == work.request_end(index, state.read_window.request_packets());
  const bool ends = view.traits->ends_message();
  if ((last && !ends) || (!last && ends && !state.partial_reads)) {
    return false;
  }
  if (!state.is_within_request(index) && !view.traits->starts_message()) {
    return false;
  }
  const uint32_t wanted = index + 1 == work.packets ? work.length - index * context.mtu_bytes : context.mtu_bytes;
  return view.payload.size() == wanted;
}

Buffer* trim_to_payload(const wire::PacketView& view, Buffer* frame) {
  if (view.payload.empty()) {
    return nullptr;
  }
  frame->trim_front(static_cast<uint32_t>(view.payload.data() - frame->data));
  frame->size = static_cast<uint32_t>(view.payload.size());
  return frame;
}

bool open_gaps(QpContext& context, SendState& state, uint16_t source_port) {
  if (state.gaps == nullptr && (state.peer_port == 0 || state.peer_port == source_port)) {
    state.gaps = context.core.read_gaps.create(state.window.una(), state.oldest, state.read_window.request_packets(),
                                               !state.partial_reads);
  }
  return state.gaps != nullptr;
}

bool note_executed_before(QpContext& context, SendState& state, Instant now, Psn psn, uint16_t source_port) {
  if (!open_gaps(context, state, source_port)) {
    return false;
  }
  ReadGaps& gaps = *state.gaps;
  if (gaps.frontier().distance_to(psn) > 0) {
    // Without room for another hole what is missing shows again later.
    (void)gaps.move_frontier(psn, asked_so_far(state), now, tells_of_repetition(state, now));
    gaps.note_answer_of(psn.minus(1), now);
  }
  return true;
}

PacketOutcome take_early(QpContext& context, SendState& state, Instant now, const wire::PacketView& view, Buffer* frame) {
  ReadGaps& gaps = *state.gaps;
  const Psn psn = view.bth.psn;
  // What is due is taken from any port, as it is without gaps: the peer's may have changed, and nothing else would tell.
  if (psn != state.window.una() && state.peer_port != 0 && view.source_port != state.peer_port) {
    return PacketOutcome::drop(DropReason::kOutOfSequence);
  }
  PacketOutcome outcome;
  if (gaps.frontier().distance_to(psn) >= 0) {
    outcome = take_at_frontier(context, state, now, view, frame);
  } else if (ReadGaps::Hole* hole = gaps.find(psn)) {
    outcome = take_in_hole(context, state, now, view, frame, *hole);
  } else {
    // The answers to a repetition have come as far as this.
    gaps.note_duplicate(psn, now, echo_time(state));
    outcome = PacketOutcome::drop(DropReason::kDuplicate);
  }
  if (outcome.dropped) {
    state.heard_at = now;
  } else {
    state.peer_port = view.source_port;
    state.progress_at = now;
    state.probe.restart_count();
    state.recovery.clear_timeout();
  }
  return outcome;
}

bool is_lone_probe_answer(SendState& state, const Work& read, const wire::PacketView& view) {
  const auto probe = state.probe.outstanding();
  if (!probe.has_value() || probe->psn != view.bth.psn) {
    return false;
  }
  state.probe.settle();
  // Only the answer to a request for one response is an Only within a longer request.
  const uint32_t index = index_in(read, view.bth.psn);
  const uint32_t begin = Work::request_begin(index, state.read_window.request_packets());
  return state.partial_reads && view.traits->kind == OpcodeKind::kReadResponse && view.traits->starts_message() &&
         view.traits->ends_message() && read.request_end(index, state.read_window.request_packets()) - begin > 1;
}

void note_rest_lost(QpContext& context, SendState& state, Instant now, uint16_t source_port) {
  if (!open_gaps(context, state, source_port)) {
    return;
  }
  (void)state.gaps->move_frontier(state.gaps->request_end_at_frontier(), {}, now, false);
  state.gaps->note_all_lost();
}

void drop_gaps(QpContext& context, SendState& state) {
  if (state.gaps != nullptr) {
    state.gaps->take_early(state.oldest, context.core.released);
    context.core.read_gaps.destroy(std::exchange(state.gaps, nullptr));
  }
}

}  // namespace cw::rc
