#include "rocev2/rc/retransmit.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/early_responses.h"
#include "rocev2/rc/rc_options.h"

namespace cw::rc {
namespace {

constexpr uint8_t kBackOffMax = 3;  // doublings of the timeout

Duration timeout_of(const SendState& state) {
  return ack_timeout(state.ack_timeout) * (int64_t{1} << std::min(state.retries.used(), kBackOffMax));
}

Instant timeout_at(const SendState& state) {
  return state.progress_at + timeout_of(state);
}

// One response is enough to learn whether the peer is there.
bool probes_one_response(const SendState& state) {
  return state.partial_reads && state.oldest_read_is_executed();
}

// While answers still arrive, even useless ones, the peer is at work on what it was asked: to ask again would make it answer all
// of it once more.
Instant silent_since(const SendState& state) {
  return std::max(state.progress_at, state.heard_at);
}

// The least silence that is worth a probe.
Duration probe_wait(const SendState& state) {
  if (state.oldest == nullptr || state.oldest->kind != WorkKind::kRead || probes_one_response(state)) {
    return kTailProbeMin;
  }
  const uint32_t index = state.index_of_una();
  const int64_t responses = state.oldest->request_end(index, state.read_window.request_packets()) - index;
  return std::min(std::max(kTailProbeMin + kReadProbePerResponse * responses, state.longest_pause * 2), kReadProbeMax);
}

Instant probe_at(const SendState& state) {
  if (!state.rtt.is_measured() || state.probe.count() >= kTailProbesMax) {
    return Instant::never();
  }
  // A READ has its own way to learn how long a peer may pause: probe_wait().
  const bool is_read = state.oldest != nullptr && state.oldest->kind == WorkKind::kRead;
  const int doublings = state.probe.count() + (is_read ? 0 : state.probe.patience());
  return silent_since(state) + std::max(state.rtt.srtt() * 4, probe_wait(state)) * (int64_t{1} << doublings);
}

// When to ask an idle peer whether it is there: after a time without a packet of it, then as often and as patiently as any packet
// is repeated.
Instant keepalive_at(const SendState& state) {
  const Keepalive& keepalive = state.keepalive;
  if (!keepalive.is_enabled() || keepalive.alive_at() == Instant()) {
    return Instant::never();
  }
  if (keepalive.count() == 0) {
    return keepalive.alive_at() + keepalive.interval();
  }
  const int doublings = std::min<int>(keepalive.count() - 1, kBackOffMax);
  return keepalive.asked_at() + ack_timeout(state.ack_timeout) * (int64_t{1} << doublings);
}

QpErrorCause on_idle(QpContext& context, SendState& state, Instant now) {
  if (state.keepalive.count() > state.retries.max()) {
    ++context.core.stats.keepalives_exhausted;
    return QpErrorCause::kPeerSilent;
  }
  state.keepalive.ask(now);
  return QpErrorCause::kNone;
}

// What is awaited of [una, psn). Precondition: psn is una, or no READ request's responses lie on both sides of it.
SendWindow::Awaited awaited_before(const SendState& state, wire::Psn psn) {
  SendWindow::Awaited awaited;
  for (const Work* work = state.oldest; work != nullptr && work->begun && work->first_psn.distance_to(psn) > 0;
       work = work->next) {
    if (work->awaits_response() && psn != state.window.una()) {
      const auto begin = static_cast<uint32_t>(std::max(0, work->first_psn.distance_to(state.window.una())));
      const auto end = std::min(work->packets, static_cast<uint32_t>(work->first_psn.distance_to(psn)));
      awaited.psns += end - begin;
      const uint32_t requests = Work::requests_of(begin, end, state.read_window.request_packets());
      awaited.requests = static_cast<uint8_t>(awaited.requests + requests);
    }
  }
  return awaited;
}

// The board begins with what has been sent so far, in PSN order. The PSNs of READ responses are no packets of ours.
void note_sent_packets(SendState& state) {
  for (const Work* work = state.oldest; work != nullptr && work->begun; work = work->next) {
    const uint32_t step = work->kind == WorkKind::kRead ? state.read_window.request_packets() : 1;
    for (uint32_t i = 0; i < work->packets; i += step) {
      const wire::Psn psn = work->first_psn.plus(i);
      if (psn.distance_to(state.window.limit_psn()) <= 0) {
        return;
      }
      if (state.board->covers(psn)) {
        state.board->on_sent(psn, !work->awaits_response());
      }
    }
  }
}

// Going back once more is not worth it before.
Instant may_go_back_at(const SendState& state) {
  return state.recovery.went_back_at() + least_answer_time(state);
}

// When the suspected loss counts. Precondition: it exists.
Instant suspicion_counts_at(const SendState& state) {
  if (state.suspected.is_of_probe()) {
    return state.progress_at + echo_time(state);
  }
  const bool waits = state.suspected.is_patient() && state.rtt.is_measured();
  return state.recovery.went_back_at() + std::max(least_answer_time(state), waits ? state.rtt.srtt() * 5 / 4 : Duration());
}

void learn_from_board(QpContext& context, SendState& state, Instant now) {
  const Scoreboard::Lessons lessons = state.board->take_lessons();
  if (lessons.late > Duration()) {
    note_late(context, state, lessons.late, lessons.spurious > 0);
  }
  if (lessons.lost > 0) {
    state.reorder.on_lost(now, state.rtt.srtt());
  }
}

// When a suspected loss counts, what is overtaken is lost, a SEND need not wait any longer, or no repeated READ request is
// in the network any more. Rare, hence not inlined.
[[gnu::noinline]] Instant overdue_at(const SendState& state) {
  Instant at = state.suspected.exists() ? suspicion_counts_at(state) : Instant::never();
  if (state.repeats != nullptr) {
    at = earlier(at, earlier(state.repeats->release_at(state.window.una()), state.repeats->over_at()));
  }
  if (state.gaps != nullptr) {
    at = earlier(at, state.gaps->next_overdue(read_patience(state)));
  }
  if (state.board != nullptr) {
    at = earlier(at, state.board->next_overdue(state.reorder.wait(state.rtt.srtt())));
  }
  return at;
}

}  // namespace

void note_pause(SendState& state, Instant now, wire::Psn psn) {
  const bool asked_once =
      !state.recovery.is_under_way() && (state.gaps == nullptr || state.gaps->frontier().distance_to(psn) >= 0);
  const bool answers_probe = state.probe.count() > 0 && psn == state.window.una();
  if (!asked_once || answers_probe) {
    return;  // the silence was that of a loss
  }
  const Duration pause = now - silent_since(state);
  state.longest_pause = pause > state.longest_pause ? pause : state.longest_pause - state.longest_pause / 256;
}

Duration least_answer_time(const SendState& state) {
  return state.rtt.is_measured() ? state.rtt.min_rtt() * 7 / 8 : kTailProbeMin;
}

Duration echo_time(const SendState& state) {
  return state.rtt.is_measured() ? state.rtt.srtt() / 2 : ack_timeout(state.ack_timeout) / 4;
}

SendCursor cursor_at_una(const SendState& state, uint32_t mtu_bytes) {
  return cursor_at(state, state.window.una(), mtu_bytes);
}

SendCursor cursor_at(const SendState& state, wire::Psn psn, uint32_t mtu_bytes) {
  Work* work = state.oldest;
  while (work != nullptr && work->begun && work->first_psn.plus(work->packets).distance_to(psn) >= 0) {
    work = work->next;
  }
  SendCursor cursor = SendCursor::start_of(work);
  if (work == nullptr || !work->begun) {
    return cursor;
  }
  const uint32_t packets_in = static_cast<uint32_t>(work->first_psn.distance_to(psn));
  if (packets_in > 0) {
    cursor.step(packets_in, mtu_bytes);
  }
  return cursor;
}

ReadGaps::Patience read_patience(const SendState& state) {
  return {.wait = state.reorder.wait(state.rtt.srtt()),
          .overtaken_max = state.reorder.reorders() ? 0 : ReorderWindow::kDupThresh,
          .again_min = least_answer_time(state)};
}

Scoreboard::Clock board_clock(const SendState& state, Instant now) {
  return {.now = now,
          .wait = state.reorder.wait(state.rtt.srtt()),
          .overtaken_max = state.reorder.reorders() ? 0 : ReorderWindow::kDupThresh,
          .echo_time = least_answer_time(state)};
}

void note_overdue(SendState& state, Instant now) {
  if (state.gaps != nullptr) {
    state.gaps->note_overdue(now, read_patience(state));
  }
  if (state.board != nullptr) {
    state.board->note_overdue(board_clock(state, now));
  }
}

void note_late(QpContext& context, SendState& state, Duration late, bool spurious) {
  ++context.core.stats.packets_late;
  context.core.stats.repetitions_spurious += spurious ? 1 : 0;
  state.reorder.on_late(late);
}

Duration repetition_life(const SendState& state) {
  const Duration most = ack_timeout(state.ack_timeout) / 4;
  if (!state.rtt.is_measured()) {
    return most;
  }
  return std::clamp(state.rtt.srtt() + state.reorder.wait(state.rtt.srtt()), kRepetitionLifeLeast, most);
}

void note_read_repeated(QpContext& context, SendState& state, Instant now, wire::Psn first, bool within) {
  if (state.partial_reads) {
    return;  // a Causeway peer ignores what comes too late
  }
  if (state.repeats == nullptr) {
    state.repeats = context.core.repeated_reads.create();
  }
  if (state.repeats == nullptr) {
    ++context.core.stats.reads_unfenced;
    return;
  }
  state.repeats->note(first, now, now + repetition_life(state), within);
}

void review_repeats(QpContext& context, SendState& state, Instant now) {
  if (state.repeats == nullptr) {
    return;
  }
  state.repeats->review(now, state.window.una());
  const Work* work = state.cursor.work;
  if (work != nullptr && work->kind == WorkKind::kSend && !work->begun) {
    const bool held = state.repeats->holds(work->ssn);
    state.repeats->consider(now, state.window.una(), work->ssn, state.last_ssn);
    context.core.stats.sends_behind_reads += !held && state.repeats->holds(work->ssn) ? 1 : 0;
  }
  if (state.repeats->empty()) {
    drop_repeats(context, state);
  }
}

void drop_repeats(QpContext& context, SendState& state) {
  if (state.repeats != nullptr) {
    context.core.repeated_reads.destroy(std::exchange(state.repeats, nullptr));
  }
}

void drop_board(QpContext& context, SendState& state) {
  if (state.board != nullptr) {
    context.core.boards.destroy(std::exchange(state.board, nullptr));
  }
}

void settle_board(QpContext& context, SendState& state, Instant now, bool reported) {
  if (state.board != nullptr) {
    state.board->advance(state.window.una(), reported, board_clock(state, now));
    learn_from_board(context, state, now);
    if (state.board->is_over()) {
      drop_board(context, state);
    }
  }
}

bool note_gap(QpContext& context, SendState& state, Instant now, wire::Psn missing, const wire::GapReport& report) {
  if (state.window.next_psn() != state.window.limit_psn()) {
    return true;  // has gone back already: all of it is being sent again
  }
  if (state.board == nullptr) {
    if (missing.distance_to(state.window.limit_psn()) > int32_t{Scoreboard::kSpan}) {
      return false;
    }
    state.board = context.core.boards.create(missing);
    if (state.board == nullptr) {
      return false;
    }
    note_sent_packets(state);
  }
  state.board->advance(missing, true, board_clock(state, now));
  if (state.board->base() != missing) {
    learn_from_board(context, state, now);
    return true;  // overtaken by a later report
  }
  const bool news = state.board->on_report(report, board_clock(state, now));
  learn_from_board(context, state, now);
  if (news) {
    // The peer lives and hears us; whatever is lost shows in what it reports, so that there is no need to probe for it.
    state.progress_at = now;
    state.probe.restart_count();
  }
  if (const auto sampled = state.rtt.sampled_psn(); sampled.has_value() && state.board->has_arrived(*sampled)) {
    take_sample(state, now);
  }
  return true;
}

void go_back(QpContext& context, SendState& state, Instant now) {
  go_back_to(context, state, now, state.window.una());
}

void go_back_to(QpContext& context, SendState& state, Instant now, wire::Psn psn) {
  context.note(TransportEventKind::kSendsAgain, psn);
  state.cursor = cursor_at(state, psn, context.mtu_bytes);
  const bool within_request =
      state.cursor.work != nullptr && state.cursor.work->awaits_response() && state.is_within_request(state.cursor.packet);
  if (psn == state.window.una() || within_request) {
    drop_gaps(context, state);
    psn = state.window.una();
    state.cursor = cursor_at_una(state, context.mtu_bytes);
  }
  drop_board(context, state);
  state.window.go_back_to(psn, awaited_before(state, psn));
  state.since_ack_request = 0;
  // Too long a round trip is better than none, where every packet goes twice.
  if (state.rtt.is_measured()) {
    state.rtt.cancel_sample();
  } else {
    state.rtt.taint_sample();
  }
  state.probe.cancel();
  state.suspected.drop();
  state.recovery.start(now);
  state.progress_at = now;
}

QpErrorCause repeat_from(QpContext& context, SendState& state, Instant now, wire::Psn psn, bool progressed) {
  if (state.rnr.is_under_way()) {
    return QpErrorCause::kNone;  // goes back anyway when the wait is over
  }
  progressed = progressed || state.suspected.progressed();
  if (now < may_go_back_at(state)) {
    if (psn == state.window.una() && state.window.awaiting()) {
      state.suspected.note_nak(progressed);
    } else {
      state.suspected.drop();
    }
    return QpErrorCause::kNone;
  }
  if (!progressed) {
    if (state.retries.exhausted()) {
      ++context.core.stats.retries_exhausted;
      return QpErrorCause::kRetryExceeded;
    }
    state.retries.use();
  }
  go_back_to(context, state, now, psn);
  return QpErrorCause::kNone;
}

void take_sample(SendState& state, Instant now) {
  const RoundTrip::Sample sample = state.rtt.finish_sample(now);
  if (sample.is_read && !sample.is_tainted) {
    const Duration late = state.reorder.reorders() ? state.reorder.wait(state.rtt.srtt()) : Duration();
    state.read_window.on_response(now, sample.time, sample.is_alone, late);
  }
}

bool is_news_of_gap(SendState& state, wire::Psn psn) {
  const auto last_ahead = state.recovery.last_ahead();
  const bool runs_on = state.recovery.is_under_way() && last_ahead.has_value() && last_ahead->distance_to(psn) > 0;
  state.recovery.note_ahead(psn);
  return !runs_on;
}

void settle_probe(SendState& state, Instant now) {
  const auto probe = state.probe.outstanding();
  if (!probe.has_value()) {
    return;
  }
  state.probe.settle();
  // A READ may take its time: the peer acknowledges a repeated SEND before it has answered what came behind.
  const bool awaits_read = state.oldest != nullptr && state.oldest->awaits_response();
  const bool leaves_rest = state.window.awaiting() && !awaits_read && state.board == nullptr;
  if (leaves_rest && now - probe->at >= echo_time(state)) {
    state.suspected.note_probe_answer();
  }
}

Instant send_deadline(const SendState& state) {
  if (state.rnr.is_under_way()) {
    return state.rnr.until();
  }
  const Instant at = state.window.awaiting() ? earlier(timeout_at(state), probe_at(state)) : keepalive_at(state);
  if (state.suspected.exists() || state.is_disordered()) [[unlikely]] {
    return earlier(at, overdue_at(state));
  }
  return at;
}

QpErrorCause on_send_timer(QpContext& context, SendState& state, Instant now) {
  if (state.rnr.is_under_way()) {
    if (now >= state.rnr.until()) {
      state.rnr.end();  // the cursor has gone back already
      state.recovery.postpone(now);
      state.progress_at = now;
    }
    return QpErrorCause::kNone;
  }
  note_overdue(state, now);
  review_repeats(context, state, now);
  if (!state.window.awaiting()) {
    return now >= keepalive_at(state) ? on_idle(context, state, now) : QpErrorCause::kNone;
  }
  if (now >= timeout_at(state)) {
    ++context.core.stats.ack_timeouts;
    ++context.counters.ack_timeouts;
    if (state.retries.exhausted()) {
      ++context.core.stats.retries_exhausted;
      return QpErrorCause::kRetryExceeded;
    }
    state.retries.use();
    context.note(TransportEventKind::kAckTimeout, state.window.una(), state.retries.used());
    go_back(context, state, now);
    state.recovery.note_timeout();
  } else if (state.suspected.exists() && now >= suspicion_counts_at(state)) {
    if (!state.suspected.is_of_probe()) {
      state.suspected.learn(false);
    }
    return repeat_from(context, state, now, state.window.una(), false);
  } else if (now >= probe_at(state)) {
    state.probe.schedule();
  }
  return QpErrorCause::kNone;
}

}  // namespace cw::rc
