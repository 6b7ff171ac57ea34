#include "apps/load/fine_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace cw::load {
namespace {

TEST(FineHistogram, BucketsTileTheRangeAndAreAtMostASixtyFourthWide) {
  for (uint32_t i = 1; i + 1 < FineHistogram::kBucketCount; ++i) {
    const uint64_t lower = FineHistogram::lower_ns(i);
    ASSERT_EQ(FineHistogram::index_of(lower), i);
    ASSERT_EQ(FineHistogram::index_of(lower - 1), i - 1);
    ASSERT_LE((FineHistogram::lower_ns(i + 1) - lower) * 64, lower);
  }
  EXPECT_EQ(FineHistogram::index_of(UINT64_MAX), FineHistogram::kBucketCount - 1);
}

TEST(FineHistogram, SaysAnyPercentileWithinOnePercent) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> shape(std::log(200'000.0), 1.2);
  std::vector<int64_t> truth;
  FineHistogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<int64_t>(shape(random));
    truth.push_back(ns);
    histogram.record(Duration::ns(ns));
  }
  std::sort(truth.begin(), truth.end());
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(truth[static_cast<size_t>(fraction * static_cast<double>(truth.size()))]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(fraction).to_ns()) / exact, 1.0, 0.01) << fraction;
  }
}

TEST(FineHistogram, LessAnEarlierCopyIsWhatCameSince) {
  FineHistogram all;
  all.record(Duration::us(10));
  const FineHistogram earlier = all;
  all.record(Duration::us(500));
  all.subtract(earlier);
  EXPECT_EQ(all.count(), 1u);
  EXPECT_EQ(all.bucket(FineHistogram::index_of(500'000)), 1u);
  EXPECT_DOUBLE_EQ(all.sum_seconds(), 0.0005);
  EXPECT_EQ(FineHistogram().percentile(0.5), Duration());
}

}  // namespace
}  // namespace cw::load
