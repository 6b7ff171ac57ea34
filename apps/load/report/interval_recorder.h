// What happened in each interval of a run, from copies of the counters that only grow: rates, percentiles and a column of the
// heat map. The core that makes the load records each call once; everything here is the terminal's work.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/load/load_stats.h"

namespace cw::load {

// What is so at the moment of a copy.
struct Gauges {
  uint32_t connected = 0;
  uint32_t in_flight = 0;
  uint32_t queued = 0;  // open loop: due and waiting
};

// Of a latency distribution, in microseconds. All 0 when nothing was recorded. A percentile is within 0.8 % of the truth; `max`
// is the end of the last bucket, at most 1.6 % above it.
struct Quantiles {
  uint64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};
[[nodiscard]] Quantiles quantiles_of(const FineHistogram& histogram);

// Rows of the heat map: four per power of two.
inline constexpr uint32_t kHeatRows = (FineHistogram::kLastPower - FineHistogram::kFirstPower) * 4 + 2;
// Where row `row` begins.
[[nodiscard]] double heat_row_us(uint32_t row);

struct Interval {
  double begin_s = 0;  // since the start of the measurement
  double end_s = 0;
  LoadCounters counts;  // in this interval
  Gauges gauges;        // at its end
  Quantiles latency;
  std::vector<uint64_t> heat;  // calls by row
  [[nodiscard]] double seconds() const { return end_s - begin_s; }
  [[nodiscard]] double per_second(uint64_t count) const { return seconds() > 0 ? static_cast<double>(count) / seconds() : 0; }
};

// Of a longer run, neighbours are merged, as often as it takes.
inline constexpr size_t kIntervalsMax = 2400;
static_assert(kIntervalsMax % 2 == 0);

class IntervalRecorder {
 public:
  // `start`: the counters at time 0.
  explicit IntervalRecorder(const LoadStats& start) : start_(start), last_(start), last_latency_(start.latency()) {}

  // The counters at `at_s` seconds, later than the last; returns what happened since.
  Interval add(double at_s, const LoadStats& stats, const Gauges& gauges);
  // In order and without gaps. Of merged ones, a percentile is the larger one: that of both together is not known any more.
  [[nodiscard]] const std::vector<Interval>& intervals() const { return intervals_; }
  // Since time 0, as of the last add(); connections made count from the beginning, since those of time 0 are among them.
  [[nodiscard]] LoadStats total() const;

 private:
  void merge_neighbours();
  LoadStats start_;
  LoadStats last_;
  FineHistogram last_latency_;
  std::vector<Interval> intervals_;
};

}  // namespace cw::load
