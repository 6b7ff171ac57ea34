// Commands about settings: log level, config check, reload.
#pragma once

#include "control/ctl/command.h"

namespace cw::control {

[[nodiscard]] int run_log_level(const Invocation& invocation);
// Needs no gateway. kExitBadNews: the file has errors.
[[nodiscard]] int run_config_check(const Invocation& invocation);
// kExitBadNews: the file has errors, and nothing was changed.
[[nodiscard]] int run_reload(const Invocation& invocation);

}  // namespace cw::control
