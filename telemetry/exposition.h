// The forms in which metrics go to whoever scrapes them.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

namespace cw::telemetry {

// Prometheus' own format, version 0.0.4.
[[nodiscard]] std::string to_prometheus(const std::vector<prometheus::MetricFamily>& families);

// OpenMetrics 1.0 (openmetrics.io), which Prometheus asks for first. Series have the same names and labels in both, but for the
// bounds of buckets: a whole number is 1.0 here and 1 there. A counter's family is called without the
// suffix _total; where another family has that name, the counter's is of the type `unknown`. Counters, gauges, histograms only.
[[nodiscard]] std::string to_openmetrics(const std::vector<prometheus::MetricFamily>& families);

// What is said of them in Content-Type.
inline constexpr std::string_view kMetricsText = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr std::string_view kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";

}  // namespace cw::telemetry
