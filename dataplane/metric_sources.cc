#include "dataplane/metric_sources.h"

#include <rte_version.h>

#include <algorithm>
#include <set>
#include <string>

#include "dataplane/assemble.h"
#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {

std::vector<telemetry::RouteSource> route_sources(const control::Config& config, const gateway::ConfigIds& numbers) {
  const std::vector<gateway::RouteKey> current = gateway::route_keys(config, numbers);
  std::vector<telemetry::RouteSource> routes;
  const auto add = [&](const gateway::RouteKey& key, bool removed) {
    const bool is_answered = key.backend != gateway::ListenerOptions::kNoBackend;
    routes.push_back({numbers.listeners.values()[key.listener].name, key.program,
                      is_answered ? std::optional(numbers.backends.values()[key.backend].name) : std::nullopt,
                      *numbers.routes.find(key), removed});
  };
  for (const gateway::RouteKey& key : current) {
    add(key, false);
  }
  for (const gateway::RouteKey& key : numbers.routes.values()) {
    if (std::ranges::find(current, key) == current.end()) {
      add(key, true);
    }
  }
  return routes;
}

std::vector<telemetry::NamedSource> backend_sources(const control::Config& config, const gateway::ConfigIds& numbers) {
  std::vector<telemetry::NamedSource> sources;
  const std::vector<gateway::BackendIdentity> current = gateway::backend_identities(config);
  for (const gateway::BackendIdentity& identity : numbers.backends.values()) {
    sources.push_back({identity.name, std::ranges::find(current, identity) == current.end()});
  }
  return sources;
}

std::vector<telemetry::NamedSource> listener_sources(const control::Config& config, const gateway::ConfigIds& numbers) {
  std::vector<telemetry::NamedSource> sources;
  const std::vector<gateway::ListenerIdentity> current = gateway::listener_identities(config);
  for (const gateway::ListenerIdentity& identity : numbers.listeners.values()) {
    sources.push_back({identity.name, std::ranges::find(current, identity) == current.end()});
  }
  return sources;
}

std::vector<telemetry::NamedSource> client_sources(const control::Config& config, const gateway::ConfigIds& numbers) {
  std::vector<telemetry::NamedSource> sources;
  for (const std::string& name : numbers.clients.values()) {
    const bool removed = std::ranges::find(config.clients, name, &control::ClientConfig::name) == config.clients.end();
    sources.push_back({name, removed});
  }
  return sources;
}

telemetry::Limits metric_limits(const control::Config& config) {
  telemetry::Limits limits;
  limits.connections_max = config.limits.connections_max;
  // Each transport has its own, and causeway_connections_half_open counts those of all.
  std::set<control::TransportKind> kinds;
  for (const control::ListenerConfig& listener : config.listeners) {
    kinds.insert(listener.transport);
  }
  limits.half_open_max = config.limits.half_open_max * std::max(1u, static_cast<uint32_t>(kinds.size()));
  limits.calls_in_flight_max = config.limits.calls_in_flight_max;
  for (const control::ListenerConfig& listener : config.listeners) {
    const bool is_verbs = listener.transport == control::TransportKind::kVerbs;
    limits.listeners.push_back({.name = listener.name,
                                .connections_max = control::connections_max_of(listener, config.limits),
                                .credits = listener.credits,
                                .rates = {listener.calls_per_second, listener.bytes_per_second},
                                .needs_link = listener.transport == control::TransportKind::kRoce,
                                .rdma_device = is_verbs ? std::optional(listener.device) : std::nullopt,
                                .port = listener.port,
                                .address = is_verbs && listener.address ? control::to_string(*listener.address) : ""});
  }
  for (const control::ClientConfig& client : config.clients) {
    limits.clients.push_back(
        {client.name, client.connections_max, client.bytes_in_flight_max, {client.calls_per_second, client.bytes_per_second}});
  }
  return limits;
}

telemetry::MetricSources metric_sources(const control::Config& config, const char* version, std::span<GatewayApp* const> apps,
                                        std::span<const std::unique_ptr<Port>> ports, const telemetry::GatewayFlags& flags,
                                        const control::ServerChecks& checks, const gateway::ConfigIds& numbers,
                                        const telemetry::WebRefusals& web_refusals) {
  telemetry::MetricSources sources;
  sources.build = {version, "", rte_version(), __VERSION__};
  sources.instance = config.gateway.instance;
  const std::vector<uint32_t> cpus = control::poll_cpus(config);
  for (size_t core = 0; core < apps.size(); ++core) {
    sources.cores.push_back({cpus[core], "poll", &apps[core]->snapshot()});
  }
  for (const std::unique_ptr<Port>& port : ports) {
    sources.ports.push_back(
        {port->device(), port->driver(), std::string(to_text(port->mac()).data()), to_string(port->steering())});
  }
  sources.backends = backend_sources(config, numbers);
  sources.listeners = listener_sources(config, numbers);
  sources.clients = client_sources(config, numbers);
  sources.routes = route_sources(config, numbers);
  sources.pools = {"packets", "replies", "views"};
  sources.limits = metric_limits(config);
  sources.flags = &flags;
  sources.checks = &checks;
  sources.web_refusals = &web_refusals;
  return sources;
}

}  // namespace cw::dataplane
