// Which server of a backend gets a new connection: the first one, in the order of the configuration, that is not known to be
// down. When all are down the first one is tried, so that a check which is wrong about them keeps nobody out.
#pragma once

#include <cstdint>

#include "control/gateway/gateway_stats.h"
#include "control/gateway/server_health.h"

namespace cw::gateway {

class ServerChoice {
 public:
  explicit ServerChoice(uint32_t count) : count_(count) {}

  // What a check has found; a server that does not exist is ignored.
  void set(uint32_t server, ServerState state) {
    if (server < count_) {
      const uint32_t bit = 1u << server;
      up_ = state == ServerState::kUp ? up_ | bit : up_ & ~bit;
      down_ = state == ServerState::kDown ? down_ | bit : down_ & ~bit;
    }
  }
  [[nodiscard]] uint32_t pick() const {
    for (uint32_t server = 0; server < count_; ++server) {
      if ((down_ >> server & 1) == 0) {
        return server;
      }
    }
    return 0;
  }
  [[nodiscard]] bool any_up() const { return up_ != 0; }
  [[nodiscard]] bool is_checked() const { return (up_ | down_) != 0; }

 private:
  uint32_t count_;
  uint32_t up_ = 0;  // one bit per server
  uint32_t down_ = 0;
};
static_assert(kBackendServersMax <= 32);

}  // namespace cw::gateway
