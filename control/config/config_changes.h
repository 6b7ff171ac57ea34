// What differs between two configurations, by the names that an operator wrote.
#pragma once

#include <string>
#include <vector>

#include "control/config/config.h"

namespace cw::control {

// Keys whose values differ, in order of the reference: "dataplane.memory_mb", "port[1].mtu" (from 0). A section that only one of
// the two has is named whole: "listener[2]".
[[nodiscard]] std::vector<std::string> changed_keys(const Config& before, const Config& after);

}  // namespace cw::control
