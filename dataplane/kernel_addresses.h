// The addresses that the kernel has on an interface, for ports beside it that name none.
#pragma once

#include <string>

#include "control/config/config.h"

namespace cw::dataplane {

// Fills in the addresses of ports beside the kernel that have none: those of the interface, link-local ones left out, at most
// kPortAddressesMax. False, with one sentence, when an interface has none.
[[nodiscard]] bool fill_kernel_addresses(control::Config& config, std::string& error);

}  // namespace cw::dataplane
