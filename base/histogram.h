// Durations of one core, log-linear, as an HDR histogram keeps them: each power of two is cut into equal parts, up to 68 s.
//
// Plain integers: the owner core records with a shift and an add, telemetry copies the whole object, merges the cores' copies and
// folds them into the fixed buckets that Prometheus gets. Trivially copyable.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace cw {

// 2^PartsShift parts; what is shorter than 2^FirstPower ns shares bucket 0.
template <uint32_t PartsShift, uint32_t FirstPower>
class LogLinearHistogram {
 public:
  static constexpr uint32_t kPartsShift = PartsShift;
  static constexpr uint32_t kParts = 1u << kPartsShift;
  static constexpr uint32_t kFirstPower = FirstPower;
  static constexpr uint32_t kLastPower = 36;  // 2^36 ns = 68.7 s: everything from there on shares the last bucket
  static constexpr uint32_t kBucketCount = (kLastPower - kFirstPower) * kParts + 2;

  // So many times. A negative duration counts as zero.
  void record(Duration duration, uint64_t count = 1) {
    const uint64_t ns = duration.to_ns() < 0 ? 0 : static_cast<uint64_t>(duration.to_ns());
    buckets_[index_of(ns)] += count;
    sum_ns_ += ns * count;
  }
  void merge(const LogLinearHistogram& other) {
    for (uint32_t i = 0; i < kBucketCount; ++i) {
      buckets_[i] += other.buckets_[i];
    }
    sum_ns_ += other.sum_ns_;
  }
  // Leaves what was recorded since. Precondition: `earlier` is a copy of this from then.
  void subtract(const LogLinearHistogram& earlier) {
    for (uint32_t i = 0; i < kBucketCount; ++i) {
      buckets_[i] -= earlier.buckets_[i];
    }
    sum_ns_ -= earlier.sum_ns_;
  }
  [[nodiscard]] LogLinearHistogram since(const LogLinearHistogram& earlier) const {
    LogLinearHistogram later = *this;
    later.subtract(earlier);
    return later;
  }

  [[nodiscard]] uint64_t count() const;
  // Precondition: index < kBucketCount.
  [[nodiscard]] uint64_t bucket(uint32_t index) const { return buckets_[index]; }
  [[nodiscard]] uint64_t sum_ns() const { return sum_ns_; }
  [[nodiscard]] double sum_seconds() const { return static_cast<double>(sum_ns_) * 1e-9; }
  // The duration that `fraction` (0..1) of the records do not exceed, interpolated in its bucket. Zero when empty.
  [[nodiscard]] Duration percentile(double fraction) const;
  // Records up to `bound`; those of the bucket that `bound` lies in count in proportion. Never decreases while records come in,
  // nor with a growing bound.
  [[nodiscard]] uint64_t count_up_to(Duration bound) const;

  // Bucket i holds [lower_ns(i), lower_ns(i + 1)).
  [[nodiscard]] static constexpr uint32_t index_of(uint64_t ns) {
    if (ns < (1ULL << kFirstPower)) {
      return 0;
    }
    const uint32_t power = static_cast<uint32_t>(std::bit_width(ns)) - 1;
    if (power >= kLastPower) {
      return kBucketCount - 1;
    }
    const uint32_t part = static_cast<uint32_t>(ns >> (power - kPartsShift)) & (kParts - 1);
    return 1 + (power - kFirstPower) * kParts + part;
  }
  [[nodiscard]] static constexpr uint64_t lower_ns(uint32_t index) {
    if (index == 0) {
      return 0;
    }
    const uint32_t power = kFirstPower + (index - 1) / kParts;
    const uint32_t part = (index - 1) % kParts;
    return (1ULL << power) + (static_cast<uint64_t>(part) << (power - kPartsShift));
  }

 private:
  // The last bucket has no end; taken as one more step.
  [[nodiscard]] static constexpr uint64_t upper_ns(uint32_t index) {
    return index + 1 < kBucketCount ? lower_ns(index + 1) : lower_ns(index) * 2;
  }

  std::array<uint64_t, kBucketCount> buckets_{};
  uint64_t sum_ns_ = 0;
};

// What runs in production: a bucket is at most 12.5 % wide, from 1 us on. 1.7 KB.
using Histogram = LogLinearHistogram<3, 10>;

template <uint32_t PartsShift, uint32_t FirstPower>
uint64_t LogLinearHistogram<PartsShift, FirstPower>::count() const {
  uint64_t total = 0;
  for (const uint64_t bucket : buckets_) {
    total += bucket;
  }
  return total;
}

template <uint32_t PartsShift, uint32_t FirstPower>
Duration LogLinearHistogram<PartsShift, FirstPower>::percentile(double fraction) const {
  const uint64_t total = count();
  if (total == 0) {
    return Duration();
  }
  const double wanted = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(total);
  double before = 0;
  for (uint32_t i = 0; i < kBucketCount; ++i) {
    const double here = static_cast<double>(buckets_[i]);
    if (here > 0 && before + here >= wanted) {
      const double part = std::max(0.0, (wanted - before) / here);
      const double width = static_cast<double>(upper_ns(i) - lower_ns(i));
      return Duration::ns(static_cast<int64_t>(static_cast<double>(lower_ns(i)) + part * width));
    }
    before += here;
  }
  return Duration::ns(static_cast<int64_t>(upper_ns(kBucketCount - 1)));
}

template <uint32_t PartsShift, uint32_t FirstPower>
uint64_t LogLinearHistogram<PartsShift, FirstPower>::count_up_to(Duration bound) const {
  const uint64_t bound_ns = bound.to_ns() < 0 ? 0 : static_cast<uint64_t>(bound.to_ns());
  const uint32_t last = index_of(bound_ns);
  uint64_t total = 0;
  for (uint32_t i = 0; i < last; ++i) {
    total += buckets_[i];
  }
  // Rounded down, so that it never shrinks as records come in, and never exceeds the next bound's.
  const double part = static_cast<double>(bound_ns - lower_ns(last)) / static_cast<double>(upper_ns(last) - lower_ns(last));
  return total + static_cast<uint64_t>(std::min(part, 1.0) * static_cast<double>(buckets_[last]));
}

}  // namespace cw
