// Numbers for the classes of clients, by their names: see stable_ids.h. Connections count in the class that they began in.
#pragma once

#include <string>

#include "gateway/gateway_stats.h"
#include "gateway/stable_ids.h"

namespace cw::gateway {

using ClientNumbers = StableIds<std::string, kClientNumbersMax>;

}  // namespace cw::gateway
