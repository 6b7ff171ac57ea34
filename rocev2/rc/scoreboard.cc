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
  }
}

void Scoreboard::on_repeated(wire::Psn psn) {
  if (covers(psn)) {
    number(psn);
    settled_at_ = settled_at_.distance_to(psn) >= 0 ? psn.next() : settled_at_;
  }
}

void Scoreboard::note_delivery(uint32_t slot) {
  if (order_[slot] != kNotSent && order_[slot] >= delivered_) {
    delivered_ = order_[slot] + 1;
    searched_ = false;
  }
}

void Scoreboard::advance(wire::Psn base, bool reported) {
  const int32_t steps = std::min<int32_t>(base_.distance_to(base), kSpan);
  for (int32_t i = 0; i < steps; ++i) {
    const uint32_t slot = slot_of(base_.plus(static_cast<uint32_t>(i)));
    if (arrived_.test(slot)) {
      arrived_.reset(slot);
      --arrived_count_;
      arrived_in_window_ -= in_window_.test(slot) ? 1 : 0;
    } else if (reported) {
      note_delivery(slot);
    }
    order_[slot] = kNotSent;
  }
  if (steps > 0) {
    base_ = base;
    sent_end_ = sent_end_.distance_to(base_) > 0 ? base_ : sent_end_;
  }
}

bool Scoreboard::on_report(const wire::GapReport& report) {
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
    arrived_.set(slot);
    ++arrived_count_;
    arrived_in_window_ += in_window_.test(slot) ? 1 : 0;
    note_delivery(slot);
  }
  return arrived_count_ > before;
}

std::optional<wire::Psn> Scoreboard::next_lost() {
  if (!searched_ || search_at_.distance_to(base_) > 0) {
    search_at_ = base_;
    searched_ = true;
  }
  for (; search_at_.distance_to(sent_end_) > 0; search_at_ = search_at_.next()) {
    const uint32_t slot = slot_of(search_at_);
    if (!arrived_.test(slot) && order_[slot] != kNotSent && order_[slot] + 1 < delivered_) {
      return search_at_;
    }
  }
  return std::nullopt;
}

}  // namespace cw::rc
