// Carries a command out: asks the gateway, once or again and again, and prints.
#pragma once

#include <string>

#include "control/ctl/client.h"
#include "control/ctl/command.h"

namespace cw::control {

// The exit status.
[[nodiscard]] int run_command(const Invocation& invocation);

// Socket of the gateway that is meant.
[[nodiscard]] std::string socket_of(const GlobalOptions& options);
// What is asked: the command's request with what was given for it.
[[nodiscard]] nlohmann::ordered_json request_of(const Invocation& invocation);

}  // namespace cw::control
