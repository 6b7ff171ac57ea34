// Numbers for the listeners: see stable_ids.h. Connections belong to the listener that they came in by, and counters are for
// ever.
#pragma once

#include <cstdint>
#include <string>

#include "control/config/config.h"
#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

// What does not change about one. Metrics know it by its name alone: no two have the same.
struct ListenerIdentity {
  std::string name;
  uint16_t port = 0;

  friend bool operator==(const ListenerIdentity&, const ListenerIdentity&) = default;
};
[[nodiscard]] inline ListenerIdentity identity_of(const control::ListenerConfig& config) {
  return {config.name, config.port};
}

using ListenerNumbers = StableIds<ListenerIdentity, kListenerNumbersMax>;

}  // namespace cw::gateway
