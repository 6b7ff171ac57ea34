// One series of a counter or gauge.
#pragma once

#include <prometheus/client_metric.h>

#include <utility>
#include <vector>

namespace cw::telemetry {

using Labels = std::vector<prometheus::ClientMetric::Label>;

[[nodiscard]] inline prometheus::ClientMetric sample(Labels labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;  // the serializer reads the one that the family's type names
  metric.gauge.value = value;
  return metric;
}

}  // namespace cw::telemetry
