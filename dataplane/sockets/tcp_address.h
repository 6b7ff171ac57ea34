// An address and a port, and its form at the socket calls.
#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "base/ip_address.h"

namespace cw::dataplane {

struct TcpAddress {
  IpAddress address;
  uint16_t port = 0;
};

[[nodiscard]] int family_of(const IpAddress& address);
// Returns how many bytes of `out` it takes.
socklen_t write_address(const TcpAddress& from, sockaddr_storage& out);
[[nodiscard]] TcpAddress read_address(const sockaddr_storage& raw);

}  // namespace cw::dataplane
