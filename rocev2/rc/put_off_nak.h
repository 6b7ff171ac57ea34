// A sequence NAK for the oldest packet that came within a round trip after going back: too early to be about the repetition. It
// is put off until that time is over, and counts then if the oldest packet has not been acknowledged (repeat_from).
#pragma once

#include <cstdint>

namespace cw::rc {

class PutOffNak {
 public:
  [[nodiscard]] bool exists() const { return state_ != State::kNone; }
  // It acknowledged something, or one that was put off before it did.
  [[nodiscard]] bool progressed() const { return state_ == State::kProgressed; }
  void put_off(bool progressed) { state_ = progressed ? State::kProgressed : State::kPutOff; }
  void drop() { state_ = State::kNone; }

 private:
  enum class State : uint8_t { kNone, kPutOff, kProgressed };

  State state_ = State::kNone;
};

}  // namespace cw::rc
