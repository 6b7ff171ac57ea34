#include "rocev2/rc/read_gaps.h"

#include <algorithm>

#include "base/assert.h"

namespace cw::rc {

bool ReadGaps::add(Hole hole) {
  if (hole_count_ > 0) {
    Hole& previous = holes_[hole_count_ - 1];
    const bool same_request = previous.request_end == hole.request_end;
    if (same_request && previous.end() == hole.first) {
      previous.count += hole.count;
      return true;
    }
    if (asks_rest_ && same_request) {
      hole.asked = previous.asked;  // which was for this one too, or will be
      hole.lost = previous.lost;
    }
  }
  if (hole_count_ == kHolesMax) {
    return false;
  }
  holes_[hole_count_++] = hole;
  return true;
}

void ReadGaps::remove(uint32_t index) {
  std::copy(holes_.begin() + index + 1, holes_.begin() + hole_count_, holes_.begin() + index);
  --hole_count_;
}

Work& ReadGaps::work_at_frontier() {
  if (last_->first_psn.plus(last_->packets) == frontier_) {
    last_ = last_->next;
    CW_DASSERT(last_ != nullptr && last_->begun);
  }
  return *last_;
}

bool ReadGaps::move_frontier(wire::Psn psn, const Asking& asked, Instant now, bool overtaken) {
  while (frontier_ != psn) {
    Work& work = work_at_frontier();
    const bool awaited = work.awaits_response();
    const auto index = static_cast<uint32_t>(work.first_psn.distance_to(frontier_));
    const wire::Psn end = work.first_psn.plus(awaited ? work.request_end(index, request_packets_) : work.packets);
    const wire::Psn reached = end.distance_to(psn) > 0 ? end : psn;
    if (awaited) {
      Hole hole{.first = frontier_,
                .count = static_cast<uint32_t>(frontier_.distance_to(reached)),
                .work = &work,
                .request_end = end,
                .before = work.payload.tail(),
                .asked = asked,
                .noted_at = now};
      if (asked.again() && overtaken) {
        note_overtaken(hole, now);
      }
      if (!add(hole)) {
        return false;
      }
    }
    frontier_ = reached;
  }
  return true;
}

wire::Psn ReadGaps::request_end_at_frontier() const {
  const auto index = static_cast<uint32_t>(last_->first_psn.distance_to(frontier_));
  const bool within = last_->kind == WorkKind::kRead && index != Work::request_begin(index, request_packets_);
  return within ? last_->first_psn.plus(last_->request_end(index, request_packets_)) : frontier_;
}

uint32_t ReadGaps::complete_count(const Work* oldest) const {
  uint32_t count = 0;  // of requests that have been answered
  for (const Work* work = oldest;; work = work->next) {
    if (work->awaits_response()) {
      const auto begin = work == oldest ? static_cast<uint32_t>(work->first_psn.distance_to(first_missing())) : 0;
      const auto end = work == last_ ? static_cast<uint32_t>(work->first_psn.distance_to(frontier_)) : work->packets;
      const bool within = end != work->packets && end != Work::request_begin(end, request_packets_);
      count += Work::requests_of(begin, end, request_packets_) - (within ? 1 : 0);
    }
    if (work == last_) {
      break;
    }
  }
  for (uint32_t i = 0; i < hole_count_; ++i) {
    const bool counted = holes_[i].request_end.distance_to(frontier_) >= 0;
    const bool first_of_request = i == 0 || holes_[i].request_end != holes_[i - 1].request_end;
    count -= counted && first_of_request ? 1 : 0;
  }
  return count;
}

ReadGaps::Hole* ReadGaps::find(wire::Psn psn) {
  for (uint32_t i = 0; i < hole_count_ && holes_[i].first.distance_to(psn) >= 0; ++i) {
    if (psn.distance_to(holes_[i].end()) > 0) {
      return &holes_[i];
    }
  }
  return nullptr;
}

bool ReadGaps::can_fill(const Hole& hole, wire::Psn psn) const {
  const bool splits = psn != hole.first && psn.next() != hole.end();
  return !splits || hole_count_ < kHolesMax;
}

void ReadGaps::fill(Hole& hole, wire::Psn psn, Buffer* frame) {
  ++early_count_;
  const auto index = static_cast<uint32_t>(&hole - holes_.data());
  if (frame != nullptr) {
    hole.work->payload.insert_after(hole.before, frame);
    // Holes of later requests with nothing in between.
    for (uint32_t i = index + 1; i < hole_count_ && holes_[i].work == hole.work && holes_[i].before == hole.before; ++i) {
      holes_[i].before = frame;
    }
  }
  const auto ahead = static_cast<uint32_t>(hole.first.distance_to(psn));
  const uint32_t behind = hole.count - ahead - 1;
  Hole rest = hole;
  rest.first = psn.next();
  rest.count = behind;
  rest.before = frame != nullptr ? frame : hole.before;
  if (ahead == 0) {
    if (behind == 0) {
      remove(index);
    } else {
      hole = rest;
    }
    return;
  }
  hole.count = ahead;
  if (behind > 0) {
    std::copy_backward(holes_.begin() + index + 1, holes_.begin() + hole_count_, holes_.begin() + hole_count_ + 1);
    holes_[index + 1] = rest;
    ++hole_count_;
  }
}

void ReadGaps::note_overtaken(Hole& hole, Instant now) {
  hole.overtaken_at = hole.overtaken_by == 0 ? now : hole.overtaken_at;
  hole.overtaken_by = static_cast<uint8_t>(std::min(hole.overtaken_by + 1, int{UINT8_MAX}));
}

void ReadGaps::note_answer_of(wire::Psn psn, Instant now) {
  for (uint32_t i = 0; i < hole_count_; ++i) {
    Hole& hole = holes_[i];
    if (!hole.asked.again() || hole.asked.limit_psn.distance_to(psn) >= 0) {
      note_overtaken(hole, now);
    }
  }
}

void ReadGaps::note_answer_to(const Asking& asked, wire::Psn psn, Instant now) {
  for (uint32_t i = 0; i < hole_count_; ++i) {
    Hole& hole = holes_[i];
    const bool before = hole.asked.number < asked.number;
    const bool earlier_of_same = hole.asked.number == asked.number && hole.end().distance_to(psn) >= 0;
    if (before || earlier_of_same) {
      note_overtaken(hole, now);
    }
  }
}

void ReadGaps::note_duplicate(wire::Psn psn, Instant now, Duration age_min) {
  for (uint32_t i = 0; i < hole_count_ && asks_rest_; ++i) {
    Hole& hole = holes_[i];
    const bool passed = hole.end().distance_to(psn) >= 0 && psn.distance_to(hole.request_end) > 0;
    if (passed && hole.asked.again() && now - hole.asked.at >= age_min) {
      note_overtaken(hole, now);
    }
  }
}

Instant ReadGaps::overdue_at(const Hole& hole, const Patience& patience) {
  if (hole.overtaken_by == 0) {
    return Instant::never();
  }
  const bool by_many = patience.overtaken_max > 0 && hole.overtaken_by >= patience.overtaken_max;
  const Instant at = by_many ? hole.overtaken_at : hole.overtaken_at + patience.wait;
  return hole.asked.again() ? std::max(at, hole.asked.at + patience.again_min) : at;
}

void ReadGaps::note_overdue(Instant now, const Patience& patience) {
  for (uint32_t i = 0; i < hole_count_; ++i) {
    holes_[i].lost = holes_[i].lost || now >= overdue_at(holes_[i], patience);
  }
}

Instant ReadGaps::next_overdue(const Patience& patience) const {
  Instant next = Instant::never();
  for (uint32_t i = 0; i < hole_count_; ++i) {
    next = holes_[i].lost ? next : earlier(next, overdue_at(holes_[i], patience));
  }
  return next;
}

void ReadGaps::note_all_lost() {
  for (uint32_t i = 0; i < hole_count_; ++i) {
    holes_[i].lost = true;
  }
}

ReadGaps::Hole* ReadGaps::next_lost() {
  const auto end = holes_.begin() + hole_count_;
  const auto lost = std::find_if(holes_.begin(), end, [](const Hole& hole) { return hole.lost; });
  return lost != end ? &*lost : nullptr;
}

void ReadGaps::on_asked(Hole& hole, wire::Psn limit_psn, Instant now) {
  const Asking asked = ask(hole.first, limit_psn, now);
  const auto index = static_cast<uint32_t>(&hole - holes_.data());
  for (uint32_t i = index; i < hole_count_ && (i == index || (asks_rest_ && holes_[i].request_end == holes_[index].request_end));
       ++i) {
    holes_[i].asked = asked;
    holes_[i].overtaken_by = 0;
    holes_[i].lost = false;
  }
}

void ReadGaps::take_early(Work* oldest, Chain& out) {
  if (empty()) {
    return;
  }
  for (Work* work = oldest;; work = work->next) {
    if (work->kind == WorkKind::kRead) {
      out.append(work->payload.cut_after(work == oldest ? holes_[0].before : nullptr));
    }
    if (work == last_) {
      return;
    }
  }
}

bool ReadGaps::is_consistent() const {
  for (uint32_t i = 0; i < hole_count_; ++i) {
    const Hole& hole = holes_[i];
    const wire::Psn next = i + 1 < hole_count_ ? holes_[i + 1].first : frontier_;
    const bool inside = hole.work->first_psn.distance_to(hole.first) >= 0 && hole.end().distance_to(hole.request_end) >= 0;
    const bool apart = i + 1 == hole_count_ || hole.request_end != holes_[i + 1].request_end || hole.end() != holes_[i + 1].first;
    if (hole.count == 0 || !inside || !apart || hole.end().distance_to(next) < 0) {
      return false;
    }
  }
  return true;
}

}  // namespace cw::rc
