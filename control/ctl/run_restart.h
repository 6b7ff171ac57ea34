// restart: waits until the program that follows answers.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

[[nodiscard]] int run_restart(const Invocation& invocation);

}  // namespace cw::control
