// Durations of one core, log-linear: each power of two is cut into 8 equal parts, so that a bucket is at most 12.5 % wide, from 1
// us to 68 s.
//
// Plain integers: the owner core records with a shift and an add, telemetry copies the whole object, merges the cores' copies and
// folds them into the fixed buckets that Prometheus gets. Trivially copyable, 1.7 KB.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "rocev2/base/time.h"

namespace cw {

class Histogram {
 public:
  static constexpr uint32_t kPartsShift = 3;
  static constexpr uint32_t kParts = 1u << kPartsShift;
  static constexpr uint32_t kFirstPower = 10;  // 2^10 ns = 1.02 us: everything below shares bucket 0
  static constexpr uint32_t kLastPower = 36;   // 2^36 ns = 68.7 s: everything from there on shares the last bucket
  static constexpr uint32_t kBucketCount = (kLastPower - kFirstPower) * kParts + 2;

  // A negative duration counts as zero.
  void record(Duration duration) {
    const uint64_t ns = duration.to_ns() < 0 ? 0 : static_cast<uint64_t>(duration.to_ns());
    ++buckets_[index_of(ns)];
    sum_ns_ += ns;
  }
  void merge(const Histogram& other) {
    for (uint32_t i = 0; i < kBucketCount; ++i) {
      buckets_[i] += other.buckets_[i];
    }
    sum_ns_ += other.sum_ns_;
  }
  // What was recorded since `before`, an earlier copy of this histogram.
  [[nodiscard]] Histogram since(const Histogram& before) const {
    Histogram later = *this;
    for (uint32_t i = 0; i < kBucketCount; ++i) {
      later.buckets_[i] -= before.buckets_[i];
    }
    later.sum_ns_ -= before.sum_ns_;
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
  std::array<uint64_t, kBucketCount> buckets_{};
  uint64_t sum_ns_ = 0;
};

}  // namespace cw
