#include "telemetry/exposition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace cw::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric with_value(double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  metric.gauge.value = value;
  return metric;
}

MetricFamily durations() {
  ClientMetric metric;
  metric.label = {{"stage", "rx"}};
  metric.histogram.sample_count = 9;
  metric.histogram.sample_sum = 12.5;
  metric.histogram.bucket = {{2, 5e-06}, {4, 0.001}, {8, 1}};
  return {"causeway_seconds", "Time.", MetricType::Histogram, {metric}};
}

TEST(OpenMetrics, AFamilyOfEachType) {
  EXPECT_EQ(to_openmetrics({{"causeway_rpcs_total",
                             "Calls.",
                             MetricType::Counter,
                             {with_value(7, {{"backend", "nfs"}, {"status", "ok"}}), with_value(0.5)}},
                            {"causeway_up", "Whether it is.", MetricType::Gauge, {with_value(1)}},
                            durations()}),
            "# TYPE causeway_rpcs counter\n"
            "# HELP causeway_rpcs Calls.\n"
            "causeway_rpcs_total{backend=\"nfs\",status=\"ok\"} 7\n"
            "causeway_rpcs_total 0.5\n"
            "# TYPE causeway_up gauge\n"
            "# HELP causeway_up Whether it is.\n"
            "causeway_up 1\n"
            "# TYPE causeway_seconds histogram\n"
            "# HELP causeway_seconds Time.\n"
            "causeway_seconds_bucket{stage=\"rx\",le=\"5e-06\"} 2\n"
            "causeway_seconds_bucket{stage=\"rx\",le=\"0.001\"} 4\n"
            "causeway_seconds_bucket{stage=\"rx\",le=\"1.0\"} 8\n"
            "causeway_seconds_bucket{stage=\"rx\",le=\"+Inf\"} 9\n"
            "causeway_seconds_count{stage=\"rx\"} 9\n"
            "causeway_seconds_sum{stage=\"rx\"} 12.5\n"
            "# EOF\n");
}

// Two families of one name are an error there, and our names are older than our OpenMetrics.
TEST(OpenMetrics, ACounterWhoseNameAGaugeHasKeepsItsSuffix) {
  EXPECT_EQ(to_openmetrics({{"causeway_connections", "Now.", MetricType::Gauge, {with_value(1)}},
                            {"causeway_connections_total", "Ever.", MetricType::Counter, {with_value(2)}}}),
            "# TYPE causeway_connections gauge\n"
            "# HELP causeway_connections Now.\n"
            "causeway_connections 1\n"
            "# TYPE causeway_connections_total unknown\n"
            "# HELP causeway_connections_total Ever.\n"
            "causeway_connections_total 2\n"
            "# EOF\n");
}

TEST(OpenMetrics, EscapesWhatLabelsAndHelpMayHold) {
  const std::string text =
      to_openmetrics({{"causeway_a", "One\\two\n\"three\"", MetricType::Gauge, {with_value(0, {{"name", "a\"b\\c\nd"}})}}});
  EXPECT_NE(text.find("# HELP causeway_a One\\\\two\\n\\\"three\\\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("causeway_a{name=\"a\\\"b\\\\c\\nd\"} 0\n"), std::string::npos) << text;
}

TEST(OpenMetrics, NumbersThatAreNone) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string text = to_openmetrics(
      {{"causeway_a", "", MetricType::Gauge, {with_value(std::nan("")), with_value(infinite), with_value(-infinite)}}});
  EXPECT_NE(text.find("causeway_a NaN\ncauseway_a +Inf\ncauseway_a -Inf\n"), std::string::npos) << text;
}

TEST(OpenMetrics, SeriesAreThoseOfTheOtherForm) {
  const std::vector<MetricFamily> families{
      {"causeway_rpcs_total", "Calls.", MetricType::Counter, {with_value(1e15), with_value(123456789.125)}},
      {"causeway_up", "Whether it is.", MetricType::Gauge, {with_value(-3)}}};
  for (const std::string& sample : {std::string("causeway_rpcs_total 1000000000000000\n"),
                                    std::string("causeway_rpcs_total 123456789.125\n"), std::string("causeway_up -3\n")}) {
    EXPECT_NE(to_prometheus(families).find(sample), std::string::npos) << to_prometheus(families);
    EXPECT_NE(to_openmetrics(families).find(sample), std::string::npos) << to_openmetrics(families);
  }
}

}  // namespace
}  // namespace cw::telemetry
