// Reads the facts from this host: /proc, /sys, sockets, the firewall's lists. Changes nothing; blocks for as long as backends
// take to answer, each at most a second.
#pragma once

#include <string>

#include "control/doctor/facts.h"

namespace cw::control::doctor {

[[nodiscard]] Facts read_facts(const std::string& config_file);

}  // namespace cw::control::doctor
