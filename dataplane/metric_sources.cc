#include "dataplane/metric_sources.h"

#include <rte_version.h>

#include <string>

#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {
namespace {

telemetry::Limits limits_of(const control::Config& config) {
  telemetry::Limits limits;
  limits.connections_max = config.limits.connections_max;
  limits.half_open_max = config.limits.half_open_max;
  limits.calls_in_flight_max = config.limits.calls_in_flight_max;
  for (const control::ListenerConfig& listener : config.listeners) {
    limits.listeners.push_back({listener.name, control::connections_max_of(listener, config.limits), listener.credits});
  }
  return limits;
}

}  // namespace

telemetry::MetricSources metric_sources(const control::Config& config, const char* version, std::span<GatewayApp* const> apps,
                                        std::span<const std::unique_ptr<Port>> ports, const telemetry::GatewayFlags& flags,
                                        const control::ServerChecks& checks) {
  telemetry::MetricSources sources;
  sources.build = {version, "", rte_version(), __VERSION__};
  sources.instance = config.gateway.instance;
  for (size_t core = 0; core < apps.size(); ++core) {
    sources.cores.push_back({config.dataplane.poll_lcores[core], "poll", &apps[core]->snapshot()});
  }
  for (const std::unique_ptr<Port>& port : ports) {
    sources.ports.push_back({port->device(), port->driver(), std::string(wire::to_text(port->mac()).data())});
  }
  for (const control::BackendConfig& backend : config.backends) {
    sources.backends.push_back(backend.name);
  }
  for (const control::ClientConfig& client : config.clients) {
    sources.clients.push_back(client.name);
  }
  sources.pools = {"packets", "replies", "views"};
  sources.limits = limits_of(config);
  sources.flags = &flags;
  sources.checks = &checks;
  return sources;
}

}  // namespace cw::dataplane
