// SocketAddress as the socket calls take it and give it.
#pragma once

#include <sys/socket.h>

#include "control/config/ip_text.h"

namespace cw::control {

[[nodiscard]] int family_of(const IpAddress& address);
// Returns how many bytes of `out` it takes.
socklen_t write_address(const SocketAddress& from, sockaddr_storage& out);
[[nodiscard]] SocketAddress read_address(const sockaddr_storage& raw);

}  // namespace cw::control
