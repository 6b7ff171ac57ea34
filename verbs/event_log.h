// A flight recorder of fixed size: the last things out of the ordinary that happened on a wire, oldest pushed out first. The same
// event again, with nothing else in between, is one entry with a count, so that what repeats itself does not push out the rest.
//
// Entry has: Instant at, first (of the last and the first of those that one entry counts), uint32_t count, bool is_same(const
// Entry&), whatever their times, std::string_view kWire, and to_event(), which says it in the words that all transports use.
//
// Each event that is noted can be watched as it happens, also those that are counted together: base/usdt.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "base/assert.h"
#include "base/usdt.h"
#include "verbs/transport_event.h"

namespace cw::verbs {

template <typename Entry>
class EventLog {
 public:
  explicit EventLog(uint32_t capacity) : entries_(std::make_unique<Entry[]>(capacity)), capacity_(capacity) {
    CW_ASSERT(capacity > 0);
  }

  // `entry.at` says when; `first` and `count` are set here.
  void note(Entry entry) {
    entry.first = entry.at;
    entry.count = 1;
    if (written_ > 0) {
      const Entry& last = entries_[(written_ - 1) % capacity_];
      if (last.is_same(entry) && last.count < UINT32_MAX) {
        entry.first = last.first;
        entry.count = last.count + 1;
        --written_;
      }
    }
    entries_[written_++ % capacity_] = entry;
    if (usdt::watches_transport_events()) [[unlikely]] {
      tell(to_event(entry));
    }
  }

  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(std::min<uint64_t>(written_, capacity_)); }
  // Entries that were pushed out by later ones.
  [[nodiscard]] uint64_t overwritten() const { return written_ - size(); }
  // The youngest that fit, oldest first; returns how many.
  uint32_t copy(std::span<TransportEvent> out) const {
    const auto count = static_cast<uint32_t>(std::min<size_t>(size(), out.size()));
    for (uint32_t i = 0; i < count; ++i) {
      out[i] = to_event(entries_[(written_ - count + i) % capacity_]);
    }
    return count;
  }

 private:
  static void tell(const TransportEvent& event) {
    usdt::fire(usdt::TransportEvent{.wire = Entry::kWire,
                                    .event = event.event,
                                    .reason = event.reason,
                                    .local_qpn = event.local_qpn.value(),
                                    .peer = event.peer,
                                    .peer_port = event.peer_port,
                                    .sequence = event.sequence});
  }

  std::unique_ptr<Entry[]> entries_;
  uint32_t capacity_;
  uint64_t written_ = 0;
};

}  // namespace cw::verbs
