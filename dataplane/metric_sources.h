// What the telemetry of this process is collected from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "control/config/config.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/gateway_app.h"
#include "gateway/config_ids.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

[[nodiscard]] telemetry::Limits metric_limits(const control::Config& config);
// Each listener's [[route]]s, then what it does with the programs that have none; behind all of them those of before a reload.
[[nodiscard]] std::vector<telemetry::RouteSource> route_sources(const control::Config& config, const gateway::ConfigIds& numbers);
// By number, those of before a reload too.
[[nodiscard]] std::vector<telemetry::NamedSource> backend_sources(const control::Config& config,
                                                                  const gateway::ConfigIds& numbers);
[[nodiscard]] std::vector<telemetry::NamedSource> listener_sources(const control::Config& config,
                                                                   const gateway::ConfigIds& numbers);
[[nodiscard]] std::vector<telemetry::NamedSource> client_sources(const control::Config& config,
                                                                 const gateway::ConfigIds& numbers);
// Keeps references to `apps`, which are in order of DataplaneConfig::poll_lcores, `flags`, `checks` and `web_refusals`. The
// revision of the build is not known here and stays empty.
[[nodiscard]] telemetry::MetricSources metric_sources(const control::Config& config, const char* version,
                                                      std::span<GatewayApp* const> apps,
                                                      std::span<const std::unique_ptr<Port>> ports,
                                                      const telemetry::GatewayFlags& flags, const control::ServerChecks& checks,
                                                      const gateway::ConfigIds& numbers,
                                                      const telemetry::WebRefusals& web_refusals);

}  // namespace cw::dataplane
