#include "dataplane/kernel_addresses.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "control/doctor/kernel_interface.h"

namespace cw::dataplane {
namespace {

std::optional<control::IpPrefix> prefix_of(const sockaddr* address, const sockaddr* mask) {
  if (address == nullptr || mask == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    const uint32_t host = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    const uint32_t bits = ntohl(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
    return control::IpPrefix{IpAddress::v4(host), static_cast<uint8_t>(std::popcount(bits))};
  }
  if (address->sa_family == AF_INET6) {
    control::IpPrefix prefix;
    std::memcpy(prefix.address.raw.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    for (const uint8_t byte : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr) {
      prefix.length_bits = static_cast<uint8_t>(prefix.length_bits + std::popcount(byte));
    }
    return prefix;
  }
  return std::nullopt;
}

std::vector<control::IpPrefix> addresses_of(const std::string& interface) {
  std::vector<control::IpPrefix> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return out;
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr && out.size() < control::kPortAddressesMax; each = each->ifa_next) {
    const auto prefix = interface == each->ifa_name ? prefix_of(each->ifa_addr, each->ifa_netmask) : std::nullopt;
    if (prefix && !control::is_link_local(prefix->address)) {
      out.push_back(*prefix);
    }
  }
  return out;
}

}  // namespace

bool fill_kernel_addresses(control::Config& config, std::string& error) {
  for (control::PortConfig& port : config.ports) {
    if (!port.beside_kernel || !port.addresses.empty()) {
      continue;
    }
    const std::string interface = control::doctor::kernel_interface_of(port.device).value_or("");
    if (interface.empty()) {
      error = fmt::format(
          "port '{}': the kernel has no interface of this device: beside_kernel takes a NIC that keeps its kernel driver (mlx5)",
          port.device);
      return false;
    }
    port.addresses = addresses_of(interface);
    if (port.addresses.empty()) {
      error = fmt::format(
          "port '{}': the kernel has no address on {}: ip address add ADDRESS/PREFIX dev {}; "
          "or name the addresses that it will have in port.addresses",
          port.device, interface, interface);
      return false;
    }
  }
  return true;
}

}  // namespace cw::dataplane
