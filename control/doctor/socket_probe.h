// Whether an address and a TCP port of this host could be listened on now. Listens on nothing: it binds and closes.
#pragma once

#include "control/config/ip_text.h"
#include "control/doctor/facts.h"

namespace cw::control::doctor {

struct BindResult {
  Bind bind = Bind::kFree;
  int error = 0;  // errno of what is not free
};
// [::] stands for all addresses of both families, and is 0.0.0.0 on a host without IPv6.
[[nodiscard]] BindResult try_bind(const SocketAddress& address);

}  // namespace cw::control::doctor
