#include "apps/sim/sim_modes.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "apps/sim/boundary.h"
#include "apps/sim/goodput.h"
#include "apps/sim/isolation.h"
#include "apps/sim/report.h"
#include "apps/sim/shrinker.h"
#include "apps/sim/sweep.h"

namespace cw::sim {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kAllKinds = "all";
constexpr uint32_t kShrunkMax = 5;  // failing seeds of a sweep that are shrunk

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// The same oracle speaks: another failure is another matter.
std::vector<KeptFault> shrink_failure(const Scenario& scenario, Oracle oracle, uint32_t& runs) {
  const Shrunk shrunk = shrink(scenario, [&](const Scenario& candidate) {
    const RunResult result = run(candidate);
    return !result.passed() && result.failures.front().oracle == oracle;
  });
  runs = shrunk.runs;
  return shrunk.kept;
}

void report_failure(const Scenario& scenario, const std::vector<Failure>& failures, const std::string& command, bool shrinks) {
  std::fprintf(stderr, "FAILED: %s\n", command.c_str());
  for (const Failure& failure : failures) {
    std::fprintf(stderr, "  %s: %s\n", to_string(failure.oracle), failure.what.c_str());
  }
  if (!shrinks || scenario.faults.empty()) {
    return;
  }
  uint32_t runs = 0;
  const std::vector<KeptFault> kept = shrink_failure(scenario, failures.front().oracle, runs);
  std::fprintf(stderr, "  shrunk in %u runs to: %s --keep %s\n", runs, command.c_str(), to_string(kept).c_str());
  for (const Fault& fault : keep(scenario, kept).faults) {
    std::fprintf(stderr, "    %s\n", describe(fault).c_str());
  }
}

std::string command_of(uint64_t seed, const Variant& variant) {
  return "causeway-sim --seed " + std::to_string(seed) +
         (variant.wires == Wires::kRoce ? "" : std::string(" --wires ") + to_string(variant.wires)) +
         (variant.express ? "" : " --no-express");
}

int run_one(const SimSettings& settings, const Scenario& scenario, const std::string& command) {
  Variant variant(scenario.wires);
  variant.express = scenario.hosts.express;
  set_current_seed(scenario.seed, variant);
  std::optional<test::PcapFile> pcap;
  FabricTaps taps;
  if (!settings.pcap.empty()) {
    pcap.emplace(settings.pcap);
    taps.pcap = &*pcap;
  }
  std::FILE* const trace = settings.trace.empty()  ? nullptr
                           : settings.trace == "-" ? stdout
                                                   : std::fopen(settings.trace.c_str(), "w");
  if ((!settings.trace.empty() && trace == nullptr) || (pcap && !pcap->ok())) {
    std::fprintf(stderr, "causeway-sim: cannot write %s\n", trace == nullptr ? settings.trace.c_str() : settings.pcap.c_str());
    return 2;
  }
  taps.trace = trace;
  Coverage coverage;
  const RunResult result = run(scenario, &coverage, taps);
  if (trace != nullptr && trace != stdout) {
    (void)std::fclose(trace);
  }
  print_run(scenario, result, coverage, {.json = settings.json, .coverage = settings.coverage});
  if (result.passed()) {
    return 0;
  }
  report_failure(scenario, result.failures, command, !settings.no_shrink && settings.keep.empty());
  return 1;
}

int run_sweep(const SimSettings& settings) {
  const auto start = SteadyClock::now();
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  SweepProgress progress;
  auto last = start;
  const auto tick = [&] {
    if (on_terminal && SteadyClock::now() - last > std::chrono::milliseconds(200)) {
      last = SteadyClock::now();
      const uint64_t done = progress.done;
      std::fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failed, %.0f seeds/s ", done, settings.seeds,
                   progress.failed.load(), static_cast<double>(done) / seconds_since(start));
    }
  };
  const SweepReport report = sweep(settings.seed, settings.seeds, settings.jobs, progress, tick, settings.variant);
  if (on_terminal) {
    std::fprintf(stderr, "\r\033[K");
  }
  print_sweep(settings.seed, report, seconds_since(start), {.json = settings.json, .coverage = settings.coverage});
  for (size_t i = 0; i < report.failures.size(); ++i) {
    const SeedFailure& failure = report.failures[i];
    report_failure(draw_scenario(failure.seed, settings.variant), failure.failures, command_of(failure.seed, settings.variant),
                   !settings.no_shrink && i < kShrunkMax);
  }
  return report.failures.empty() ? 0 : 1;
}

int run_every_boundary(const SimSettings& settings) {
  const auto start = SteadyClock::now();
  Coverage coverage;
  const BoundaryReport report = run_boundaries(coverage, settings.variant.wires, settings.boundary_step);
  print_boundaries(report, coverage, seconds_since(start), {.json = settings.json, .coverage = settings.coverage});
  for (const BoundaryFailure& failure : report.failures) {
    std::fprintf(stderr, "FAILED: causeway-sim --boundary-at %s\n  %s: %s\n", failure.point.name().c_str(),
                 to_string(failure.failure.oracle), failure.failure.what.c_str());
  }
  return report.failures.empty() ? 0 : 1;
}

// `golden`: a file to compare with, or empty.
int run_goodput(const std::vector<GoodputRow>& table, const std::string& golden) {
  std::fputs(to_string(table).c_str(), stdout);
  if (golden.empty()) {
    return 0;
  }
  std::ifstream file(golden);
  std::stringstream text;
  text << file.rdbuf();
  const std::vector<std::string> differences = compare_goodput(parse_goodput(text.str()), table);
  for (const std::string& difference : differences) {
    std::fprintf(stderr, "FAILED: %s\n", difference.c_str());
  }
  return differences.empty() ? 0 : 1;
}

bool run_isolation_of(HostileKind kind) {
  const std::string command = std::string("causeway-sim --isolation ") + to_string(kind);
  set_current_command(command.c_str());
  const IsolationRow row = measure_isolation(kind);
  std::fputs(to_string(row).c_str(), stdout);
  (void)std::fflush(stdout);
  if (!row.failures.empty()) {
    std::fprintf(stderr, "FAILED: %s\n", command.c_str());
  }
  for (const Failure& failure : row.failures) {
    std::fprintf(stderr, "  %s: %s\n", to_string(failure.oracle), failure.what.c_str());
  }
  return row.failures.empty();
}

int run_isolation(const std::string& name) {
  const auto only = parse_hostile_kind(name);
  if (!only && name != kAllKinds) {
    std::fprintf(stderr, "causeway-sim: --isolation takes %s or the name of a kind, as in no_receives\n", kAllKinds);
    return 2;
  }
  std::fputs(isolation_head(), stdout);
  bool passed = true;
  for (uint32_t kind = 0; kind < kHostileKindCount; ++kind) {
    const auto each = static_cast<HostileKind>(kind);
    if (only ? *only == each : !awaits_fix(each)) {
      passed = run_isolation_of(each) && passed;
    }
  }
  return passed ? 0 : 1;
}

int run_fault_script(const SimSettings& settings) {
  std::string error;
  const std::optional<FaultScript> script = parse_script(*settings.script, error);
  if (!script) {
    std::fprintf(stderr, "causeway-sim: --script: %s\n", error.c_str());
    return 2;
  }
  const auto stranger = std::find_if(script->begin(), script->end(),
                                     [&](const ScriptEvent& event) { return event.qp >= settings.script_work.qps; });
  if (stranger != script->end()) {
    std::fprintf(stderr, "causeway-sim: --script: there is no qp %u; --qps says how many there are\n", stranger->qp);
    return 2;
  }
  const ScriptOutcome outcome = run_script(settings.script_work, *script);
  std::fputs(describe(settings.script_work, *script, outcome).c_str(), stdout);
  return passed(outcome) ? 0 : 1;
}

}  // namespace

int run_mode(const SimSettings& settings) {
  announce_seed_on_abort();
  if (settings.script) {
    return run_fault_script(settings);
  }
  if (settings.goodput || !settings.goodput_check.empty()) {
    return run_goodput(measure_goodput_table(), settings.goodput_check);
  }
  if (settings.reorder || !settings.reorder_check.empty()) {
    return run_goodput(measure_reorder_table(), settings.reorder_check);
  }
  if (settings.isolation) {
    return run_isolation(*settings.isolation);
  }
  if (settings.boundary) {
    return run_every_boundary(settings);
  }
  if (!settings.boundary_at.empty()) {
    const auto scenario = parse_boundary(settings.boundary_at);
    if (!scenario) {
      std::fprintf(stderr, "causeway-sim: --boundary-at takes what --boundary prints, as in tcp:kill_gateway:17\n");
      return 2;
    }
    return run_one(settings, *scenario, "causeway-sim --boundary-at " + settings.boundary_at);
  }
  if (settings.seeds > 1) {
    return run_sweep(settings);
  }
  Scenario scenario = draw_scenario(settings.seed, settings.variant);
  if (!settings.keep.empty()) {
    std::vector<KeptFault> kept;
    if (!parse_kept(settings.keep, kept)) {
      std::fprintf(stderr, "causeway-sim: --keep takes fault numbers such as 3,5/4 or none\n");
      return 2;
    }
    scenario = keep(scenario, kept);
  }
  if (settings.scenario) {
    std::fputs(describe(scenario).c_str(), stdout);
    return 0;
  }
  return run_one(settings, scenario, command_of(settings.seed, settings.variant));
}

}  // namespace cw::sim
