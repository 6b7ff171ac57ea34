// A flight recorder of fixed size: the last things out of the ordinary, oldest pushed out first. The same event again, with
// nothing else in between, is one entry with a count, so that what repeats itself does not push out the rest.
//
// Event has: Instant at, first (of the last and the first of those that one entry counts), uint32_t count, and
// bool is_same(const Event&), whatever their times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/assert.h"

namespace cw {

template <typename Event>
class EventLog {
 public:
  explicit EventLog(uint32_t capacity) : events_(std::make_unique<Event[]>(capacity)), capacity_(capacity) {
    CW_ASSERT(capacity > 0);
  }

  // `event.at` says when; `first` and `count` are set here.
  void note(Event event) {
    event.first = event.at;
    event.count = 1;
    if (written_ > 0) {
      Event& last = events_[(written_ - 1) % capacity_];
      if (last.is_same(event) && last.count < UINT32_MAX) {
        event.first = last.first;
        event.count = last.count + 1;
        last = event;
        return;
      }
    }
    events_[written_++ % capacity_] = event;
  }

  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(std::min<uint64_t>(written_, capacity_)); }
  // Entries that were pushed out by later ones.
  [[nodiscard]] uint64_t overwritten() const { return written_ - size(); }
  // The youngest `count`, oldest first. Precondition: no more than size().
  template <typename Visit>
  void visit_youngest(uint32_t count, Visit visit) const {
    CW_DASSERT(count <= size());
    for (uint64_t i = written_ - count; i < written_; ++i) {
      visit(events_[i % capacity_]);
    }
  }

 private:
  std::unique_ptr<Event[]> events_;
  uint32_t capacity_;
  uint64_t written_ = 0;
};

}  // namespace cw
