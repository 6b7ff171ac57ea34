// causewayctl capture start: makes the file as the user who asks, and hands it to the gateway open.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

// The exit status.
[[nodiscard]] int run_capture_start(const Invocation& invocation);

}  // namespace cw::control
