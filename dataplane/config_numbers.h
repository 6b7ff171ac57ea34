// The numbers by which the parts of a running gateway know what its configuration names: see gateway/stable_ids.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "gateway/backend_numbers.h"
#include "gateway/client_numbers.h"
#include "gateway/listener_numbers.h"
#include "gateway/route_numbers.h"
#include "gateway/server_numbers.h"

namespace cw::dataplane {

struct ConfigNumbers {
  gateway::ListenerNumbers listeners;
  gateway::BackendNumbers backends;
  std::array<gateway::ServerNumbers, gateway::kBackendNumbersMax> servers;  // by backend
  gateway::RouteNumbers routes;
  gateway::ClientNumbers clients;

  // What of `config` has none gets one. Precondition: there is room for it.
  void add(const control::Config& config);

  // Precondition, here and below: it has one.
  [[nodiscard]] uint32_t of(const control::ListenerConfig& listener) const {
    return *listeners.find(gateway::identity_of(listener));
  }
  [[nodiscard]] uint32_t of(const control::BackendConfig& backend) const { return *backends.find(gateway::identity_of(backend)); }
  [[nodiscard]] uint32_t of_server(uint32_t backend, const control::SocketAddress& server) const {
    return *servers[backend].find(server);
  }
  // Of the backend of this name in `config`; ListenerOptions::kNoBackend when there is no name.
  [[nodiscard]] uint32_t of_backend(const control::Config& config, const std::string& name) const;
};

[[nodiscard]] std::vector<gateway::ListenerIdentity> listener_identities(const control::Config& config);
[[nodiscard]] std::vector<gateway::BackendIdentity> backend_identities(const control::Config& config);
// Each listener's [[route]]s, then what it does with the programs that have none. Precondition: listeners and backends have
// `numbers`.
[[nodiscard]] std::vector<gateway::RouteKey> route_keys(const control::Config& config, const ConfigNumbers& numbers);
[[nodiscard]] std::vector<std::string> client_names(const control::Config& config);

}  // namespace cw::dataplane
