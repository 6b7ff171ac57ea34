#include "dataplane/live_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dataplane/assemble.h"
#include "dataplane/metric_sources.h"
#include "dataplane/sockets/backend_stream.h"

namespace cw::dataplane {

std::vector<control::Problem> LiveChanges::problems(const control::Config& config, const std::string& file) const {
  std::vector<control::Problem> problems;
  for (const control::ListenerConfig& listener : config.listeners) {
    add_listener_problems(listener, file, problems);
  }
  for (const control::BackendConfig& backend : config.backends) {
    add_backend_problems(backend, file, problems);
  }
  const std::vector<gateway::BackendIdentity> backends = gateway::backend_identities(config);
  if (!parts_.numbers.backends.has_room_for(backends)) {
    problems.push_back(
        {file, 0, 0, "backend.name",
         fmt::format("there have been {} backends since the start, each with counters of its own, and there can be {} of them",
                     parts_.numbers.backends.values().size(), gateway::kBackendIdsMax),
         "go back to names that there were, or restart"});
    return problems;  // what names them has no numbers
  }
  const std::vector<gateway::ListenerIdentity> listeners = gateway::listener_identities(config);
  if (!parts_.numbers.listeners.has_room_for(listeners)) {
    problems.push_back(
        {file, 0, 0, "listener.name",
         fmt::format("there have been {} listeners since the start, each with counters of its own, and there can be {} of them",
                     parts_.numbers.listeners.values().size(), gateway::kListenerIdsMax),
         "go back to names that there were, or restart"});
    return problems;
  }
  gateway::ConfigIds numbers = parts_.numbers;
  (void)numbers.backends.number(backends);
  (void)numbers.listeners.number(listeners);
  if (!numbers.routes.has_room_for(gateway::route_keys(config, numbers))) {
    problems.push_back(
        {file, 0, 0, "route",
         fmt::format("calls have gone {} ways from a listener to a backend since the start, each with a counter of its own, "
                     "and there can be {} of them",
                     numbers.routes.values().size(), gateway::kRouteIdsMax),
         "go back to routes that there were, or restart"});
  }
  if (!numbers.clients.has_room_for(gateway::client_names(config))) {
    problems.push_back({file, 0, 0, "client.name",
                        fmt::format("there have been {} client sections since the start, each with counters of its own, "
                                    "and there can be {} of them",
                                    numbers.clients.values().size(), gateway::kClientIdsMax),
                        "go back to names that there were, or restart"});
  }
  return problems;
}

void LiveChanges::add_listener_problems(const control::ListenerConfig& listener, const std::string& file,
                                        std::vector<control::Problem>& problems) const {
  const std::span<const gateway::ListenerIdentity> known = parts_.numbers.listeners.values();
  const auto same_name = std::ranges::find(known, listener.name, &gateway::ListenerIdentity::name);
  if (same_name != known.end() && same_name->port != listener.port) {
    problems.push_back({file, 0, 0, "listener.name",
                        fmt::format("there was a listener '{}' at port {} since the start, and metrics know it by that name",
                                    listener.name, same_name->port),
                        "give this one another name, or restart"});
  }
}

void LiveChanges::add_backend_problems(const control::BackendConfig& backend, const std::string& file,
                                       std::vector<control::Problem>& problems) const {
  const std::span<const gateway::BackendIdentity> known = parts_.numbers.backends.values();
  if (const std::optional<uint32_t> number = parts_.numbers.backends.find(gateway::identity_of(backend))) {
    const gateway::ServerIds& servers = parts_.numbers.servers[*number];
    if (!servers.has_room_for(control::servers_of(backend))) {
      problems.push_back({file, 0, 0, "backend.address",
                          fmt::format("backend '{}' has had {} servers since the start, and can have {}", backend.name,
                                      servers.values().size(), gateway::kBackendServersMax),
                          "go back to servers that it had, or restart"});
    }
    return;
  }
  if (std::ranges::find(known, backend.name, &gateway::BackendIdentity::name) != known.end()) {
    problems.push_back({file, 0, 0, "backend.name",
                        fmt::format("there was a backend '{}' of another type or source since the start, "
                                    "and metrics know it by that name",
                                    backend.name),
                        "give this one another name, or restart"});
  }
  if (backend.source == control::SourceKind::kClient && !BackendStream::may_borrow()) {
    problems.push_back(
        {file, 0, 0, "backend.source",
         fmt::format("backend '{}': source = \"client\" takes CAP_NET_RAW, which this process does not have", backend.name),
         "give it to the process (deploy/systemd/drop-ins/source-client.conf) and restart, or use source = \"gateway\""});
  }
}

Reconfigured LiveChanges::apply(const control::Config& config, uint32_t pulled_max) {
  number(config);
  share_replies(config);
  set_places(config);
  const uint32_t cores = static_cast<uint32_t>(parts_.apps.size());
  Reconfigured worst = Reconfigured::kDone;
  for (uint32_t i = 0; i < cores; ++i) {
    gateway::GatewayOptions options = gateway_options(config, CoreShare{i, cores}, parts_.quota, parts_.client_quota,
                                                      parts_.rates, parts_.workers.source_ports(), parts_.numbers);
    options.pull_buffers_max = pulled_max / cores;
    const CoreShare share{i, cores};
    const WireOptions wires{roce_options(config, share), iwarp_options(config, share), tcp_options(config, share),
                            rnic_options(config, share), rdma_options(config, share)};
    worst = std::max(worst, parts_.apps[i]->reconfigure(options, wires));
  }
  parts_.checks.reconfigure(config.backends, parts_.numbers);
  parts_.view.reconfigure(config, parts_.numbers);
  parts_.collector.set_limits(metric_limits(config));
  parts_.collector.set_backends(backend_sources(config, parts_.numbers));
  parts_.collector.set_listeners(listener_sources(config, parts_.numbers));
  parts_.collector.set_clients(client_sources(config, parts_.numbers));
  parts_.collector.set_routes(route_sources(config, parts_.numbers));
  if (parts_.page != nullptr) {
    parts_.recorder->set_on(config.metrics.page);
    parts_.page->set_on(config.metrics.page);
  }
  return worst;
}

void LiveChanges::number(const control::Config& config) {
  const gateway::ConfigIds known = parts_.numbers;  // what the workers have
  parts_.numbers.add(config);
  const std::span<const gateway::BackendIdentity> backends = parts_.numbers.backends.values();
  for (uint32_t backend = 0; backend < backends.size(); ++backend) {
    if (backend >= known.backends.values().size()) {
      parts_.workers.set_backend(backend, backends[backend].name, backends[backend].source == control::SourceKind::kClient);
    }
    const std::span<const control::SocketAddress> servers = parts_.numbers.servers[backend].values();
    for (size_t number = known.servers[backend].values().size(); number < servers.size(); ++number) {
      parts_.workers.set_server(backend, static_cast<uint32_t>(number), {servers[number].address, servers[number].port});
    }
  }
}

void LiveChanges::share_replies(const control::Config& config) {
  parts_.workers.set_backend_count(
      static_cast<uint32_t>(std::ranges::count(config.backends, control::BackendType::kTcp, &control::BackendConfig::type)));
}

void LiveChanges::set_places(const control::Config& config) {
  for (const control::ListenerConfig& listener : config.listeners) {
    parts_.quota.set_max(parts_.numbers.of(listener), control::connections_max_of(listener, config.limits));
  }
  for (const control::ClientConfig& client : config.clients) {
    parts_.client_quota.set_max(*parts_.numbers.clients.find(client.name), client_connections_max(client));
  }
  set_rates(config, parts_.numbers, parts_.rates);
}

}  // namespace cw::dataplane
