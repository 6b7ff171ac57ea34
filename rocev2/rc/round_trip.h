// The round-trip time to the peer, smoothed as TCP does (RFC 6298), and the sample under way: the packet whose answer is timed,
// one at a time.
//
// An answer to a packet that has been sent again could be to either transmission (Karn's algorithm): such a sample is cancelled,
// or taints what it measures. With a wait for the repetition in it a tainted sample can be thousands of round trips: the estimate
// counts until there is a better one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class RoundTrip {
 public:
  struct Sample {
    Duration time;
    bool is_read = false;   // of a READ request: until its first response came
    bool is_alone = false;  // no response was awaited when the packet left
    bool is_tainted = false;
  };

  // Smoothed; 0 before the first sample.
  [[nodiscard]] Duration srtt() const { return srtt_; }
  // The shortest of late; 0 before the first sample.
  [[nodiscard]] Duration min_rtt() const { return min_rtt_; }
  [[nodiscard]] bool is_measured() const { return srtt_ != Duration(); }
  // Measured, and not by a tainted sample.
  [[nodiscard]] bool is_trusted() const { return is_measured() && !is_tainted_; }

  [[nodiscard]] bool is_sampling() const { return sampling_ != Sampling::kNone; }
  // The packet of the sample under way.
  [[nodiscard]] std::optional<wire::Psn> sampled_psn() const {
    return is_sampling() ? std::optional<wire::Psn>(psn_) : std::nullopt;
  }
  // The packet with this PSN leaves. `is_read`, `is_alone`: as in Sample.
  void start_sample(wire::Psn psn, Instant now, bool is_read, bool is_alone) {
    sent_at_ = now;
    psn_ = psn;
    sampling_ = Sampling::kClean;
    is_read_ = is_read;
    is_alone_ = is_alone;
  }
  void cancel_sample() { sampling_ = Sampling::kNone; }
  // The packet of the sample under way, if any, may leave again.
  void taint_sample() { sampling_ = is_sampling() ? Sampling::kTainted : Sampling::kNone; }
  // The answer has come: the sample is over and counts. Precondition: is_sampling().
  Sample finish_sample(Instant now) {
    const Sample sample{
        .time = now - sent_at_, .is_read = is_read_, .is_alone = is_alone_, .is_tainted = sampling_ == Sampling::kTainted};
    sampling_ = Sampling::kNone;
    const bool first = !is_measured() || (is_tainted_ && !sample.is_tainted);
    // What was short once need not be for ever: a way can change.
    min_rtt_ = first ? sample.time : std::min(sample.time, min_rtt_ + min_rtt_ / 256);
    srtt_ = first ? sample.time : srtt_ + (sample.time - srtt_) / 8;
    is_tainted_ = sample.is_tainted;
    return sample;
  }

 private:
  enum class Sampling : uint8_t { kNone, kClean, kTainted };

  Duration srtt_;
  Duration min_rtt_;
  Instant sent_at_;  // this and the next three: valid when is_sampling()
  wire::Psn psn_;
  Sampling sampling_ = Sampling::kNone;
  bool is_read_ = false;
  bool is_alone_ = false;
  bool is_tainted_ = false;  // valid when is_measured(): the last sample was tainted
};

}  // namespace cw::rc
