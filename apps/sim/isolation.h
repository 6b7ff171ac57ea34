// The oracle `isolation`: honest clients beside hostile peers and sick backends, in front of a gateway with the limits of
// production. The honest part of a scenario is run alone too. Beside the hostiles each honest client has to keep
// kRatePermilleMin of the answers that it got alone, and nobody waits for an answer longer than alone and kWaitMax on top.
//
// What the simulation does not see: a turn of a poll core takes no time in it, and each client has a cable of its own. A hostile
// that takes cycles or bandwidth is the business of tests/bench and of the ops drills.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/sim/oracle.h"
#include "apps/sim/runner.h"
#include "apps/sim/scenario.h"

namespace cw::sim {

inline constexpr uint32_t kRatePermilleMin = 800;
// A lost datagram of a handshake is repeated after 250 ms, then 500 ms: what a client that has to connect again may have to wait.
inline constexpr Duration kWaitMax = Duration::seconds(1);

// One seed in so many is such a scenario.
inline constexpr uint32_t kIsolationSeeds = 128;
[[nodiscard]] bool is_isolation_seed(uint64_t seed);
// One to three hostiles of kinds drawn from the seed beside two or three honest clients. Those of iWARP with any other wires than
// kRoce.
[[nodiscard]] Scenario draw_isolation(uint64_t seed, Wires wires);
// What the table measures: one hostile of that kind, at its worst.
[[nodiscard]] Scenario isolation_of(HostileKind kind);
[[nodiscard]] Scenario honest_part(const Scenario& scenario);

void judge_isolation(const Scenario& scenario, const std::vector<Service>& alone, const std::vector<Service>& beside,
                     Verdict& verdict);

// The table of `causeway-sim --isolation`: a row per kind of hostility.
struct IsolationRow {
  HostileKind kind = HostileKind::kNoReceives;
  uint64_t alone_per_second = 0;  // answers of all honest clients together
  uint64_t beside_per_second = 0;
  Duration alone_wait;  // the longest of all
  Duration beside_wait;
  std::vector<Failure> failures;  // of any oracle
};
[[nodiscard]] IsolationRow measure_isolation(HostileKind kind);
[[nodiscard]] const char* isolation_head();
[[nodiscard]] std::string to_string(const IsolationRow& row);

}  // namespace cw::sim
