#include "apps/load/report/interval_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

namespace cw::load {
namespace {

void answer(LoadStats& stats, uint32_t entry, Duration latency) {
  ++stats.calls;
  stats.bytes += 100;
  ++stats.entries[entry].calls;
  stats.entries[entry].latency.record(latency);
}

TEST(IntervalRecorder, SaysWhatCameInEachInterval) {
  LoadStats stats;
  answer(stats, 0, Duration::seconds(1));  // before time 0
  IntervalRecorder recorder(stats);
  for (int i = 0; i < 90; ++i) {
    answer(stats, 0, Duration::us(100));
  }
  for (int i = 0; i < 10; ++i) {
    answer(stats, 1, Duration::us(900));
  }
  const Interval first = recorder.add(0.5, stats, {.connected = 3, .in_flight = 7, .queued = 1});
  EXPECT_EQ(first.counts.calls, 100u);
  EXPECT_DOUBLE_EQ(first.per_second(first.counts.calls), 200);
  EXPECT_EQ(first.latency.count, 100u);
  EXPECT_NEAR(first.latency.p50, 100, 1);
  EXPECT_NEAR(first.latency.p99, 900, 9);
  EXPECT_NEAR(first.latency.mean, 180, 0.01);
  EXPECT_GE(first.latency.max, 900);
  EXPECT_LE(first.latency.max, 900 * 1.016);
  EXPECT_EQ(first.gauges.in_flight, 7u);
  answer(stats, 0, Duration::ms(20));
  ++stats.lost;
  const Interval second = recorder.add(1.5, stats, {});
  EXPECT_DOUBLE_EQ(second.begin_s, 0.5);
  EXPECT_EQ(second.counts.calls, 1u);
  EXPECT_EQ(second.counts.lost, 1u);
  EXPECT_NEAR(second.latency.p50, 20'000, 200);
  const LoadStats total = recorder.total();
  EXPECT_EQ(total.calls, 101u);
  EXPECT_EQ(total.bytes, 10'100u);
  EXPECT_EQ(total.entries[1].calls, 10u);
  EXPECT_EQ(total.latency().count(), 101u);
}

TEST(IntervalRecorder, PutsEveryCallIntoOneRowOfTheHeatMap) {
  LoadStats stats;
  IntervalRecorder recorder(stats);
  const Duration latencies[] = {Duration::ns(1), Duration::us(1), Duration::us(37), Duration::ms(5), Duration::seconds(600)};
  for (const Duration latency : latencies) {
    answer(stats, 0, latency);
  }
  const Interval& interval = recorder.add(1, stats, {});
  EXPECT_EQ(std::accumulate(interval.heat.begin(), interval.heat.end(), uint64_t{0}), 5u);
  for (const Duration latency : latencies) {
    const double us = static_cast<double>(latency.to_ns()) / 1e3;
    uint32_t row = 0;
    while (row + 1 < kHeatRows && heat_row_us(row + 1) <= us) {
      ++row;
    }
    EXPECT_EQ(interval.heat[row], 1u) << us;
  }
}

// However long it runs: the report stays as large, and nothing that was counted is lost.
TEST(IntervalRecorder, MergesNeighboursOfALongRun) {
  LoadStats stats;
  IntervalRecorder recorder(stats);
  constexpr size_t kAdded = 3 * kIntervalsMax;
  for (size_t i = 1; i <= kAdded; ++i) {
    answer(stats, 0, Duration::us(i == 1 ? 900 : 100));
    const Interval added = recorder.add(static_cast<double>(i), stats, {.connected = 1, .in_flight = 2, .queued = 3});
    ASSERT_EQ(added.counts.calls, 1u);
    ASSERT_LT(recorder.intervals().size(), kIntervalsMax);
  }
  double end_s = 0;
  uint64_t calls = 0;
  uint64_t heat = 0;
  for (const Interval& interval : recorder.intervals()) {
    EXPECT_DOUBLE_EQ(interval.begin_s, end_s);
    end_s = interval.end_s;
    calls += interval.counts.calls;
    heat += std::accumulate(interval.heat.begin(), interval.heat.end(), uint64_t{0});
    EXPECT_EQ(interval.counts.calls, interval.latency.count);
  }
  EXPECT_DOUBLE_EQ(end_s, static_cast<double>(kAdded));
  EXPECT_EQ(calls, kAdded);
  EXPECT_EQ(heat, kAdded);
  const Interval& first = recorder.intervals().front();
  EXPECT_NEAR(first.latency.p50, 900, 9);
  EXPECT_NEAR(first.latency.mean, 100 + 800.0 / static_cast<double>(first.latency.count), 1);
  EXPECT_EQ(first.gauges.queued, 3u);
}

TEST(IntervalRecorder, AnIntervalWithoutCallsIsEmpty) {
  LoadStats stats;
  IntervalRecorder recorder(stats);
  const Interval& interval = recorder.add(1, stats, {});
  EXPECT_EQ(interval.latency.count, 0u);
  EXPECT_EQ(interval.latency.max, 0);
  EXPECT_EQ(interval.per_second(interval.counts.calls), 0);
}

}  // namespace
}  // namespace cw::load
