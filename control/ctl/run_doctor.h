// doctor: what is missing on this host for a configuration, and how to fix it.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

// kExitBadNews when something keeps the gateway from running or serving.
[[nodiscard]] int run_doctor(const Invocation& invocation);

}  // namespace cw::control
