// The client side of the admin socket: one request, one JSON answer.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/ctl/output.h"

namespace cw::control {

struct AdminReply {
  nlohmann::ordered_json answer;   // an object, without a refusal
  std::optional<Refusal> refusal;  // why there is no answer
};

// Connects to `socket_path`, sends the request, waits up to 5 s for the answer. Blocks. file: an open file that goes with the
// request, -1 for none.
[[nodiscard]] AdminReply ask_gateway(const std::string& socket_path, const nlohmann::ordered_json& request, int file = -1);

}  // namespace cw::control
