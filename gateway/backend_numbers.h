// Numbers for the backends, by what they are: see stable_ids.h. Connections lead to the backend that they began with, and
// counters are for ever.
#pragma once

#include <string>

#include "control/config/config.h"
#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

// What does not change about one. Metrics know it by its name alone: no two have the same.
struct BackendIdentity {
  std::string name;
  control::BackendType type = control::BackendType::kTcp;
  control::SourceKind source = control::SourceKind::kGateway;

  friend bool operator==(const BackendIdentity&, const BackendIdentity&) = default;
};
[[nodiscard]] inline BackendIdentity identity_of(const control::BackendConfig& config) {
  return {config.name, config.type, config.source};
}

using BackendNumbers = StableIds<BackendIdentity, kBackendNumbersMax>;

}  // namespace cw::gateway
