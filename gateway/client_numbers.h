// Numbers for the classes of clients, by their names: see lasting_numbers.h. Connections count in the class that they began in.
#pragma once

#include <string>

#include "gateway/gateway_stats.h"
#include "gateway/lasting_numbers.h"

namespace cw::gateway {

using ClientNumbers = LastingNumbers<std::string, kClientNumbersMax>;

}  // namespace cw::gateway
