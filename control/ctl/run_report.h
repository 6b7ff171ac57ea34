// report: all that is known of a gateway that runs, hangs, has crashed or does not start, in one file.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

[[nodiscard]] int run_report(const Invocation& invocation);

}  // namespace cw::control
