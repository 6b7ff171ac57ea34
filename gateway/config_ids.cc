#include "gateway/config_ids.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "gateway/gateway_options.h"

namespace cw::gateway {

void ConfigIds::add(const control::Config& config) {
  (void)listeners.number(listener_identities(config));
  for (const control::BackendConfig& backend : config.backends) {
    (void)servers[backends.number(identity_of(backend))].number(control::servers_of(backend));
  }
  (void)routes.number(route_keys(config, *this));
  (void)clients.number(client_names(config));
}

uint32_t ConfigIds::of_backend(const control::Config& config, const std::string& name) const {
  if (name.empty()) {
    return ListenerOptions::kNoBackend;
  }
  return of(*std::ranges::find(config.backends, name, &control::BackendConfig::name));
}

std::vector<ListenerIdentity> listener_identities(const control::Config& config) {
  std::vector<ListenerIdentity> identities;
  for (const control::ListenerConfig& listener : config.listeners) {
    identities.push_back(identity_of(listener));
  }
  return identities;
}

std::vector<BackendIdentity> backend_identities(const control::Config& config) {
  std::vector<BackendIdentity> identities;
  for (const control::BackendConfig& backend : config.backends) {
    identities.push_back(identity_of(backend));
  }
  return identities;
}

std::vector<RouteKey> route_keys(const control::Config& config, const ConfigIds& numbers) {
  std::vector<RouteKey> keys;
  for (const control::ListenerConfig& listener : config.listeners) {
    const uint32_t number = numbers.of(listener);
    for (const control::RouteConfig& route : config.routes) {
      if (route.listener == listener.name) {
        keys.push_back({number, route.program, numbers.of_backend(config, route.backend)});
      }
    }
    keys.push_back({number, std::nullopt, numbers.of_backend(config, listener.backend)});
  }
  return keys;
}

std::vector<std::string> client_names(const control::Config& config) {
  std::vector<std::string> names;
  std::ranges::transform(config.clients, std::back_inserter(names), &control::ClientConfig::name);
  return names;
}

}  // namespace cw::gateway
