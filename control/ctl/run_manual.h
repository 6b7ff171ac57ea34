// What packages install beside the program.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

[[nodiscard]] int run_manual(const Invocation& invocation);
[[nodiscard]] int run_completion(const Invocation& invocation);

}  // namespace cw::control
