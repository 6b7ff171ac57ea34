// drain start, which may wait until the gateway is empty.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

// With --wait: says how far it is, and ends when no connection is left: kExitDone, or kExitBadNews when some had to be ended by
// force.
[[nodiscard]] int run_drain_start(const Invocation& invocation);

}  // namespace cw::control
