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
// "net_memif0,role=server" -> "net_memif". Nothing: the device does not begin with the name of a driver.
[[nodiscard]] std::optional<std::string> driver_of(std::string_view device);
// /proc/meminfo: the bytes behind "MemAvailable:"; 0 when it is not there.
[[nodiscard]] uint64_t meminfo_bytes(std::string_view meminfo, std::string_view key);
// /proc/cpuinfo names both constant_tsc and nonstop_tsc.
[[nodiscard]] bool has_invariant_tsc(std::string_view cpuinfo);
// /proc/net/tcp or tcp6: inodes of the sockets that listen at a port, of any address.
[[nodiscard]] std::vector<uint64_t> listening_inodes(std::string_view table, uint16_t port);
// /proc/fs/nfsd/portlist: "rdma 20049\ntcp 2049\n" -> {20049}.
[[nodiscard]] std::vector<uint16_t> rdma_ports(std::string_view portlist);
// "4096\t131072\t6291456\n" -> 6291456; 0 when there is none.
[[nodiscard]] uint64_t last_number(std::string_view text);

}  // namespace cw::control::doctor
