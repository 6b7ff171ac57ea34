#include "apps/load/report/interval_recorder.h"

#include <algorithm>

namespace cw::load {
namespace {

constexpr uint32_t kFinePerRow = FineHistogram::kParts / 4;

double microseconds(Duration duration) {
  return static_cast<double>(duration.to_ns()) / 1e3;
}

// Bucket 0 and the last one have rows of their own.
uint32_t row_of(uint32_t bucket) {
  if (bucket == 0) {
    return 0;
  }
  return bucket == FineHistogram::kBucketCount - 1 ? kHeatRows - 1 : 1 + (bucket - 1) / kFinePerRow;
}

Quantiles merged(const Quantiles& first, const Quantiles& second) {
  Quantiles out;
  out.count = first.count + second.count;
  if (out.count > 0) {
    out.mean = (first.mean * static_cast<double>(first.count) + second.mean * static_cast<double>(second.count)) /
               static_cast<double>(out.count);
  }
  out.p50 = std::max(first.p50, second.p50);
  out.p90 = std::max(first.p90, second.p90);
  out.p99 = std::max(first.p99, second.p99);
  out.p999 = std::max(first.p999, second.p999);
  out.max = std::max(first.max, second.max);
  return out;
}

Interval merged(const Interval& first, const Interval& second) {
  Interval out = second;
  out.begin_s = first.begin_s;
  out.counts.add(first.counts);
  out.latency = merged(first.latency, second.latency);
  for (size_t row = 0; row < out.heat.size(); ++row) {
    out.heat[row] += first.heat[row];
  }
  return out;
}

}  // namespace

Quantiles quantiles_of(const FineHistogram& histogram) {
  Quantiles out;
  out.count = histogram.count();
  if (out.count == 0) {
    return out;
  }
  out.mean = histogram.sum_seconds() * 1e6 / static_cast<double>(out.count);
  out.p50 = microseconds(histogram.percentile(0.5));
  out.p90 = microseconds(histogram.percentile(0.9));
  out.p99 = microseconds(histogram.percentile(0.99));
  out.p999 = microseconds(histogram.percentile(0.999));
  out.max = microseconds(histogram.percentile(1));
  return out;
}

double heat_row_us(uint32_t row) {
  return row == 0 ? 0 : static_cast<double>(FineHistogram::lower_ns(1 + (row - 1) * kFinePerRow)) / 1e3;
}

Interval IntervalRecorder::add(double at_s, const LoadStats& stats, const Gauges& gauges) {
  Interval interval;
  interval.begin_s = intervals_.empty() ? 0 : intervals_.back().end_s;
  interval.end_s = std::max(at_s, interval.begin_s);
  interval.counts = stats;
  interval.counts.subtract(last_);
  interval.gauges = gauges;
  FineHistogram latency = stats.latency();
  FineHistogram recent = latency;
  recent.subtract(last_latency_);
  interval.latency = quantiles_of(recent);
  interval.heat.resize(kHeatRows);
  for (uint32_t i = 0; i < FineHistogram::kBucketCount; ++i) {
    interval.heat[row_of(i)] += recent.bucket(i);
  }
  last_ = stats;
  last_latency_ = latency;
  intervals_.push_back(interval);
  if (intervals_.size() == kIntervalsMax) {
    merge_neighbours();
  }
  return interval;
}

void IntervalRecorder::merge_neighbours() {
  for (size_t i = 0; i < intervals_.size(); i += 2) {
    intervals_[i / 2] = merged(intervals_[i], intervals_[i + 1]);
  }
  intervals_.resize(intervals_.size() / 2);
}

LoadStats IntervalRecorder::total() const {
  LoadStats out = last_;
  out.subtract(start_);
  out.connected = last_.connected;
  return out;
}

}  // namespace cw::load
