// Manual pages, from the tables of commands, fields and settings. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "control/ctl/command.h"

namespace cw::control {

// Text so that man(7) shows it as it is.
[[nodiscard]] std::string roff_text(std::string_view text);
// causewayctl(1).
[[nodiscard]] std::string ctl_manual(std::span<const Command> table);
// causeway.toml(5).
[[nodiscard]] std::string config_manual();

}  // namespace cw::control
