// The scenarios that come with the program: found by name, and shown.
#pragma once

#include <string>

namespace cw::load {

// The file of a scenario. "churn" is looked for in deploy/load below the working directory, beside an installed program and in
// the tree that a build directory belongs to; "./churn.toml" and "a/b" are paths already. A name that is not found comes back
// as it is.
[[nodiscard]] std::string scenario_path(const std::string& name);
// Prints them, and every key that a scenario may set. Returns an exit status.
[[nodiscard]] int list_scenarios();

}  // namespace cw::load
