#include "control/config/kernel_address.h"

#include <netinet/in.h>

#include <array>
#include <cstring>

namespace cw::control {

int family_of(const IpAddress& address) {
  return address.is_v4() ? AF_INET : AF_INET6;
}

socklen_t write_address(const SocketAddress& from, sockaddr_storage& out) {
  if (from.address.is_v4()) {
    auto* address = reinterpret_cast<sockaddr_in*>(&out);
    address->sin_family = AF_INET;
    address->sin_port = htons(from.port);
    std::memcpy(&address->sin_addr, from.address.raw.data() + 12, 4);
    return sizeof(*address);
  }
  auto* address = reinterpret_cast<sockaddr_in6*>(&out);
  address->sin6_family = AF_INET6;
  address->sin6_port = htons(from.port);
  std::memcpy(&address->sin6_addr, from.address.raw.data(), 16);
  return sizeof(*address);
}

SocketAddress read_address(const sockaddr_storage& raw) {
  if (raw.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(raw);
    return {IpAddress::v4(ntohl(address.sin_addr.s_addr)), ntohs(address.sin_port)};
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(raw);
  std::array<uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
  return {IpAddress::v6(bytes), ntohs(address.sin6_port)};
}

}  // namespace cw::control
