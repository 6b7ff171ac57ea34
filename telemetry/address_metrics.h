// What the busiest client addresses do: series for those who ask for them ([metrics] addresses_max). An address is a label that
// clients bring along, so there is a bound; of those beyond it only their number is told.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <vector>

#include "control/admin/gateway_view.h"

namespace cw::telemetry {

// First those that are connected, then those with the most calls so far.
[[nodiscard]] std::vector<prometheus::MetricFamily> address_metrics(std::vector<control::ActivityStatus> activity,
                                                                    uint32_t addresses_max);

}  // namespace cw::telemetry
