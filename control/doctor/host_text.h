// Text that Linux has about a host, as values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cw::control::doctor {

// "0-3,7" -> {0, 1, 2, 3, 7}; what is not of this form is left out.
[[nodiscard]] std::vector<uint32_t> parse_cpu_list(std::string_view text);
// The mask behind "CapEff:" of /proc/PID/status; 0 when it is not there.
[[nodiscard]] uint64_t effective_capabilities(std::string_view status);
// "net_af_packet0,iface=roce0,..." -> "roce0", "net_tap0,remote=eth0" -> "eth0". Nothing: the device is on no interface of the
// kernel.
[[nodiscard]] std::optional<std::string> interface_of(std::string_view device);
// "0000:3b:00.0".
[[nodiscard]] bool is_pci_address(std::string_view device);
// /proc/cpuinfo names both constant_tsc and nonstop_tsc.
[[nodiscard]] bool has_invariant_tsc(std::string_view cpuinfo);

}  // namespace cw::control::doctor
