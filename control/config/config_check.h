// What no single key can tell: names that refer to each other, numbers that must fit together. Collects all problems.
#pragma once

#include <vector>

#include "control/config/config_parse.h"

namespace cw::control {

// Pure. Positions come from `parsed`; for a Config built by hand they are 0. Does not repeat parsed.problems.
[[nodiscard]] std::vector<Problem> config_check(const ParsedConfig& parsed);

}  // namespace cw::control
