#include "dataplane/live_changes.h"

#include <fmt/format.h>

#include "dataplane/assemble.h"
#include "dataplane/metric_sources.h"

namespace cw::dataplane {

std::vector<control::Problem> LiveChanges::problems(const control::Config& config, const std::string& file) const {
  const ConfigNumbers& numbers = parts_.numbers;
  std::vector<control::Problem> problems;
  for (size_t i = 0; i < config.backends.size(); ++i) {
    if (!numbers.servers[i].has_room_for(control::servers_of(config.backends[i]))) {
      problems.push_back({file, 0, 0, "backend.address",
                          fmt::format("backend '{}' has had {} servers since the start, and can have {}", config.backends[i].name,
                                      numbers.servers[i].values().size(), gateway::kBackendServersMax),
                          "go back to servers that it had, or restart"});
    }
  }
  if (!numbers.routes.has_room_for(route_keys(config))) {
    problems.push_back(
        {file, 0, 0, "route",
         fmt::format("calls have gone {} ways from a listener to a backend since the start, each with a counter of "
                     "its own, and there can be {} of them",
                     numbers.routes.values().size(), gateway::kRouteNumbersMax),
         "go back to routes that there were, or restart"});
  }
  if (!numbers.clients.has_room_for(client_names(config))) {
    problems.push_back(
        {file, 0, 0, "client.name",
         fmt::format("there have been {} client sections since the start, each with counters of its own, and there "
                     "can be {} of them",
                     numbers.clients.values().size(), gateway::kClientNumbersMax),
         "go back to names that there were, or restart"});
  }
  return problems;
}

bool LiveChanges::apply(const control::Config& config, uint32_t pulled_max) {
  number(config);
  set_places(config);
  const uint32_t cores = static_cast<uint32_t>(parts_.apps.size());
  bool taken = true;
  for (uint32_t i = 0; i < cores; ++i) {
    gateway::GatewayOptions options =
        gateway_options(config, CoreShare{i, cores}, parts_.places, parts_.client_places, parts_.numbers);
    options.pull_buffers_max = pulled_max / cores;
    taken = parts_.apps[i]->reconfigure(options) && taken;
  }
  parts_.checks.reconfigure(config.backends, parts_.numbers.servers);
  parts_.view.reconfigure(config, parts_.numbers);
  parts_.collector.set_limits(metric_limits(config));
  parts_.collector.set_clients(client_sources(config, parts_.numbers));
  parts_.collector.set_routes(route_sources(config, parts_.numbers));
  return taken;
}

void LiveChanges::number(const control::Config& config) {
  std::vector<size_t> known;  // servers, by backend: the workers have these already
  for (const gateway::ServerNumbers& servers : parts_.numbers.servers) {
    known.push_back(servers.values().size());
  }
  parts_.numbers.add(config);
  for (uint32_t backend = 0; backend < known.size(); ++backend) {
    const std::span<const control::SocketAddress> servers = parts_.numbers.servers[backend].values();
    for (size_t number = known[backend]; number < servers.size(); ++number) {
      parts_.workers.set_server(backend, static_cast<uint32_t>(number), {servers[number].address, servers[number].port});
    }
  }
}

void LiveChanges::set_places(const control::Config& config) {
  for (uint32_t i = 0; i < config.listeners.size(); ++i) {
    parts_.places.set_max(i, control::connections_max_of(config.listeners[i], config.limits));
  }
  for (const control::ClientConfig& client : config.clients) {
    parts_.client_places.set_max(*parts_.numbers.clients.find(client.name), client_connections_max(client));
  }
}

}  // namespace cw::dataplane
