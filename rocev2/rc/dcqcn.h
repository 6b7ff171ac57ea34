// Sending rate of a queue pair whose packets met congestion: DCQCN (Zhu et al., SIGCOMM 2015, section 5), the reaction point.
//
// Made at the first congestion notification (CNP) and given back when the rate is back at where it began: a queue pair that never
// met congestion has none. Each CNP cuts the rate by alpha/2, alpha being how often notifications come; without them the rate
// rises again, first half the way back to where it was cut (fast recovery), then by steps, then by larger ones.
//
// Bounds against forged notifications: one cut in kCutInterval, and never below the floor. Nothing here has a timer of its own:
// what has become due since is made up for whenever it is asked.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace cw::rc {

struct DcqcnLimits {
  // Where the rate begins and returns to, bytes per second.
  uint64_t line_rate = 12'500'000'000;
  // No number of notifications brings it below this.
  uint64_t floor_rate = 12'500'000;
};

class Dcqcn {
 public:
  static constexpr Duration kCutInterval = Duration::us(50);    // as often as a peer notifies
  static constexpr Duration kAlphaInterval = Duration::us(55);  // without a notification: alpha decays
  static constexpr Duration kRiseInterval = Duration::us(300);  // without a cut: the rate rises
  static constexpr uint64_t kRiseBytes = 4u << 20;              // likewise, when so much has been sent
  static constexpr uint32_t kFastRecoverySteps = 5;
  // After so many intervals without a cut the congestion is taken to be over, however little has been sent since.
  static constexpr uint32_t kCalmSteps = 15;
  // A rate back at the line's is given up when nothing has been sent for so long.
  static constexpr Duration kQuiet = Duration::ms(20);

  Dcqcn(Instant now, const DcqcnLimits& limits);

  // A notification has come. True when it cut the rate, false when it came too soon after the last cut: within kCutInterval, or
  // within a round trip, because what is marked then was sent before that cut.
  bool on_cnp(Instant now, Duration round_trip = Duration());
  // `bytes` have been sent.
  void on_sent(Instant now, uint64_t bytes);
  // When the next packet may leave.
  [[nodiscard]] Instant next_send_at() const { return next_send_at_; }
  // Bytes that may leave at once, now that the time has come: what the rate makes of the time between two looks at the clock.
  [[nodiscard]] uint64_t burst_bytes() const { return rate_ / kBurstsPerSecond; }
  // Bytes per second.
  [[nodiscard]] uint64_t rate() const { return rate_; }
  // Back at line rate, and nothing was sent for a while. Not earlier: while packets are in flight the window alone would let more
  // go at once than the path can take, as has been seen.
  [[nodiscard]] bool is_over(Instant now);

 private:
  static constexpr uint32_t kAlphaOne = 1u << 16;
  static constexpr uint32_t kAlphaShift = 4;            // g = 1/16
  static constexpr uint64_t kBurstsPerSecond = 50'000;  // 20 us
  static constexpr Duration kLag = Duration::us(100);   // sending later than allowed is made up for up to here

  void catch_up(Instant now);
  void rise();

  DcqcnLimits limits_;
  uint64_t rate_;
  uint64_t target_rate_;
  uint64_t bytes_since_rise_ = 0;
  Instant cut_at_;
  Instant alpha_at_;  // last change of alpha
  Instant rise_at_;   // last rise by time
  Instant next_send_at_;
  uint32_t alpha_ = kAlphaOne;
  uint32_t rises_by_time_ = 0;  // since the last cut
  uint32_t rises_by_bytes_ = 0;
};

}  // namespace cw::rc
