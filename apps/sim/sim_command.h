// The command line of causeway-sim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/sim/scenario.h"
#include "apps/sim/script_run.h"

namespace cw::sim {

struct SimSettings {
  Variant variant;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  uint32_t jobs = 1;
  std::string keep;
  std::string pcap;
  std::string trace;
  std::string boundary_at;
  uint64_t boundary_step = 1;
  std::string goodput_check;
  std::optional<std::string> isolation;
  std::string reorder_check;
  std::optional<std::string> script;
  ScriptWork script_work;
  bool goodput = false;
  bool reorder = false;
  bool scenario = false;
  bool boundary = false;
  bool no_shrink = false;
  bool coverage = false;
  bool json = false;
};

// Reads the command line into `settings`. An exit status when the program is done with it: --help, --version, or wrong use, which
// has been explained.
[[nodiscard]] std::optional<int> parse_command(int argc, char** argv, SimSettings& settings);

}  // namespace cw::sim
