#include "tests/loadgen/fine_histogram.h"

#include <algorithm>

namespace cw::load {
namespace {

// The last bucket has no end; taken as one more step.
constexpr uint64_t upper_ns(uint32_t index) {
  return index + 1 < FineHistogram::kBucketCount ? FineHistogram::lower_ns(index + 1) : FineHistogram::lower_ns(index) * 2;
}

}  // namespace

void FineHistogram::merge(const FineHistogram& other) {
  for (uint32_t i = 0; i < kBucketCount; ++i) {
    buckets_[i] += other.buckets_[i];
  }
  sum_ns_ += other.sum_ns_;
}

void FineHistogram::subtract(const FineHistogram& earlier) {
  for (uint32_t i = 0; i < kBucketCount; ++i) {
    buckets_[i] -= earlier.buckets_[i];
  }
  sum_ns_ -= earlier.sum_ns_;
}

uint64_t FineHistogram::count() const {
  uint64_t total = 0;
  for (const uint64_t bucket : buckets_) {
    total += bucket;
  }
  return total;
}

Duration FineHistogram::percentile(double fraction) const {
  const double wanted = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count());
  double before = 0;
  for (uint32_t i = 0; i < kBucketCount; ++i) {
    const auto here = static_cast<double>(buckets_[i]);
    if (here > 0 && before + here >= wanted) {
      const double part = std::max(0.0, (wanted - before) / here);
      return Duration::ns(
          static_cast<int64_t>(static_cast<double>(lower_ns(i)) + part * static_cast<double>(upper_ns(i) - lower_ns(i))));
    }
    before += here;
  }
  return Duration();
}

uint64_t FineHistogram::count_up_to(Duration bound) const {
  uint64_t total = 0;
  for (uint32_t i = 0; i < kBucketCount && upper_ns(i) <= static_cast<uint64_t>(std::max<int64_t>(bound.to_ns(), 0)); ++i) {
    total += buckets_[i];
  }
  return total;
}

}  // namespace cw::load
