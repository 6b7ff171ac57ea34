// When calls are due in an open loop, whatever the server does: at a rate that may change over time, evenly, at random, or in
// bursts.
//
// The area below the rate between two arrivals is 1 (even) or drawn from an exponential distribution of mean 1 (Poisson), for
// bursts of n calls n times as much: this holds while the rate changes, too. Even arrivals are counted from the start, so that
// rounding to whole nanoseconds does not add up.
#pragma once

#include <cstdint>

#include "apps/load/profile.h"
#include "base/random.h"
#include "base/time.h"

namespace cw::load {

enum class Arrivals : uint8_t { kConstant, kPoisson };

class ArrivalSchedule {
 public:
  // `burst`: calls that are due at the same instant, at least 1. `random` must outlive the schedule.
  ArrivalSchedule(const Profile& rate, Arrivals arrivals, uint32_t burst, RandomSource& random)
      : rate_(rate), arrivals_(arrivals), burst_(burst), random_(random) {}

  void start(Instant now);
  // When the next call is due; never() before start() and when the rate has gone to 0 for good.
  [[nodiscard]] Instant next() const { return next_; }
  // Passes on to the call after it. Precondition: next() is not never().
  void take();

 private:
  void draw();

  Profile rate_;
  Arrivals arrivals_;
  uint32_t burst_;
  RandomSource& random_;
  Instant start_;
  Duration from_;      // since the start: where the area is counted from
  double area_ = 0;    // of the last burst, from there
  uint32_t left_ = 0;  // calls of this burst, the one at next_ included
  Instant next_ = Instant::never();
};

}  // namespace cw::load
