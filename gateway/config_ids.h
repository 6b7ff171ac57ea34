// Stable ids of what a configuration names: listeners, backends and their servers, routes, sections of clients. Connections
// keep the listener, backend, routes and section that they began with; counters live as long as the process (stable_ids.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/config/ip_text.h"
#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

// What does not change about one. Metrics know it by its name alone: no two have the same name.
struct ListenerIdentity {
  std::string name;
  uint16_t port = 0;
  control::TransportKind transport = control::TransportKind::kRoce;

  friend bool operator==(const ListenerIdentity&, const ListenerIdentity&) = default;
};
[[nodiscard]] inline ListenerIdentity identity_of(const control::ListenerConfig& config) {
  return {config.name, config.port, config.transport};
}

using ListenerIds = StableIds<ListenerIdentity, kListenerIdsMax>;

struct BackendIdentity {
  std::string name;
  control::BackendType type = control::BackendType::kTcp;
  control::SourceKind source = control::SourceKind::kGateway;

  friend bool operator==(const BackendIdentity&, const BackendIdentity&) = default;
};
[[nodiscard]] inline BackendIdentity identity_of(const control::BackendConfig& config) {
  return {config.name, config.type, config.source};
}

using BackendIds = StableIds<BackendIdentity, kBackendIdsMax>;

// Of the servers of one backend.
using ServerIds = StableIds<control::SocketAddress, kBackendServersMax>;

// Where calls go, by listener, program and backend.
struct RouteKey {
  uint32_t listener = 0;            // ListenerIds
  std::optional<uint32_t> program;  // absent: all that have no route of their own
  uint32_t backend = 0;             // BackendIds; ListenerOptions::kNoBackend

  friend bool operator==(const RouteKey&, const RouteKey&) = default;
};

using RouteIds = StableIds<RouteKey, kRouteIdsMax>;

// By the names of the sections.
using ClientIds = StableIds<std::string, kClientIdsMax>;

struct ConfigIds {
  ListenerIds listeners;
  BackendIds backends;
  std::array<ServerIds, kBackendIdsMax> servers;  // by backend
  RouteIds routes;
  ClientIds clients;

  // What of `config` has none gets one. Precondition: there is room for it.
  void add(const control::Config& config);

  // Precondition, here and below: it has one.
  [[nodiscard]] uint32_t of(const control::ListenerConfig& listener) const { return *listeners.find(identity_of(listener)); }
  [[nodiscard]] uint32_t of(const control::BackendConfig& backend) const { return *backends.find(identity_of(backend)); }
  [[nodiscard]] uint32_t of_server(uint32_t backend, const control::SocketAddress& server) const {
    return *servers[backend].find(server);
  }
  // Of the backend of this name in `config`; ListenerOptions::kNoBackend when there is no name.
  [[nodiscard]] uint32_t of_backend(const control::Config& config, const std::string& name) const;
};

[[nodiscard]] std::vector<ListenerIdentity> listener_identities(const control::Config& config);
[[nodiscard]] std::vector<BackendIdentity> backend_identities(const control::Config& config);
// Each listener's [[route]]s, then what it does with the programs that have none. Precondition: listeners and backends have
// `numbers`.
[[nodiscard]] std::vector<RouteKey> route_keys(const control::Config& config, const ConfigIds& numbers);
[[nodiscard]] std::vector<std::string> client_names(const control::Config& config);

}  // namespace cw::gateway
