// Makes the fault list of a failing scenario as short as it will get: delta debugging over the list, then halving what is left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/sim/scenario.h"

namespace cw::sim {

// A fault that is kept: which one, and how often its time was halved.
struct KeptFault {
  uint32_t fault = 0;
  uint32_t halvings = 0;
};

// "3,5/4,6": fault 3 as it is, fault 5 for a quarter of its time, fault 6. What --keep takes.
[[nodiscard]] std::string to_string(const std::vector<KeptFault>& kept);
// Empty and false when the text is something else. "none" keeps no fault.
[[nodiscard]] bool parse_kept(const std::string& text, std::vector<KeptFault>& out);
// The scenario with only these faults.
[[nodiscard]] Scenario keep(const Scenario& scenario, const std::vector<KeptFault>& kept);

struct Shrunk {
  std::vector<KeptFault> kept;
  uint32_t runs = 0;
};
// `still_fails` says whether a scenario shows the same failure. Runs it at most `runs_max` times.
[[nodiscard]] Shrunk shrink(const Scenario& scenario, const std::function<bool(const Scenario&)>& still_fails,
                            uint32_t runs_max = 200);

}  // namespace cw::sim
