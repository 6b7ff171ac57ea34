// One run of one scenario, from the first ARP to the last buffer.
//
//   phase one    faults and hostile peers at work, safety oracles watch
//   phase two    no faults: within a bound every call has to be answered
//   phase three  everybody hangs up: within a bound nothing may be left
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "apps/sim/coverage.h"
#include "apps/sim/fabric.h"
#include "apps/sim/oracle.h"
#include "apps/sim/scenario.h"

namespace cw::sim {

struct RunResult {
  std::vector<Failure> failures;
  uint64_t hash = 0;
  uint64_t frames = 0;
  uint64_t segments = 0;                   // of TCP
  std::array<uint64_t, 2> stream_bytes{};  // of the first client: to the gateway, and from it
  uint64_t attempts = 0;
  Duration simulated;
  std::vector<Service> services;  // of each client, at the end of phase one
  [[nodiscard]] bool passed() const { return failures.empty(); }
};

// Adds to `coverage` if there is one. A scenario with hostiles is run a second time without them, for comparison: result,
// coverage and taps are those of the run with them.
[[nodiscard]] RunResult run(const Scenario& scenario, Coverage* coverage = nullptr, const FabricTaps& taps = {});

}  // namespace cw::sim
