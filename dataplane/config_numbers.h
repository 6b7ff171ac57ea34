// The numbers by which the parts of a running gateway know what its configuration names: see control/gateway/lasting_numbers.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/gateway/client_numbers.h"
#include "control/gateway/route_numbers.h"
#include "control/gateway/server_numbers.h"

namespace cw::dataplane {

struct ConfigNumbers {
  std::vector<gateway::ServerNumbers> servers;  // by backend
  gateway::RouteNumbers routes;
  gateway::ClientNumbers clients;

  // What of `config` has none gets one. Precondition: there is room for it.
  void add(const control::Config& config);
};

// Index; ListenerOptions::kNoBackend when there is no name.
[[nodiscard]] uint32_t backend_index(const control::Config& config, const std::string& name);
// Each listener's [[route]]s, then what it does with the programs that have none.
[[nodiscard]] std::vector<gateway::RouteKey> route_keys(const control::Config& config);
[[nodiscard]] std::vector<std::string> client_names(const control::Config& config);

}  // namespace cw::dataplane
