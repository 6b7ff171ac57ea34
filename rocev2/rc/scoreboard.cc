#include "rocev2/rc/scoreboard.h"

#include <algorithm>

namespace cw::rc {

void Scoreboard::number(wire::Psn psn) {
  order_[slot_of(psn)] = transmissions_++;
  sent_end_ = sent_end_.distance_to(psn) >= 0 ? psn.next() : sent_end_;
}

void Scoreboard::on_sent(wire::Psn psn, bool in_window) {
  if (covers(psn)) {
    number(psn);
    in_window_.set(slot_of(psn), in_window);
    repeated_.reset(slot_of(psn));
  }
}

void Scoreboard::on_repeated(wire::Psn psn, Instant now) {
  if (!covers(psn)) {
    return;
  }
  if (repetition_count_ == 0 || repetitions_[0].at != now) {
    std::copy_backward(repetitions_.begin(), repetitions_.end() - 1, repetitions_.end());
    repetitions_[0] = {transmissions_, now};
    repetition_count_ = std::min(repetition_count_ + 1, kMarks);
  }
  number(psn);
  repeated_.set(slot_of(psn));
  settled_at_ = settled_at_.distance_to(psn) >= 0 ? psn.next() : settled_at_;
}

void Scoreboard::note_delivery(uint32_t slot, Instant now) {
  if (order_[slot] == kNotSent || order_[slot] < delivered_) {
    return;
  }
  delivered_ = order_[slot] + 1;
  const bool at_last = mark_count_ > 0 && (marks_[mark_count_ - 1].at == now || mark_count_ == kMarks);
  mark_count_ += at_last ? 0 : 1;
  marks_[mark_count_ - 1] = {delivered_, now};
}

// The packet has arrived, now or since the last that was heard of it: what does that say of the path? False when it was the first
// transmission of one that has been sent again: that proves nothing of what was sent before the repetition.
bool Scoreboard::learn(uint32_t slot, const Clock& clock) {
  const uint32_t order = order_[slot];
  if (order == kNotSent) {
    return false;
  }
  if (!repeated_.test(slot)) {
    if (order + 1 < delivered_) {
      const auto end = marks_.begin() + mark_count_;
      const auto passed = std::find_if(marks_.begin(), end, [order](const Mark& mark) { return mark.number > order + 1; });
      const Instant since = order + 1 < overdue_ || passed == end ? overdue_at_ : passed->at;
      lessons_.late = std::max(lessons_.late, clock.now - since);
    }
    return true;
  }
  const auto end = repetitions_.begin() + repetition_count_;
  const auto sent = std::find_if(repetitions_.begin(), end, [order](const Mark& mark) { return mark.number <= order; });
  if (sent != end && clock.now - sent->at < clock.echo_time) {
    ++lessons_.spurious;
    lessons_.late = std::max(lessons_.late, (clock.overtaken_max > 0 ? Duration() : clock.wait) + (clock.now - sent->at));
    return false;
  }
  ++lessons_.lost;
  return true;
}

void Scoreboard::advance(wire::Psn base, bool reported, const Clock& clock) {
  const int32_t steps = std::min<int32_t>(base_.distance_to(base), kSpan);
  for (int32_t i = 0; i < steps; ++i) {
    const uint32_t slot = slot_of(base_.plus(static_cast<uint32_t>(i)));
    if (arrived_.test(slot)) {
      arrived_.reset(slot);
      --arrived_count_;
      arrived_in_window_ -= in_window_.test(slot) ? 1 : 0;
    } else {
      if (learn(slot, clock) && reported) {
        note_delivery(slot, clock.now);
      }
    }
    order_[slot] = kNotSent;
  }
  if (steps > 0) {
    base_ = base;
    sent_end_ = sent_end_.distance_to(base_) > 0 ? base_ : sent_end_;
  }
  note_overdue(clock);
}

bool Scoreboard::on_report(const wire::GapReport& report, const Clock& clock) {
  const uint32_t before = arrived_count_;
  for (uint32_t i = 0; i + 1 < kSpan; ++i) {
    if (!report.holds(i)) {
      continue;
    }
    const wire::Psn psn = base_.plus(i + 1);
    const uint32_t slot = slot_of(psn);
    if (arrived_.test(slot) || order_[slot] == kNotSent) {
      continue;
    }
    const bool last_sent = learn(slot, clock);
    arrived_.set(slot);
    ++arrived_count_;
    arrived_in_window_ += in_window_.test(slot) ? 1 : 0;
    if (last_sent) {
      note_delivery(slot, clock.now);
    }
  }
  note_overdue(clock);
  return arrived_count_ > before;
}

void Scoreboard::note_overdue(const Clock& clock) {
  const uint32_t before = overdue_;
  uint32_t over = 0;
  while (over < mark_count_ && clock.now >= marks_[over].at + clock.wait) {
    overdue_ = std::max(overdue_, marks_[over].number);
    overdue_at_ = marks_[over].at;
    ++over;
  }
  std::copy(marks_.begin() + over, marks_.begin() + mark_count_, marks_.begin());
  mark_count_ -= over;
  // The one sent overtaken_max later has the number order + overtaken_max, and delivered_ is one more than what has arrived.
  if (clock.overtaken_max > 0 && delivered_ > overdue_ + clock.overtaken_max - 1) {
    overdue_ = delivered_ - clock.overtaken_max + 1;
    overdue_at_ = clock.now;
  }
  searched_ = searched_ && overdue_ == before;
}

std::optional<wire::Psn> Scoreboard::first_before(uint32_t end, wire::Psn psn) const {
  for (; psn.distance_to(sent_end_) > 0; psn = psn.next()) {
    const uint32_t slot = slot_of(psn);
    if (!arrived_.test(slot) && order_[slot] != kNotSent && order_[slot] + 1 < end) {
      return psn;
    }
  }
  return std::nullopt;
}

std::optional<wire::Psn> Scoreboard::next_lost() {
  if (!searched_ || search_at_.distance_to(base_) > 0) {
    search_at_ = base_;
    searched_ = true;
  }
  const std::optional<wire::Psn> lost = first_before(overdue_, search_at_);
  search_at_ = lost.value_or(sent_end_);
  return lost;
}

}  // namespace cw::rc
