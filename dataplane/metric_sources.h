// What the telemetry of this process is collected from.
#pragma once

#include <memory>
#include <span>

#include "control/config/config.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/gateway_app.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

[[nodiscard]] telemetry::Limits metric_limits(const control::Config& config);
// Keeps references to `apps`, which are in order of DataplaneConfig::poll_lcores, `flags` and `checks`. The revision of the
// build is not known here and stays empty.
[[nodiscard]] telemetry::MetricSources metric_sources(const control::Config& config, const char* version,
                                                      std::span<GatewayApp* const> apps,
                                                      std::span<const std::unique_ptr<Port>> ports,
                                                      const telemetry::GatewayFlags& flags, const control::ServerChecks& checks);

}  // namespace cw::dataplane
