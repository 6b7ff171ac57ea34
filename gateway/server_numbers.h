// Numbers for the servers of one backend: see stable_ids.h.
#pragma once

#include "control/config/ip_text.h"
#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

using ServerNumbers = StableIds<control::SocketAddress, kBackendServersMax>;

}  // namespace cw::gateway
