// Numbers for the ways that calls go, by listener, program and backend: see stable_ids.h. Connections keep the routes that
// they began with, and counters are for ever.
#pragma once

#include <cstdint>
#include <optional>

#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

struct RouteKey {
  uint32_t listener = 0;            // ListenerNumbers
  std::optional<uint32_t> program;  // absent: all that have no route of their own
  uint32_t backend = 0;             // BackendNumbers; ListenerOptions::kNoBackend

  friend bool operator==(const RouteKey&, const RouteKey&) = default;
};

using RouteNumbers = StableIds<RouteKey, kRouteNumbersMax>;

}  // namespace cw::gateway
