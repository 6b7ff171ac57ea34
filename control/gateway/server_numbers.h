// Numbers for the servers of one backend, for as long as the process lives.
//
// Connections, checks and metrics name a server by its number, and outlast the list that it stood in: a number therefore never
// comes to mean another server, and a server that returns has its old one. That bounds how many there can be; a process that has
// seen kBackendServersMax different servers of a backend takes further ones with a restart only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "control/config/ip_text.h"
#include "control/gateway/gateway_stats.h"

namespace cw::gateway {

class ServerNumbers {
 public:
  // Those of `servers` that have none get one. Precondition: has_room_for(servers).
  [[nodiscard]] std::vector<uint32_t> number(std::span<const control::SocketAddress> servers) {
    std::vector<uint32_t> numbers;
    for (const control::SocketAddress& server : servers) {
      const auto found = std::find(servers_.begin(), servers_.end(), server);
      numbers.push_back(static_cast<uint32_t>(found - servers_.begin()));
      if (found == servers_.end()) {
        servers_.push_back(server);
      }
    }
    return numbers;
  }
  [[nodiscard]] bool has_room_for(std::span<const control::SocketAddress> servers) const {
    const auto is_new = [this](const auto& server) {
      return std::find(servers_.begin(), servers_.end(), server) == servers_.end();
    };
    return servers_.size() + static_cast<size_t>(std::count_if(servers.begin(), servers.end(), is_new)) <= kBackendServersMax;
  }
  // By number.
  [[nodiscard]] std::span<const control::SocketAddress> servers() const { return servers_; }

 private:
  std::vector<control::SocketAddress> servers_;
};

}  // namespace cw::gateway
