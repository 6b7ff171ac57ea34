// Which clients keep the gateway busy, and with what.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

[[nodiscard]] int run_top(const Invocation& invocation);

}  // namespace cw::control
