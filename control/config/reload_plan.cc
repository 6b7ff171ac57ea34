#include "control/config/reload_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "control/config/config_changes.h"
#include "control/config/config_check.h"

namespace cw::control {

ReloadPlan ReloadPlanner::plan(const Config& running, const LoadedConfig& loaded, const std::string& file) const {
  ReloadPlan plan{with_live_changes(running, loaded.config), 0, {}};
  ParsedConfig parsed;
  parsed.config = plan.config;
  parsed.file = file;
  parsed.positions = loaded.positions;
  for (Problem& problem : config_check(parsed)) {
    if (problem.severity == Severity::kError) {
      problem.suggestion += "; or restart: what a reload cannot change still has its old value here";
      plan.problems.push_back(std::move(problem));
    }
  }
  const uint64_t reserved = reserved_buffers(peak_with(plan.config), running.limits.connections_max);
  const BufferPlan wanted = plan_buffers(plan.config);
  const uint64_t others = uint64_t{wanted.pulled_min} + start_.held_max;
  if (plan.problems.empty() && reserved + others > start_.shared) {
    SourcePosition at;
    if (const auto found = loaded.positions.find("dataplane.rx_buffers"); found != loaded.positions.end()) {
      at = found->second;
    }
    plan.problems.push_back(
        {file, at.line, at.column, "dataplane.rx_buffers",
         fmt::format("{} cannot back {} buffers besides {} for the data of calls and for packets out of order: "
                     "connections from before keep the credits and inline sizes that they began with",
                     running.dataplane.rx_buffers, reserved, others),
         "change the listeners' credits, inline_bytes and connections_max, and limits.call_bytes_max, by less, or restart"});
  }
  if (plan.problems.empty()) {
    // The pools keep the size that they had at the start, so the data of calls gets what reservations leave.
    plan.pulled_max = static_cast<uint32_t>(std::min<uint64_t>(wanted.pulled_max, start_.shared - start_.held_max - reserved));
  }
  return plan;
}

void ReloadPlanner::on_applied(const Config& config) {
  peak_ = peak_with(config);
}

std::vector<BufferDemand> ReloadPlanner::peak_with(const Config& config) const {
  std::vector<BufferDemand> peak = buffer_demands(config);
  for (const BufferDemand& before : peak_) {
    const auto found = std::ranges::find(peak, before.listener, &BufferDemand::listener);
    if (found == peak.end()) {
      peak.push_back(before);  // it is gone, its connections are not
      continue;
    }
    found->buffers_each = std::max(found->buffers_each, before.buffers_each);
    found->connections_max = std::max(found->connections_max, before.connections_max);
  }
  return peak;
}

}  // namespace cw::control
