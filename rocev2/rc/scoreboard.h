// What the requester knows of packets in flight while a peer with selective recovery reports gaps: which of them have arrived,
// and which must have been lost, because something that was sent later has arrived. From a slab, and only while there is a gap.
//
// Every transmission has a number. A packet is lost when it has not arrived and a transmission with a higher number has: so that
// the loss of a repetition shows as soon as anything sent after it arrives, and nothing is repeated because of its own echo.
// Reports are the peer's word: they choose among packets that were really sent, and cannot cause more repetitions than
// transmissions that they acknowledge.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>

#include "rocev2/wire/gap_report.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class Scoreboard {
 public:
  // Packets that it covers, from the first that has not arrived.
  static constexpr uint32_t kSpan = wire::GapReport::kBits;

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
  void on_repeated(wire::Psn psn);
  // Everything before `base` has arrived. `reported`: the peer has said so after it said what else it holds, if anything, so that
  // what was sent earlier and has not been reported is lost. A READ response says nothing of what is held behind its request.
  void advance(wire::Psn base, bool reported);
  // The peer holds these, seen from base(). True when it has said so of any for the first time.
  [[nodiscard]] bool on_report(const wire::GapReport& report);
  // Of a packet behind base().
  [[nodiscard]] bool has_arrived(wire::Psn psn) const { return covers(psn) && arrived_.test(slot_of(psn)); }
  // The oldest packet that is lost, or nullopt; the same one until on_sent().
  [[nodiscard]] std::optional<wire::Psn> next_lost();
  // Nothing is known beyond base(), and every repetition has been settled: go on without.
  [[nodiscard]] bool is_over() { return arrived_count_ == 0 && settled_at_.distance_to(base_) >= 0 && !next_lost(); }

 private:
  static constexpr uint32_t kNotSent = UINT32_MAX;
  [[nodiscard]] static uint32_t slot_of(wire::Psn psn) { return psn.value() % kSpan; }
  void number(wire::Psn psn);
  void note_delivery(uint32_t slot);

  wire::Psn base_;
  wire::Psn settled_at_;  // when everything before this has arrived, so has every repetition
  wire::Psn sent_end_;    // one past the furthest that was sent
  wire::Psn search_at_;   // nothing between base_ and here is lost; valid when searched_
  bool searched_ = false;
  uint32_t transmissions_ = 0;         // numbers given out
  uint32_t delivered_ = 0;             // 1 + highest number that has arrived; 0: none
  uint32_t arrived_count_ = 0;         // beyond base_
  uint32_t arrived_in_window_ = 0;     // of these
  std::bitset<kSpan> arrived_;         // by slot
  std::bitset<kSpan> in_window_;       // by slot; valid where order_ is
  std::array<uint32_t, kSpan> order_;  // number of the last transmission, by slot
};

}  // namespace cw::rc
