#include "rocev2/base/histogram.h"

#include <algorithm>

namespace cw {
namespace {

// The last bucket has no end; taken as one more step.
constexpr uint64_t upper_ns(uint32_t index) {
  return index + 1 < Histogram::kBucketCount ? Histogram::lower_ns(index + 1) : Histogram::lower_ns(index) * 2;
}

}  // namespace

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const uint64_t bucket : buckets_) {
    total += bucket;
  }
  return total;
}

Duration Histogram::percentile(double fraction) const {
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

uint64_t Histogram::count_up_to(Duration bound) const {
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
