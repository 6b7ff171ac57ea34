// The client side of the admin socket: one request, one JSON answer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cw::control {

struct AdminReply {
  nlohmann::ordered_json answer;  // an object, when `problem` is empty
  std::string problem;            // one sentence for the user, with what to do next
};

// Connects to `socket_path`, sends {"command": command, "prefix": prefix}, waits up to 5 s for the answer. Blocks.
[[nodiscard]] AdminReply ask_gateway(const std::string& socket_path, const std::string& command, const std::string& prefix);

}  // namespace cw::control
