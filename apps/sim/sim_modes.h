// What causeway-sim does with its settings: one run, a sweep, every boundary, a table of goodput, isolation, a fault script.
#pragma once

#include "apps/sim/sim_command.h"

namespace cw::sim {

// The exit status: 0 passed, 1 something failed, 2 wrong use, which has been explained.
[[nodiscard]] int run_mode(const SimSettings& settings);

}  // namespace cw::sim
