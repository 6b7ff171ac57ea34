#include "apps/sim/boundary.h"

#include <charconv>

namespace cw::sim {
namespace {

// How long a killed process is away: less than a timeout, so that packets of its last life still arrive.
constexpr Duration kAway = Duration::us(300);

const char* name_of(gateway::BackendKind backend) {
  return backend == gateway::BackendKind::kTcp ? "tcp" : "builtin";
}

}  // namespace

std::string BoundaryFailure::where() const {
  return std::string(name_of(backend)) + ":" + to_string(kind) + ":" + std::to_string(at_frame);
}

std::optional<Scenario> parse_boundary(std::string_view text) {
  for (const gateway::BackendKind backend : {gateway::BackendKind::kTcp, gateway::BackendKind::kBuiltin}) {
    for (const FaultKind kind : boundary_kinds()) {
      const std::string prefix = std::string(name_of(backend)) + ":" + to_string(kind) + ":";
      uint64_t frame = 0;
      if (text.starts_with(prefix)) {
        const auto parsed = std::from_chars(text.data() + prefix.size(), text.data() + text.size(), frame);
        if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
          return boundary_scenario_at(kind, frame, backend);
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<FaultKind> boundary_kinds() {
  return {FaultKind::kDisconnect, FaultKind::kDrainGateway, FaultKind::kKillGateway, FaultKind::kKillClient};
}

Scenario boundary_scenario_at(FaultKind kind, uint64_t at_frame, gateway::BackendKind backend) {
  Scenario scenario = boundary_scenario();
  scenario.seed = at_frame;
  scenario.hosts.backend = backend;
  if (at_frame > 0) {
    Fault& fault = scenario.faults.emplace_back();
    fault.kind = kind;
    fault.at_frame = at_frame;
    fault.until = kAway;
  }
  return scenario;
}

BoundaryReport run_boundaries(Coverage& coverage) {
  BoundaryReport report;
  TraceHash hash;
  for (const gateway::BackendKind backend : {gateway::BackendKind::kTcp, gateway::BackendKind::kBuiltin}) {
    const RunResult undisturbed = run(boundary_scenario_at(FaultKind::kDisconnect, 0, backend), &coverage);
    report.frames += undisturbed.frames;
    for (const Failure& failure : undisturbed.failures) {
      report.failures.push_back({backend, FaultKind::kDisconnect, 0, failure});
    }
    for (const FaultKind kind : boundary_kinds()) {
      for (uint64_t frame = 1; frame <= undisturbed.frames; ++frame) {
        const RunResult result = run(boundary_scenario_at(kind, frame, backend), &coverage);
        ++report.runs;
        hash.add(result.hash);
        for (const Failure& failure : result.failures) {
          report.failures.push_back({backend, kind, frame, failure});
        }
      }
    }
  }
  report.hash = hash.value();
  return report;
}

}  // namespace cw::sim
