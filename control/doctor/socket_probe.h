// Whether an address and a TCP port of this host could be listened on now. Listens on nothing: it binds and closes.
#pragma once

#include <sys/socket.h>

#include "control/config/ip_text.h"
#include "control/doctor/facts.h"

namespace cw::control::doctor {

// As the system calls take it; the length of what was written.
[[nodiscard]] socklen_t fill(sockaddr_storage& out, const SocketAddress& address);

struct BindResult {
  Bind bind = Bind::kFree;
  int error = 0;  // errno of what is not free
};
// [::] stands for all addresses of both families, and is 0.0.0.0 on a host without IPv6.
[[nodiscard]] BindResult try_bind(const SocketAddress& address);

}  // namespace cw::control::doctor
