// Every packet boundary: the same small run again and again, each time with one thing broken at another packet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sim/coverage.h"
#include "apps/sim/runner.h"

namespace cw::sim {

struct BoundaryFailure {
  gateway::BackendKind backend = gateway::BackendKind::kTcp;
  FaultKind kind = FaultKind::kDisconnect;
  uint64_t at_frame = 0;
  Failure failure;
  [[nodiscard]] std::string where() const;  // "tcp:kill_gateway:17": what --boundary-at takes
};

struct BoundaryReport {
  uint64_t frames = 0;  // of the undisturbed run
  uint64_t runs = 0;
  uint64_t hash = 0;  // over the hashes of all runs
  std::vector<BoundaryFailure> failures;
};

// What happens at a boundary: the client disconnects, the gateway shuts down, either is killed.
[[nodiscard]] std::vector<FaultKind> boundary_kinds();
[[nodiscard]] Scenario boundary_scenario_at(FaultKind kind, uint64_t at_frame, gateway::BackendKind backend);
// Of the text that BoundaryFailure::where() makes; nothing when it is another.
[[nodiscard]] std::optional<Scenario> parse_boundary(std::string_view text);
[[nodiscard]] BoundaryReport run_boundaries(Coverage& coverage);

}  // namespace cw::sim
