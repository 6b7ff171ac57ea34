// The real clock of the data plane: the TSC, scaled to nanoseconds; read once per burst and passed down.
#pragma once

#include <rte_cycles.h>

#include <cstdint>
#include <ctime>

#include "base/time.h"

namespace cw::dataplane {

__extension__ using Wide = __int128;  // not ISO C++, but every compiler we build with has it

// The frequency as DPDK knows it; where DPDK was not started, it is measured once against the kernel's clock.
[[nodiscard]] inline uint64_t tsc_hz() {
  if (const uint64_t known = rte_get_tsc_hz(); known != 0) {
    return known;
  }
  static const uint64_t kMeasured = [] {
    constexpr int64_t kMeasureNs = 50'000'000;
    const auto now = [] {
      timespec time{};
      (void)clock_gettime(CLOCK_MONOTONIC_RAW, &time);
      return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    const int64_t begin = now();
    const uint64_t first = rte_rdtsc();
    int64_t passed = 0;
    while (passed < kMeasureNs) {
      passed = now() - begin;
    }
    return static_cast<uint64_t>(static_cast<Wide>(rte_rdtsc() - first) * 1'000'000'000 / passed);
  }();
  return kMeasured;
}

// All that are made when the frequency is known tell the same time: poll cores share moments (SharedRateLimiter).
class TscClock {
 public:
  TscClock() : hz_(tsc_hz()), origin_(first_reading()) {
    // ns = cycles * factor / 2^24, exact to 10^-7 over years in 128 bits.
    factor_ = (uint64_t{1'000'000'000} << kShift) / hz_;
  }
  [[nodiscard]] Instant now() const { return at(rte_rdtsc()); }
  [[nodiscard]] uint64_t cycles() const { return rte_rdtsc(); }
  [[nodiscard]] Instant at(uint64_t cycles) const {
    // Signed: a CPU's TSC may be a little behind that of the CPU which read the origin.
    const Wide scaled = static_cast<Wide>(static_cast<int64_t>(cycles - origin_)) * factor_;
    // The origin is one hour, so that "some time before now" is representable at start.
    return Instant::from_ns(static_cast<int64_t>(scaled >> kShift) + 3'600'000'000'000);
  }
  [[nodiscard]] uint64_t hz() const { return hz_; }

 private:
  static constexpr int kShift = 24;
  [[nodiscard]] static uint64_t first_reading() {
    static const uint64_t kFirst = rte_rdtsc();
    return kFirst;
  }
  uint64_t hz_;
  uint64_t origin_;
  uint64_t factor_;
};

}  // namespace cw::dataplane
