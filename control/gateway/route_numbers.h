// Numbers for the ways that calls go, by listener, program and backend, for as long as the process lives.
//
// Connections keep the routes that they began with, and counters are for ever: a number therefore never comes to mean another
// way, and a way that returns has its old one. That bounds how many there can be; a process that has seen kRouteNumbersMax of
// them takes further ones with a restart only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "control/gateway/gateway_stats.h"

namespace cw::gateway {

struct RouteKey {
  uint32_t listener = 0;            // index
  std::optional<uint32_t> program;  // absent: all that have no route of their own
  uint32_t backend = 0;             // index; ListenerOptions::kNoBackend

  friend bool operator==(const RouteKey&, const RouteKey&) = default;
};

class RouteNumbers {
 public:
  // A route that has no number gets one. Precondition: has_room_for() it.
  uint32_t number(const RouteKey& route) {
    const auto found = std::find(routes_.begin(), routes_.end(), route);
    const uint32_t number = static_cast<uint32_t>(found - routes_.begin());
    if (found == routes_.end()) {
      routes_.push_back(route);
    }
    return number;
  }
  [[nodiscard]] bool has_room_for(std::span<const RouteKey> routes) const {
    const auto is_new = [this](const RouteKey& route) {
      return std::find(routes_.begin(), routes_.end(), route) == routes_.end();
    };
    return routes_.size() + static_cast<size_t>(std::count_if(routes.begin(), routes.end(), is_new)) <= kRouteNumbersMax;
  }
  // By number.
  [[nodiscard]] std::span<const RouteKey> routes() const { return routes_; }

 private:
  std::vector<RouteKey> routes_;
};

}  // namespace cw::gateway
