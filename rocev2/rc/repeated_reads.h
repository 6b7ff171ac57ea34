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
//     or Last, or
//   - so much time has passed that it is no longer in the network (repetition_life() in retransmit.h).
// Repetitions that leave later are of other calls: no SEND waits twice, nor one that was posted while another waited.
//
// Bounds: kMost repetitions; further ones prolong the last. A responder of ours ignores a repetition under a dead key, so none is
// noted towards Causeway peers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "rocev2/base/time.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class RepeatedReads {
 public:
  static constexpr uint32_t kMost = 32;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  // A request that begins with the response `first` leaves again. `until`: later it is in the network no more. `within`: its
  // answer shows that it is one, because it begins within what was asked for together.
  void note(wire::Psn first, Instant now, Instant until, bool within) {
    if (count_ == kMost) {
      Repetition& last = repetitions_[kMost - 1];
      last = {.first = last.first, .sent_at = now, .until = std::max(last.until, until), .within = false};
      return;
    }
    repetitions_[count_++] = {.first = first, .sent_at = now, .until = until, .within = within};
  }
  // A First or Only with this PSN has come.
  void note_answer(wire::Psn first) {
    const auto end = repetitions_.begin() + count_;
    const auto answered =
        std::find_if(repetitions_.begin(), end, [first](const Repetition& r) { return r.within && r.first == first; });
    if (answered != end) {
      std::copy(answered + 1, end, answered);
      --count_;
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
    bool within = false;
  };
  struct Released {
    bool any = false;
    wire::Psn upto;
    [[nodiscard]] bool has(wire::Psn ssn) const { return any && ssn.distance_to(upto) >= 0; }
  };

  [[nodiscard]] Instant clear_at(wire::Psn una) const {
    Instant at;
    for (uint32_t i = 0; i < count_; ++i) {
      const Repetition& one = repetitions_[i];
      const bool complete = one.first.distance_to(una) > 0;
      at = complete && one.sent_at <= held_since_ ? std::max(at, one.until) : at;
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
