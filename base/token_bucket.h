// A rate with a burst, in whole nanoseconds: no drift, no floating point.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace cw {

// Tokens come back at `per_second` up to `burst`.
struct RateLimit {
  uint32_t per_second = 0;
  uint32_t burst = 0;
};

class TokenBucket {
 public:
  explicit TokenBucket(const RateLimit& limit)
      : ns_per_token_(limit.per_second == 0 ? 0 : kSecond / limit.per_second),
        full_ns_(ns_per_token_ * limit.burst),
        credit_ns_(full_ns_) {}

  // Takes one token if there is one. A rate of zero never gives any.
  [[nodiscard]] bool take(Instant now) {
    if (ns_per_token_ == 0) {
      return false;
    }
    const int64_t passed = std::clamp<int64_t>((now - last_).to_ns(), 0, full_ns_);
    credit_ns_ = std::min(full_ns_, credit_ns_ + passed);
    last_ = std::max(last_, now);
    if (credit_ns_ < ns_per_token_) {
      return false;
    }
    credit_ns_ -= ns_per_token_;
    return true;
  }

 private:
  static constexpr int64_t kSecond = 1'000'000'000;
  int64_t ns_per_token_;
  int64_t full_ns_;
  int64_t credit_ns_;  // time saved up
  Instant last_;
};

}  // namespace cw
