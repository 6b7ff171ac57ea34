#include "dataplane/config_numbers.h"

#include <algorithm>
#include <iterator>

#include "control/gateway/gateway_options.h"

namespace cw::dataplane {

uint32_t backend_index(const control::Config& config, const std::string& name) {
  if (name.empty()) {
    return gateway::ListenerOptions::kNoBackend;
  }
  const auto found = std::ranges::find(config.backends, name, &control::BackendConfig::name);
  return static_cast<uint32_t>(found - config.backends.begin());
}

void ConfigNumbers::add(const control::Config& config) {
  servers.resize(config.backends.size());
  for (size_t i = 0; i < servers.size(); ++i) {
    (void)servers[i].number(control::servers_of(config.backends[i]));
  }
  (void)routes.number(route_keys(config));
  (void)clients.number(client_names(config));
}

std::vector<gateway::RouteKey> route_keys(const control::Config& config) {
  std::vector<gateway::RouteKey> keys;
  for (uint32_t i = 0; i < config.listeners.size(); ++i) {
    const control::ListenerConfig& listener = config.listeners[i];
    for (const control::RouteConfig& route : config.routes) {
      if (route.listener == listener.name) {
        keys.push_back({i, route.program, backend_index(config, route.backend)});
      }
    }
    keys.push_back({i, std::nullopt, backend_index(config, listener.backend)});
  }
  return keys;
}

std::vector<std::string> client_names(const control::Config& config) {
  std::vector<std::string> names;
  std::ranges::transform(config.clients, std::back_inserter(names), &control::ClientConfig::name);
  return names;
}

}  // namespace cw::dataplane
