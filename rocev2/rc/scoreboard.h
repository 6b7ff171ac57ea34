// What the requester knows of packets in flight while a peer with selective recovery reports gaps: which of them have arrived,
// which were overtaken, because something that was sent later has arrived, and which of these must have been lost, because they
// have not arrived within the reordering window (reorder_window.h) since. From a slab, and only while there is a gap.
//
// Every transmission has a number. A packet is overtaken when it has not arrived and a transmission with a higher number has: so
// that the loss of a repetition shows by what is sent after it, and nothing is repeated because of its own echo. Which number had
// arrived by when is kept for a few instants (kMarks); more of them than that count as later than they were.
// Reports are the peer's word: they choose among packets that were really sent, and cannot cause more repetitions than
// transmissions that they acknowledge.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"
#include "rocev2/wire/gap_report.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class Scoreboard {
 public:
  // Packets that it covers, from the first that has not arrived.
  static constexpr uint32_t kSpan = wire::GapReport::kBits;
  static constexpr uint32_t kMarks = 8;

  // With what an arrival is judged.
  struct Clock {
    Instant now;
    Duration wait;               // what overtaken packets are given: the reordering window
    uint32_t overtaken_max = 0;  // a packet is lost at once when the one sent so many later has arrived; 0: never at once
    Duration echo_time;          // what comes so soon after a repetition is the first transmission
  };
  // What arrivals have shown since the last take_lessons().
  struct Lessons {
    Duration late;          // the longest time that a first transmission came after one sent later; 0: none did
    uint32_t lost = 0;      // repetitions that came first
    uint32_t spurious = 0;  // repetitions that the first transmission came before
  };

  // `base`: the first packet that has not arrived.
  explicit Scoreboard(wire::Psn base) : base_(base), settled_at_(base), sent_end_(base) { order_.fill(kNotSent); }

  [[nodiscard]] wire::Psn base() const { return base_; }
  // Of the packets that count in the send window.
  [[nodiscard]] uint32_t arrived_in_window() const { return arrived_in_window_; }
  [[nodiscard]] bool covers(wire::Psn psn) const { return wire::PsnWindow{base_, kSpan}.contains(psn); }
  // A packet leaves; whoever is not covered is not watched. `in_window`: it counts in the send window, as all do but those whose
  // answer is a response.
  void on_sent(wire::Psn psn, bool in_window);
  // The same packet again.
  void on_repeated(wire::Psn psn, Instant now);
  // Everything before `base` has arrived. `reported`: the peer has said so after it said what else it holds, if anything, so that
  // what was sent earlier and has not been reported is overtaken. A READ response says nothing of what is held behind its
  // request.
  void advance(wire::Psn base, bool reported, const Clock& clock);
  // The peer holds these, seen from base(). True when it has said so of any for the first time.
  [[nodiscard]] bool on_report(const wire::GapReport& report, const Clock& clock);
  // Time has passed: what has been overtaken for long enough is lost.
  void note_overdue(const Clock& clock);
  // When note_overdue() may have something to note; never() when nothing is overtaken.
  [[nodiscard]] Instant next_overdue(Duration wait) const { return mark_count_ > 0 ? marks_[0].at + wait : Instant::never(); }
  [[nodiscard]] Lessons take_lessons() { return std::exchange(lessons_, {}); }
  // Of a packet behind base().
  [[nodiscard]] bool has_arrived(wire::Psn psn) const { return covers(psn) && arrived_.test(slot_of(psn)); }
  // The oldest packet that is lost, or nullopt; the same one until on_sent().
  [[nodiscard]] std::optional<wire::Psn> next_lost();
  // Nothing is known beyond base(), nothing there is overtaken, and every repetition has been settled: go on without.
  [[nodiscard]] bool is_over() const {
    return arrived_count_ == 0 && settled_at_.distance_to(base_) >= 0 && !first_before(delivered_, base_);
  }

 private:
  static constexpr uint32_t kNotSent = UINT32_MAX;
  [[nodiscard]] static uint32_t slot_of(wire::Psn psn) { return psn.value() % kSpan; }
  void number(wire::Psn psn);
  void note_delivery(uint32_t slot, Instant now);
  [[nodiscard]] bool learn(uint32_t slot, const Clock& clock);
  // The first packet from `psn` on that has not arrived, although a transmission numbered below `end` was sent after it.
  [[nodiscard]] std::optional<wire::Psn> first_before(uint32_t end, wire::Psn psn) const;

  wire::Psn base_;
  wire::Psn settled_at_;  // when everything before this has arrived, so has every repetition
  wire::Psn sent_end_;    // one past the furthest that was sent
  wire::Psn search_at_;   // nothing between base_ and here is lost; valid when searched_
  bool searched_ = false;
  uint32_t transmissions_ = 0;         // numbers given out
  uint32_t delivered_ = 0;             // 1 + highest number that has arrived; 0: none
  uint32_t overdue_ = 0;               // what delivered_ was a reordering window ago
  Instant overdue_at_;                 // when it was that; valid when overdue_ > 0
  uint32_t arrived_count_ = 0;         // beyond base_
  uint32_t arrived_in_window_ = 0;     // of these
  std::bitset<kSpan> arrived_;         // by slot
  std::bitset<kSpan> in_window_;       // by slot; valid where order_ is
  std::bitset<kSpan> repeated_;        // likewise
  std::array<uint32_t, kSpan> order_;  // number of the last transmission, by slot

  struct Mark {
    uint32_t number = 0;
    Instant at;
  };
  using Marks = std::array<Mark, kMarks>;
  Marks marks_;        // what delivered_ became and when, oldest first. Where all are taken, the last moves on
  Marks repetitions_;  // first number of those that were repeated at a time, latest first
  uint32_t mark_count_ = 0;
  uint32_t repetition_count_ = 0;
  Lessons lessons_;
};

}  // namespace cw::rc
