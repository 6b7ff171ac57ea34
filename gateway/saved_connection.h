// A connection of the gateway as bytes, for the process that follows this one. What the wire has to know of it is the wire's
// (verbs::Transport::save); the rest is here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "gateway/connection.h"

namespace cw::gateway {

struct SavedConnection {
  uint32_t transport = 0;  // ListenerOptions::transport
  uint16_t listener_port = 0;
  IpAddress peer;
  uint16_t peer_port = 0;
  rpcrdma::InlineThresholds thresholds;
  uint32_t receive_bytes_max = 0;  // what the client was told that it may send
  uint32_t credits = 0;            // calls that it may have in flight, by what it was granted last: at least 1
  Bytes wire;                      // of verbs::Transport::save
};

// False, and nothing is written: something is under way still (verbs::Transport::save). Precondition: it has an endpoint.
[[nodiscard]] bool save(Connection& connection, std::vector<uint8_t>& out);
// nullopt: it is something else. `wire` points into `bytes`.
[[nodiscard]] std::optional<SavedConnection> parse_saved_connection(Bytes bytes);

}  // namespace cw::gateway
