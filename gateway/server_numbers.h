// Numbers for the servers of one backend: see lasting_numbers.h.
#pragma once

#include "control/config/ip_text.h"
#include "gateway/gateway_stats.h"
#include "gateway/lasting_numbers.h"

namespace cw::gateway {

using ServerNumbers = LastingNumbers<control::SocketAddress, kBackendServersMax>;

}  // namespace cw::gateway
