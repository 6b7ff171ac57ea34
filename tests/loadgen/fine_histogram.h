// Latencies as an HDR histogram keeps them: each power of two is cut into 64 equal parts, from 256 ns to 68 s, so that a bucket
// is at most 1.6 % wide and any percentile within 0.8 % of the truth. The histogram of what runs in production
// (rocev2/base/histogram.h) has 8 parts, 12.5 %, in an eighth of the memory: enough to watch a gateway, too coarse to compare
// two.
//
// Recording is a shift and an add, like there. Trivially copyable, 14 KB, of which a load touches a few lines.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "rocev2/base/time.h"

namespace cw::load {

class FineHistogram {
 public:
  static constexpr uint32_t kPartsShift = 6;
  static constexpr uint32_t kParts = 1u << kPartsShift;
  static constexpr uint32_t kFirstPower = 8;  // 2^8 ns: everything below shares bucket 0
  static constexpr uint32_t kLastPower = 36;  // 2^36 ns = 68.7 s: everything from there on shares the last bucket
  static constexpr uint32_t kBucketCount = (kLastPower - kFirstPower) * kParts + 2;

  // A negative duration counts as zero.
  void record(Duration duration) {
    const uint64_t ns = duration.to_ns() < 0 ? 0 : static_cast<uint64_t>(duration.to_ns());
    ++buckets_[index_of(ns)];
    sum_ns_ += ns;
  }
  void merge(const FineHistogram& other);
  // Leaves what was recorded since. Precondition: `earlier` is a copy of this from then.
  void subtract(const FineHistogram& earlier);

  [[nodiscard]] uint64_t count() const;
  [[nodiscard]] double sum_seconds() const { return static_cast<double>(sum_ns_) * 1e-9; }
  // The duration that `fraction` (0..1) of the records do not exceed, interpolated in its bucket. Zero when empty.
  [[nodiscard]] Duration percentile(double fraction) const;
  // Records in buckets that lie below `bound` as a whole.
  [[nodiscard]] uint64_t count_up_to(Duration bound) const;
  [[nodiscard]] uint64_t bucket(uint32_t index) const { return buckets_[index]; }

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

}  // namespace cw::load
