// The options of causeway-load's own work, making load. Other subcommands stand in files of their own.
#pragma once

#include "apps/load/link_faults.h"

namespace cw::load {

// argv[0] is the program's name. `faults`: those that there are before the options say more. Returns the exit status.
[[nodiscard]] int run_load_command(int argc, char** argv, const LinkFaultOptions& faults = {});

}  // namespace cw::load
