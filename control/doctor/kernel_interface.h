// The kernel's interface of a port's device. Any thread.
#pragma once

#include <optional>
#include <string>

namespace cw::control::doctor {

// Of a virtual device, the one that its arguments name; of a PCI address, the first that the NIC's kernel driver has made.
// Nothing: there is none.
[[nodiscard]] std::optional<std::string> kernel_interface_of(const std::string& device);

}  // namespace cw::control::doctor
