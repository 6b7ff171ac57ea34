#include "telemetry/health.h"

#include <fmt/core.h>

namespace cw::telemetry {

Health judge_health(const HealthFacts& facts) {
  Health health;
  health.live = !facts.silent_lcore;
  health.ready = health.live && facts.started && !facts.draining && facts.backends_down.empty();
  const auto add = [&health](const std::string& cause) { health.reason += (health.reason.empty() ? "" : "; ") + cause; };
  if (facts.silent_lcore) {
    add(fmt::format("the poll core on CPU {} does not turn", *facts.silent_lcore));
  }
  if (facts.draining) {
    add("draining: new connections are refused");
  } else if (!facts.started) {
    add("not listening yet");
  }
  for (const std::string& name : facts.backends_down) {
    add(fmt::format("backend {} is down", name));
  }
  return health;
}

}  // namespace cw::telemetry
