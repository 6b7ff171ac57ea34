#include "dataplane/live_changes.h"

#include <fmt/format.h>

#include "dataplane/assemble.h"
#include "dataplane/metric_sources.h"

namespace cw::dataplane {

std::vector<control::Problem> LiveChanges::problems(const control::Config& config, const std::string& file) const {
  std::vector<control::Problem> problems;
  for (size_t i = 0; i < config.backends.size(); ++i) {
    if (!parts_.servers[i].has_room_for(control::servers_of(config.backends[i]))) {
      problems.push_back({file, 0, 0, "backend.address",
                          fmt::format("backend '{}' has had {} servers since the start, and can have {}", config.backends[i].name,
                                      parts_.servers[i].values().size(), gateway::kBackendServersMax),
                          "go back to servers that it had, or restart"});
    }
  }
  if (!parts_.routes.has_room_for(route_keys(config))) {
    problems.push_back(
        {file, 0, 0, "route",
         fmt::format("calls have gone {} ways from a listener to a backend since the start, each with a counter of "
                     "its own, and there can be {} of them",
                     parts_.routes.values().size(), gateway::kRouteNumbersMax),
         "go back to routes that there were, or restart"});
  }
  return problems;
}

bool LiveChanges::apply(const control::Config& config, uint32_t pulled_max) {
  number_servers(config);
  set_places(config);
  const uint32_t cores = static_cast<uint32_t>(parts_.apps.size());
  bool taken = true;
  for (uint32_t i = 0; i < cores; ++i) {
    gateway::GatewayOptions options =
        gateway_options(config, CoreShare{i, cores}, parts_.places, parts_.client_places, parts_.servers, parts_.routes);
    options.pull_buffers_max = pulled_max / cores;
    taken = parts_.apps[i]->reconfigure(options) && taken;
  }
  parts_.checks.reconfigure(config.backends, parts_.servers);
  parts_.view.reconfigure(config);
  parts_.collector.set_limits(metric_limits(config));
  parts_.collector.set_routes(route_sources(config, parts_.routes));
  return taken;
}

void LiveChanges::number_servers(const control::Config& config) {
  for (uint32_t backend = 0; backend < config.backends.size(); ++backend) {
    gateway::ServerNumbers& servers = parts_.servers[backend];
    const size_t before = servers.values().size();
    (void)servers.number(control::servers_of(config.backends[backend]));
    for (size_t number = before; number < servers.values().size(); ++number) {
      const control::SocketAddress& server = servers.values()[number];
      parts_.workers.set_server(backend, static_cast<uint32_t>(number), {server.address, server.port});
    }
  }
}

void LiveChanges::set_places(const control::Config& config) {
  for (uint32_t i = 0; i < config.listeners.size(); ++i) {
    parts_.places.set_max(i, control::connections_max_of(config.listeners[i], config.limits));
  }
  for (uint32_t i = 0; i < config.clients.size(); ++i) {
    parts_.client_places.set_max(i, client_connections_max(config.clients[i]));
  }
}

}  // namespace cw::dataplane
