// ping: a NULL call to backends over the way that clients' calls go.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

// One backend, or all of them. kExitBadNews when one did not answer.
[[nodiscard]] int run_ping(const Invocation& invocation);

}  // namespace cw::control
