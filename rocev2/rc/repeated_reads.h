// READ requests that were sent again and whose repetition may still be on its way to a peer that is not Causeway, so that no SEND
// overtakes them. From a slab, and only while there are any.
//
// A SEND is the answer to a call: it invalidates the call's key, or makes the peer do so. A READ request under a dead key gets
// NAK Remote Access Error from a standard responder even when it repeats an answered one, and both queue pairs go to Error
// (seen with Linux, where packets overtake each other). A call's READs are complete before its answer is posted, and what they
// were asked for the first time has been executed by then. A repetition need not have been: its answer came too late to be
// needed, or it was sent because the first request was late. So a SEND waits for every repetition, of a READ that is complete,
// that left before the SEND came to its turn, until
//   - it has been executed: what begins within a READ request is answered from a First again, where the first answer had a Middle
//     or Last. Of two with one PSN nobody knows which one such an answer is to, or whether it is a copy that the network has made
//     of the answer before: while one may be under way, time alone decides about those that follow it, or
//   - so much time has passed that it is no longer in the network (repetition_life() in retransmit.h).
// Repetitions that leave later are of other calls: no SEND waits twice, nor one that was posted while another waited.
//
// Bounds: kMost repetitions. Where there are more, the two oldest become one that stands for both: nothing is waited for less
// long than it has to be. A responder of ours ignores a repetition under a dead key, so none is noted towards Causeway peers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class RepeatedReads {
 public:
  static constexpr uint32_t kMost = 64;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  // A request that begins with the response `first` leaves again. `until`: later it is in the network no more. `within`: its
  // answer shows that it is one, because it begins within what was asked for together.
  void note(wire::Psn first, Instant now, Instant until, bool within) {
    const auto end = repetitions_.begin() + count_;
    const bool alone =
        std::none_of(repetitions_.begin(), end, [first](const Repetition& r) { return r.several || r.first == first; });
    if (count_ == kMost) {
      merge_oldest();
    }
    repetitions_[count_++] = {.first = first, .sent_at = now, .until = until, .within = within && alone};
  }
  // A First or Only with this PSN has come. `least`: what comes sooner after a repetition is no answer to it.
  void note_answer(wire::Psn first, Instant now, Duration least) {
    const auto end = repetitions_.begin() + count_;
    const auto answered = std::find_if(
        repetitions_.begin(), end, [=](const Repetition& r) { return r.within && r.first == first && now - r.sent_at >= least; });
    if (answered != end) {
      answered->answered = true;
    }
  }
  // Time has passed, or answers have come.
  void review(Instant now, wire::Psn una) {
    const auto end = repetitions_.begin() + count_;
    count_ = static_cast<uint32_t>(
        std::remove_if(repetitions_.begin(), end, [now](const Repetition& r) { return r.until <= now; }) - repetitions_.begin());
    release(now, una);
  }

  // The SEND with this SSN has its turn; `newest` is the SSN of the last work posted. Whether it waits is in holds() from then
  // on.
  void consider(Instant now, wire::Psn una, wire::Psn ssn, wire::Psn newest) {
    if (!holding_ && released_.has(ssn)) {
      return;
    }
    if (!holding_) {
      held_since_ = now;
      covers_ = newest;
    }
    holding_ = true;
    release(now, una);
  }
  // Precondition: consider() was called with it, or it need not wait yet.
  [[nodiscard]] bool holds(wire::Psn ssn) const { return holding_ && !released_.has(ssn); }
  // When a SEND that waits may leave at the latest; never() when none waits.
  [[nodiscard]] Instant release_at(wire::Psn una) const { return holding_ ? clear_at(una) : Instant::never(); }
  // When none of them is in the network any more. Precondition: !empty().
  [[nodiscard]] Instant over_at() const {
    Instant at;
    for (uint32_t i = 0; i < count_; ++i) {
      at = std::max(at, repetitions_[i].until);
    }
    return at;
  }

 private:
  void release(Instant now, wire::Psn una) {
    if (holding_ && now >= clear_at(una)) {
      holding_ = false;
      released_ = Released{true, covers_};
    }
  }
  struct Repetition {
    wire::Psn first;
    Instant sent_at;
    Instant until;
    bool within = false;    // an answer from `first` on is to this one
    bool answered = false;  // nobody waits for it; copies of the answer may still come
    bool several = false;   // stands for others too, which began behind `first` and left later
  };
  struct Released {
    bool any = false;
    wire::Psn upto;
    [[nodiscard]] bool has(wire::Psn ssn) const { return any && ssn.distance_to(upto) >= 0; }
  };

  // Precondition: kMost repetitions. What a SEND that waits has to wait for stays apart from what left later.
  void merge_oldest() {
    const bool apart = holding_ && repetitions_[0].sent_at <= held_since_ && repetitions_[1].sent_at > held_since_;
    const auto one = repetitions_.begin() + (apart ? 1 : 0);
    const auto next = one + 1;
    next->first = one->first.distance_to(next->first) < 0 ? next->first : one->first;
    next->sent_at = one->sent_at;
    next->until = std::max(one->until, next->until);
    next->within = false;
    next->answered = one->answered && next->answered;
    next->several = true;
    std::copy(next, repetitions_.begin() + count_, one);
    --count_;
  }

  [[nodiscard]] Instant clear_at(wire::Psn una) const {
    Instant at;
    for (uint32_t i = 0; i < count_; ++i) {
      const Repetition& one = repetitions_[i];
      const bool complete = one.first.distance_to(una) > 0;
      at = complete && !one.answered && one.sent_at <= held_since_ ? std::max(at, one.until) : at;
    }
    return at;
  }

  std::array<Repetition, kMost> repetitions_;  // oldest first
  uint32_t count_ = 0;
  bool holding_ = false;
  Instant held_since_;  // valid when holding_
  wire::Psn covers_;    // valid when holding_: SSN of the last work that was there then
  Released released_;   // works that wait no more
};

}  // namespace cw::rc
