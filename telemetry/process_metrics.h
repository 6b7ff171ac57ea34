// The process_* families that every Prometheus client exports: memory, CPU time, descriptors, start. From /proc/self, at scrape
// time.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace cw::telemetry {

// Families that cannot be read (no /proc in a sandbox) are left out.
[[nodiscard]] std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace cw::telemetry
