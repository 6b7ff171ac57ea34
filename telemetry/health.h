// Is the gateway alive, and should it be given work? For probes of an orchestrator or a load balancer; /healthz and /readyz.
//
// Alive: every poll core turns. What is not alive does not recover by itself and wants a restart.
// Ready: alive, listening, not draining, and no backend is down: has no server that is up, or refused the last
// connection. A restart would not fix that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cw::telemetry {

struct HealthFacts {
  std::optional<uint32_t> silent_lcore;  // a poll core that did not answer
  bool started = false;                  // listening
  bool draining = false;
  std::vector<std::string> backends_down;
};

struct Health {
  bool live = false;
  bool ready = false;
  std::string reason;  // why not alive or not ready, all causes; empty = both
};

[[nodiscard]] Health judge_health(const HealthFacts& facts);

class HealthSource {
 public:
  virtual ~HealthSource() = default;
  [[nodiscard]] virtual Health health() const = 0;
};

}  // namespace cw::telemetry
