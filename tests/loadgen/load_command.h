// The options of causeway-load's own work, making load. Other subcommands stand in files of their own.
#pragma once

namespace cw::load {

// argv[0] is the program's name. Returns the exit status.
[[nodiscard]] int run_load_command(int argc, char** argv);

}  // namespace cw::load
