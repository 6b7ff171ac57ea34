// What is known of the servers of backends by checking them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "control/service/server_health.h"

namespace cw::control {

struct ServerCheck {
  uint32_t backend = 0;  // its number (gateway::BackendIds)
  uint32_t server = 0;   // its number (gateway::ServerIds)
  std::string backend_name;
  std::string address;
  control::ServerState state = control::ServerState::kUnknown;
  bool checked = false;  // false: its backend's check is off
  uint64_t checks = 0;   // ended
  uint64_t failures = 0;
  Duration last_duration;  // of the last check
  std::string last_error;  // of the last check; empty: it succeeded
  Instant last_ended;      // the last check, by the monotonic clock
  uint32_t rank = 0;       // among the backend's servers, in order of preference: 0 is the first
  bool removed = false;    // by a reload: it gets no new connections
};

class ServerChecks {
 public:
  virtual ~ServerChecks() = default;
  // Any thread. All servers of all TCP backends, of each in order of preference; behind them those that have been removed.
  [[nodiscard]] virtual std::vector<ServerCheck> server_checks() const = 0;
};

}  // namespace cw::control
