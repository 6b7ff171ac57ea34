// Which server of a backend gets a new connection: the first one, in the order of the configuration, that is not known to be
// down. When all are down the first one is tried, so that a check which is wrong about them keeps nobody out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "control/service/server_health.h"
#include "gateway/gateway_stats.h"

namespace cw::gateway {

class ServerChoice {
 public:
  // The numbers of the servers, each below kBackendServersMax, in order of preference.
  explicit ServerChoice(std::vector<uint32_t> servers) : servers_(std::move(servers)) {}

  // Exchanges the servers for `fresh`. What is known of those that stay is kept.
  void exchange(std::vector<uint32_t>& fresh) {
    std::swap(servers_, fresh);
    uint32_t listed = 0;
    for (const uint32_t server : servers_) {
      listed |= 1u << server;
    }
    up_ &= listed;
    down_ &= listed;
  }
  // What a check has found; of a server that is not one of these nothing is kept.
  void set(uint32_t server, control::ServerState state) {
    if (std::find(servers_.begin(), servers_.end(), server) != servers_.end()) {
      const uint32_t bit = 1u << server;
      up_ = state == control::ServerState::kUp ? up_ | bit : up_ & ~bit;
      down_ = state == control::ServerState::kDown ? down_ | bit : down_ & ~bit;
    }
  }
  [[nodiscard]] uint32_t pick() const {
    for (const uint32_t server : servers_) {
      if ((down_ >> server & 1) == 0) {
        return server;
      }
    }
    return servers_.empty() ? 0 : servers_.front();
  }
  [[nodiscard]] bool any_up() const { return up_ != 0; }
  [[nodiscard]] bool is_checked() const { return (up_ | down_) != 0; }

 private:
  std::vector<uint32_t> servers_;
  uint32_t up_ = 0;  // one bit per server number
  uint32_t down_ = 0;
};
static_assert(kBackendServersMax <= 32);

}  // namespace cw::gateway
