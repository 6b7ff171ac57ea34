// Something says that the oldest packet is lost, and may be wrong. It counts when some time has passed and the packet has not
// been acknowledged (retransmit.cc); then everything from there on is sent again.
//
//   A sequence NAK that came within a round trip after going back: too early to be about the repetition. A peer that says NAK
//   once for each gap says nothing more when that is lost too. It waits until the repetition should have been acknowledged; where
//   repetitions have not been, only until they could have been.
//
//   The answer to a tail probe that acknowledges some of what was under way, not all: what was sent before the probe has been
//   lost since. But a peer that slept acknowledges what it finds in several steps: no further one comes within half a round
//   trip.
#pragma once

#include <cstdint>

namespace cw::rc {

class SuspectedLoss {
 public:
  [[nodiscard]] bool exists() const { return state_ != State::kNone; }
  [[nodiscard]] bool is_of_probe() const { return state_ == State::kProbe; }
  // It, or one before it that was put off, came with an acknowledgement of something: it does not count as a retry.
  [[nodiscard]] bool progressed() const { return state_ == State::kNakProgressed || state_ == State::kProbe; }
  void note_nak(bool progressed) { state_ = progressed ? State::kNakProgressed : State::kNak; }
  void note_probe_answer() { state_ = State::kProbe; }
  void drop() { state_ = State::kNone; }
  // How long a NAK waits, learnt from those before: long when the repetition was acknowledged a moment after everything had been
  // sent once more; not so long when the repetition was not acknowledged either, as where many packets are late.
  [[nodiscard]] bool is_patient() const { return patient_; }
  void learn(bool patient) { patient_ = patient; }

 private:
  enum class State : uint8_t { kNone, kNak, kNakProgressed, kProbe };

  State state_ : 7 = State::kNone;
  bool patient_ : 1 = true;
};
static_assert(sizeof(SuspectedLoss) == 1);  // every queue pair has one

}  // namespace cw::rc
