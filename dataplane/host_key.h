// A key that clients do not know and that is the same after a restart: for what has to come out the same again, but not by a
// client's choice.
#pragma once

#include <cstdint>
#include <string>

namespace cw::dataplane {

// From the host's machine-id (machine-id(5)); random where there is none, as in many containers.
[[nodiscard]] uint64_t host_key(const std::string& machine_id = "/etc/machine-id");

}  // namespace cw::dataplane
