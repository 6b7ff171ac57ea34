// The real clock of the data plane: the TSC, scaled to nanoseconds; read once per burst and passed down.
#pragma once

#include <rte_cycles.h>

#include <cstdint>

#include "base/time.h"

namespace cw::dataplane {

__extension__ using Wide = unsigned __int128;  // not ISO C++, but every compiler we build with has it

class TscClock {
 public:
  // EAL must be initialised (it measures the TSC frequency).
  TscClock() : hz_(rte_get_tsc_hz()), origin_(rte_rdtsc()) {
    // ns = cycles * factor / 2^24, exact to 10^-7 over years in 128 bits.
    factor_ = (uint64_t{1'000'000'000} << kShift) / hz_;
  }
  [[nodiscard]] Instant now() const { return at(rte_rdtsc()); }
  [[nodiscard]] uint64_t cycles() const { return rte_rdtsc(); }
  [[nodiscard]] Instant at(uint64_t cycles) const {
    const Wide scaled = static_cast<Wide>(cycles - origin_) * factor_;
    // The origin is one hour, so that "some time before now" is representable at start.
    return Instant::from_ns(static_cast<int64_t>(scaled >> kShift) + 3'600'000'000'000);
  }
  [[nodiscard]] uint64_t hz() const { return hz_; }

 private:
  static constexpr int kShift = 24;
  uint64_t hz_;
  uint64_t origin_;
  uint64_t factor_;
};

}  // namespace cw::dataplane
