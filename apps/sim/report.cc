#include "apps/sim/report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace cw::sim {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(uint64_t hash) {
  char text[20];
  (void)std::snprintf(text, sizeof(text), "%016" PRIx64, hash);
  return text;
}

void print_coverage(const Coverage& coverage, bool all) {
  uint64_t known = 0;
  uint64_t reached = 0;
  std::vector<std::string> never;
  for (const Coverage::Event& event : coverage.events()) {
    if (event.needs_wrong_peer && event.count == 0) {
      continue;
    }
    ++known;
    reached += event.count > 0 ? 1 : 0;
    if (event.count == 0) {
      never.push_back(event.name);
    }
    if (all) {
      std::printf("  %12" PRIu64 " %s\n", event.count, event.name.c_str());
    }
  }
  std::printf("coverage: %" PRIu64 " of %" PRIu64 " events that honest peers can cause\n", reached, known);
  if (!never.empty()) {
    std::printf("never seen:");
    for (const std::string& name : never) {
      std::printf(" %s", name.c_str());
    }
    std::printf("\n");
  }
}

Json json_of(const Coverage& coverage) {
  Json out = Json::object();
  for (const Coverage::Event& event : coverage.events()) {
    out[event.name] = event.count;
  }
  return out;
}

Json json_of(const std::vector<Failure>& failures) {
  Json out = Json::array();
  for (const Failure& failure : failures) {
    out.push_back({{"oracle", to_string(failure.oracle)}, {"what", failure.what}});
  }
  return out;
}

double rate(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

void print_run(const Scenario& scenario, const RunResult& result, const Coverage& coverage, const ReportOptions& options) {
  if (options.json) {
    const Json out = {{"seed", scenario.seed},
                      {"passed", result.passed()},
                      {"hash", hex(result.hash)},
                      {"frames", result.frames},
                      {"segments", result.segments},
                      {"attempts", result.attempts},
                      {"simulated_us", result.simulated.to_us()},
                      {"failures", json_of(result.failures)},
                      {"coverage", json_of(coverage)}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  const std::string segments = scenario.wires == Wires::kRoce ? "" : std::to_string(result.segments) + " segments, ";
  std::printf("seed %" PRIu64 ": %s, trace hash %s, %" PRIu64 " frames, %s%" PRIu64 " call attempts, %.3f s simulated\n",
              scenario.seed, result.passed() ? "passed" : "FAILED", hex(result.hash).c_str(), result.frames, segments.c_str(),
              result.attempts, result.simulated.to_seconds());
  if (options.coverage) {
    print_coverage(coverage, true);
  }
}

void print_sweep(uint64_t first_seed, const SweepReport& report, double seconds, const ReportOptions& options) {
  const double hours = report.simulated.to_seconds() / 3600;
  if (options.json) {
    Json failed = Json::array();
    for (const SeedFailure& failure : report.failures) {
      failed.push_back({{"seed", failure.seed}, {"failures", json_of(failure.failures)}});
    }
    const Json out = {{"first_seed", first_seed},
                      {"seeds", report.seeds},
                      {"failed", report.failures.size()},
                      {"hash", hex(report.hash)},
                      {"frames", report.frames},
                      {"segments", report.segments},
                      {"attempts", report.attempts},
                      {"simulated_hours", hours},
                      {"wall_seconds", seconds},
                      {"seeds_per_second", rate(report.seeds, seconds)},
                      {"failures", failed},
                      {"coverage", json_of(report.coverage)}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  std::printf("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " passed, %zu failed, sweep hash %s\n", first_seed,
              first_seed + report.seeds - 1, report.seeds - report.failures.size(), report.failures.size(),
              hex(report.hash).c_str());
  const std::string segments = report.segments == 0 ? "" : std::to_string(report.segments) + " segments, ";
  std::printf("%.1f s: %.0f seeds/s, %.0f simulated hours per wall hour; %" PRIu64 " frames, %s%" PRIu64 " call attempts\n",
              seconds, rate(report.seeds, seconds), seconds > 0 ? hours * 3600 / seconds : 0, report.frames, segments.c_str(),
              report.attempts);
  print_coverage(report.coverage, options.coverage);
}

void print_boundaries(const BoundaryReport& report, const Coverage& coverage, double seconds, const ReportOptions& options) {
  if (options.json) {
    Json failed = Json::array();
    for (const BoundaryFailure& failure : report.failures) {
      failed.push_back(
          {{"where", failure.point.name()}, {"oracle", to_string(failure.failure.oracle)}, {"what", failure.failure.what}});
    }
    const Json out = {{"frames", report.frames}, {"segments", report.segments},  {"bytes", report.bytes},
                      {"runs", report.runs},     {"hash", hex(report.hash)},     {"wall_seconds", seconds},
                      {"failures", failed},      {"coverage", json_of(coverage)}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  const std::string streams = report.bytes == 0 ? ""
                                                : " and " + std::to_string(report.bytes) + " bytes of streams in " +
                                                      std::to_string(report.segments) + " segments";
  std::printf("every packet boundary: %" PRIu64 " runs over %" PRIu64 " packets%s, %zu failed, hash %s, %.1f s\n", report.runs,
              report.frames, streams.c_str(), report.failures.size(), hex(report.hash).c_str(), seconds);
  if (options.coverage) {
    print_coverage(coverage, true);
  }
}

}  // namespace cw::sim
