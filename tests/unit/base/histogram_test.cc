#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace cw {
namespace {

// Such as are exported: on bucket bounds and within buckets.
constexpr std::array kBounds = {Duration::us(50),   Duration::us(100),  Duration::us(150),  Duration::us(300),  Duration::us(750),
                                Duration::us(1000), Duration::us(1500), Duration::ms(5),    Duration::ms(20),   Duration::ms(50),
                                Duration::ms(250),  Duration::ms(1000), Duration::ms(2500), Duration::ms(10000)};

TEST(Histogram, BucketsTileTheRangeWithoutGaps) {
  EXPECT_EQ(Histogram::index_of(0), 0u);
  for (uint32_t i = 1; i < Histogram::kBucketCount; ++i) {
    const uint64_t lower = Histogram::lower_ns(i);
    EXPECT_EQ(Histogram::index_of(lower), i);
    EXPECT_EQ(Histogram::index_of(lower - 1), i - 1);
  }
  EXPECT_EQ(Histogram::index_of(UINT64_MAX), Histogram::kBucketCount - 1);
}

TEST(Histogram, BucketsAreAtMostAnEighthWide) {
  for (uint32_t i = 1; i + 1 < Histogram::kBucketCount; ++i) {
    const uint64_t lower = Histogram::lower_ns(i);
    EXPECT_LE((Histogram::lower_ns(i + 1) - lower) * 8, lower);
  }
}

TEST(Histogram, PercentilesAreWithinABucketOfTheTruth) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> shape(std::log(200'000.0), 1.2);  // median 200 us, long tail
  std::vector<int64_t> truth;
  Histogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<int64_t>(shape(random));
    truth.push_back(ns);
    histogram.record(Duration::ns(ns));
  }
  std::sort(truth.begin(), truth.end());
  EXPECT_EQ(histogram.count(), truth.size());
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = static_cast<double>(truth[static_cast<size_t>(fraction * static_cast<double>(truth.size()))]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(fraction).to_ns()) / exact, 1.0, 0.07) << fraction;
  }
  for (const Duration bound : kBounds) {
    const auto exact = static_cast<double>(std::upper_bound(truth.begin(), truth.end(), bound.to_ns()) - truth.begin());
    EXPECT_NEAR(static_cast<double>(histogram.count_up_to(bound)), exact, exact * 0.02 + 20);
  }
}

TEST(Histogram, SumIsExact) {
  Histogram histogram;
  histogram.record(Duration::us(3));
  histogram.record(Duration::seconds(2));
  EXPECT_DOUBLE_EQ(histogram.sum_seconds(), 2.000003);
}

TEST(Histogram, MergeAddsEverything) {
  Histogram a;
  Histogram b;
  Histogram both;
  for (int i = 1; i < 1000; ++i) {
    (i % 3 == 0 ? a : b).record(Duration::us(i * i));
    both.record(Duration::us(i * i));
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.percentile(0.7), both.percentile(0.7));
  EXPECT_DOUBLE_EQ(a.sum_seconds(), both.sum_seconds());
}

TEST(Histogram, ExtremesAreCounted) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), Duration());
  histogram.record(Duration::ns(-5));
  histogram.record(Duration::ns(0));
  histogram.record(Duration::ns(INT64_MAX));
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_GE(histogram.percentile(1.0), Duration::seconds(68));
  EXPECT_LE(histogram.percentile(0.1), Duration::us(2));
}

TEST(Histogram, ExportedCountsGrowWithTheBoundAndNeverShrink) {
  Histogram histogram;
  std::mt19937 random(5);
  std::vector<uint64_t> before(kBounds.size(), 0);
  for (int round = 0; round < 200; ++round) {
    histogram.record(Duration::ns(static_cast<int64_t>(random())));
    uint64_t last = 0;
    for (size_t i = 0; i < kBounds.size(); ++i) {
      const uint64_t now = histogram.count_up_to(kBounds[i]);
      EXPECT_GE(now, last);
      EXPECT_GE(now, before[i]);
      EXPECT_LE(now, histogram.count());
      last = before[i] = now;
    }
  }
}

}  // namespace
}  // namespace cw
