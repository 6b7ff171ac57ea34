#include "apps/sim/boundary.h"

#include <array>
#include <charconv>

namespace cw::sim {
namespace {

// How long a killed process is away: less than a timeout, so that packets of its last life still arrive.
constexpr Duration kAway = Duration::us(300);
constexpr std::array kBackends = {gateway::BackendKind::kTcp, gateway::BackendKind::kBuiltin};
constexpr std::array kOneWay = {Direction::kToGateway, Direction::kToClient};

const char* name_of(gateway::BackendKind backend) {
  return backend == gateway::BackendKind::kTcp ? "tcp" : "builtin";
}

// All points of a wire with at = 0, in the order of the runs.
std::vector<BoundaryPoint> points_of(Wires wires, gateway::BackendKind backend) {
  std::vector<BoundaryPoint> points;
  for (const FaultKind kind : boundary_kinds()) {
    points.push_back({.wires = wires, .backend = backend, .kind = kind});
  }
  if (wires == Wires::kIwarp) {
    for (const FaultKind kind : byte_boundary_kinds()) {
      for (const Direction direction : kOneWay) {
        points.push_back({.wires = wires, .backend = backend, .kind = kind, .direction = direction});
      }
    }
  }
  return points;
}

// How many places there are for such a point in a run.
uint64_t places_of(const BoundaryPoint& point, const RunResult& undisturbed) {
  if (is_stream_fault(point.kind)) {
    return undisturbed.stream_bytes[point.direction == Direction::kToGateway ? 0 : 1];
  }
  return point.wires == Wires::kIwarp ? undisturbed.segments : undisturbed.frames;
}

class Boundaries {
 public:
  Boundaries(Coverage& coverage, uint64_t step) : coverage_(coverage), step_(step) {}

  void run_wire(Wires wires) {
    for (const gateway::BackendKind backend : kBackends) {
      const RunResult undisturbed = run_at({.wires = wires, .backend = backend});
      report_.frames += undisturbed.frames;
      report_.segments += undisturbed.segments;
      report_.bytes += undisturbed.stream_bytes[0] + undisturbed.stream_bytes[1];
      for (BoundaryPoint point : points_of(wires, backend)) {
        const uint64_t places = places_of(point, undisturbed);
        for (point.at = 1; point.at <= places; point.at += step_) {
          ++report_.runs;
          hash_.add(run_at(point).hash);
        }
      }
    }
  }
  BoundaryReport report() {
    report_.hash = hash_.value();
    return report_;
  }

 private:
  RunResult run_at(const BoundaryPoint& point) {
    RunResult result = run(boundary_scenario_at(point), &coverage_);
    for (const Failure& failure : result.failures) {
      report_.failures.push_back({point, failure});
    }
    return result;
  }

  Coverage& coverage_;
  uint64_t step_;
  BoundaryReport report_;
  TraceHash hash_;
};

}  // namespace

std::string BoundaryPoint::name() const {
  const char* way = direction == Direction::kBoth ? "" : direction == Direction::kToGateway ? "to_gateway:" : "to_client:";
  return std::string(wires == Wires::kIwarp ? "iwarp:" : "") + name_of(backend) + ":" + to_string(kind) + ":" + way +
         std::to_string(at);
}

std::optional<Scenario> parse_boundary(std::string_view text) {
  for (const Wires wires : {Wires::kRoce, Wires::kIwarp}) {
    for (const gateway::BackendKind backend : kBackends) {
      for (BoundaryPoint point : points_of(wires, backend)) {
        std::string prefix = point.name();
        prefix.pop_back();  // the 0
        if (!text.starts_with(prefix)) {
          continue;
        }
        const auto parsed = std::from_chars(text.data() + prefix.size(), text.data() + text.size(), point.at);
        if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
          return boundary_scenario_at(point);
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<FaultKind> boundary_kinds() {
  return {FaultKind::kDisconnect, FaultKind::kDrainGateway, FaultKind::kHandOverGateway, FaultKind::kKillGateway,
          FaultKind::kKillClient};
}

std::vector<FaultKind> byte_boundary_kinds() {
  return {FaultKind::kStreamReset, FaultKind::kStreamHalfClose};
}

Scenario boundary_scenario_at(const BoundaryPoint& point) {
  Scenario scenario = boundary_scenario(point.wires);
  scenario.seed = point.at;
  scenario.hosts.backend = point.backend;
  if (point.at > 0) {
    Fault& fault = scenario.faults.emplace_back();
    fault.kind = point.kind;
    fault.direction = point.direction;
    fault.at_frame = point.at;
    fault.until = kAway;
    fault.seed = point.at;
  }
  return scenario;
}

BoundaryReport run_boundaries(Coverage& coverage, Wires wires, uint64_t step) {
  Boundaries boundaries(coverage, step);
  for (const Wires wire : {Wires::kRoce, Wires::kIwarp}) {
    if (wires == wire || wires == Wires::kBoth) {
      boundaries.run_wire(wire);
    }
  }
  return boundaries.report();
}

}  // namespace cw::sim
