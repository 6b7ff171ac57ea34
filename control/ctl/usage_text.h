// What --help says, from the table. Pure.
#pragma once

#include <span>
#include <string>

#include "control/ctl/command.h"

namespace cw::control {

// All commands, options and exit statuses.
[[nodiscard]] std::string usage_text(std::span<const Command> table);
// Some commands with all their parameters.
[[nodiscard]] std::string usage_text_of(std::span<const Command* const> commands);

// "connections [show] [client NETWORK]... [--wait]", as it may be typed.
[[nodiscard]] std::string synopsis(const Command& command);
// One parameter as it may be typed: "client NETWORK", "--wait", "PREFIX".
[[nodiscard]] std::string spelling(const Parameter& parameter);

}  // namespace cw::control
