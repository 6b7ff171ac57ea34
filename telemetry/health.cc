#include "telemetry/health.h"

#include <fmt/core.h>

namespace cw::telemetry {

Health judge_health(const HealthFacts& facts) {
  Health health;
  const bool is_cut_off = !facts.links_down.empty() && !facts.has_other_ways;
  health.live = !facts.silent_lcore;
  health.ready =
      health.live && facts.started && !facts.draining && facts.backends_down.empty() && !is_cut_off && facts.cut_off.empty();
  const auto add = [&health](const std::string& cause) { health.reason += (health.reason.empty() ? "" : "; ") + cause; };
  if (facts.silent_lcore) {
    add(fmt::format("the poll core on CPU {} does not turn", *facts.silent_lcore));
  }
  if (facts.draining) {
    add("draining: new connections are refused");
  } else if (!facts.started) {
    add("not listening yet");
  }
  for (const CutOff& each : facts.cut_off) {
    add(fmt::format("no client reaches listener {}: {}", each.listener, each.why));
  }
  health.cut_off = facts.cut_off;
  for (const std::string& name : facts.backends_down) {
    add(fmt::format("backend {} is down", name));
  }
  for (const std::string& device : facts.links_down) {
    const std::string what = fmt::format("the link of {} is down", device);
    if (is_cut_off) {
      add(what);
    } else {
      health.warnings.push_back(what);
    }
  }
  for (const std::string& server : facts.servers_down) {
    health.warnings.push_back(fmt::format("server {} is down", server));
  }
  if (facts.reload_failed) {
    health.warnings.emplace_back("the last reload was refused: the gateway runs with the configuration before; the log says why");
  }
  return health;
}

std::string to_text(const Health& health) {
  std::string text = health.reason.empty() ? "ok" : health.reason;
  for (const std::string& warning : health.warnings) {
    text += "; " + warning;
  }
  return text;
}

}  // namespace cw::telemetry
