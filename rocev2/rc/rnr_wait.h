// The wait that an RNR NAK asks for: until it is over, or the peer has acknowledged something, nothing is sent.
#pragma once

#include "base/assert.h"
#include "base/time.h"

namespace cw::rc {

class RnrWait {
 public:
  [[nodiscard]] bool is_under_way() const { return until_ != Instant(); }
  // Precondition: is_under_way().
  [[nodiscard]] Instant until() const { return until_; }
  // Precondition: until is behind the origin of the clock.
  void start(Instant until) {
    CW_DASSERT(until > Instant());
    until_ = until;
  }
  void end() { until_ = Instant(); }

 private:
  Instant until_;  // the origin of the clock: no wait
};

}  // namespace cw::rc
