#include "dataplane/metric_sources.h"

#include <rte_version.h>

#include <string>

#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {
namespace {

// Each listener's [[route]]s, then what it does with the programs that have none.
std::vector<telemetry::RouteSource> routes_of(const control::Config& config) {
  std::vector<telemetry::RouteSource> routes;
  for (uint32_t listener = 0; listener < config.listeners.size(); ++listener) {
    const control::ListenerConfig& from = config.listeners[listener];
    for (uint32_t i = 0; i < config.routes.size(); ++i) {
      const control::RouteConfig& route = config.routes[i];
      if (route.listener == from.name) {
        routes.push_back({from.name, route.program, route.backend, i});
      }
    }
    routes.push_back({from.name, std::nullopt, from.backend.empty() ? std::optional<std::string>() : from.backend, listener});
  }
  return routes;
}

}  // namespace

telemetry::Limits metric_limits(const control::Config& config) {
  telemetry::Limits limits;
  limits.connections_max = config.limits.connections_max;
  limits.half_open_max = config.limits.half_open_max;
  limits.calls_in_flight_max = config.limits.calls_in_flight_max;
  for (const control::ListenerConfig& listener : config.listeners) {
    limits.listeners.push_back({listener.name, control::connections_max_of(listener, config.limits), listener.credits});
  }
  for (const control::ClientConfig& client : config.clients) {
    limits.clients.push_back({client.name, client.connections_max, client.bytes_in_flight_max});
  }
  return limits;
}

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
  sources.routes = routes_of(config);
  sources.pools = {"packets", "replies", "views"};
  sources.limits = metric_limits(config);
  sources.flags = &flags;
  sources.checks = &checks;
  return sources;
}

}  // namespace cw::dataplane
