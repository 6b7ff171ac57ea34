// Every packet boundary, and every byte of a stream: the same small run again and again, each time with one thing broken at
// another place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sim/coverage.h"
#include "apps/sim/runner.h"

namespace cw::sim {

// One run: what breaks, and where. RoCE: at the packet that is the at-th to arrive. iWARP: the stream before its at-th byte of
// that direction, all else at the at-th segment. 0: nothing breaks.
struct BoundaryPoint {
  Wires wires = Wires::kRoce;  // not kBoth
  gateway::BackendKind backend = gateway::BackendKind::kTcp;
  FaultKind kind = FaultKind::kDisconnect;
  Direction direction = Direction::kBoth;
  uint64_t at = 0;
  // "tcp:kill_gateway:17", "iwarp:tcp:kill_client:17", "iwarp:tcp:stream_reset:to_gateway:17": what --boundary-at takes.
  [[nodiscard]] std::string name() const;
};

struct BoundaryFailure {
  BoundaryPoint point;
  Failure failure;
};

struct BoundaryReport {
  uint64_t frames = 0;    // of the undisturbed runs
  uint64_t segments = 0;  // the same, of TCP
  uint64_t bytes = 0;     // the same, of streams
  uint64_t runs = 0;
  uint64_t hash = 0;  // over the hashes of all runs
  std::vector<BoundaryFailure> failures;
};

// What happens at a boundary: the client disconnects, the gateway shuts down, either is killed.
[[nodiscard]] std::vector<FaultKind> boundary_kinds();
// What happens at each byte of a stream: a reset, a half-close.
[[nodiscard]] std::vector<FaultKind> byte_boundary_kinds();
[[nodiscard]] Scenario boundary_scenario_at(const BoundaryPoint& point);
// Of the text that BoundaryPoint::name() makes; nothing when it is another.
[[nodiscard]] std::optional<Scenario> parse_boundary(std::string_view text);
// With kBoth those of the one wire, and then those of the other. `step`: from one place to the next that is tried, 1: all are.
[[nodiscard]] BoundaryReport run_boundaries(Coverage& coverage, Wires wires, uint64_t step);

}  // namespace cw::sim
