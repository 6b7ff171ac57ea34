// causeway-sim: the deterministic simulation as a program. See apps/sim/README.md.
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "apps/sim/boundary.h"
#include "apps/sim/goodput.h"
#include "apps/sim/isolation.h"
#include "apps/sim/report.h"
#include "apps/sim/script_run.h"
#include "apps/sim/shrinker.h"
#include "apps/sim/sweep.h"

namespace cw::sim {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kAllKinds = "all";
constexpr uint32_t kShrunkMax = 5;  // failing seeds of a sweep that are shrunk

struct Arguments {
  Variant variant;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  uint32_t jobs = 1;
  std::string keep;
  std::string pcap;
  std::string trace;
  std::string boundary_at;
  std::string goodput_check;
  std::optional<std::string> isolation;
  std::string reorder_check;
  std::optional<std::string> script;
  ScriptWork script_work;
  bool goodput = false;
  bool reorder = false;
  bool scenario = false;
  bool boundary = false;
  bool no_shrink = false;
  bool coverage = false;
  bool json = false;
};

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

int run_one(const Arguments& arguments, const Scenario& scenario, const std::string& command) {
  Variant variant(scenario.wires);
  variant.express = scenario.hosts.express;
  set_current_seed(scenario.seed, variant);
  std::optional<test::PcapFile> pcap;
  FabricTaps taps;
  if (!arguments.pcap.empty()) {
    pcap.emplace(arguments.pcap);
    taps.pcap = &*pcap;
  }
  std::FILE* const trace = arguments.trace.empty()  ? nullptr
                           : arguments.trace == "-" ? stdout
                                                    : std::fopen(arguments.trace.c_str(), "w");
  if ((!arguments.trace.empty() && trace == nullptr) || (pcap && !pcap->ok())) {
    std::fprintf(stderr, "causeway-sim: cannot write %s\n", trace == nullptr ? arguments.trace.c_str() : arguments.pcap.c_str());
    return 2;
  }
  taps.trace = trace;
  Coverage coverage;
  const RunResult result = run(scenario, &coverage, taps);
  if (trace != nullptr && trace != stdout) {
    (void)std::fclose(trace);
  }
  print_run(scenario, result, coverage, {.json = arguments.json, .coverage = arguments.coverage});
  if (result.passed()) {
    return 0;
  }
  report_failure(scenario, result.failures, command, !arguments.no_shrink && arguments.keep.empty());
  return 1;
}

int run_sweep(const Arguments& arguments) {
  const auto start = SteadyClock::now();
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  SweepProgress progress;
  auto last = start;
  const auto tick = [&] {
    if (on_terminal && SteadyClock::now() - last > std::chrono::milliseconds(200)) {
      last = SteadyClock::now();
      const uint64_t done = progress.done;
      std::fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failed, %.0f seeds/s ", done, arguments.seeds,
                   progress.failed.load(), static_cast<double>(done) / seconds_since(start));
    }
  };
  const SweepReport report = sweep(arguments.seed, arguments.seeds, arguments.jobs, progress, tick, arguments.variant);
  if (on_terminal) {
    std::fprintf(stderr, "\r\033[K");
  }
  print_sweep(arguments.seed, report, seconds_since(start), {.json = arguments.json, .coverage = arguments.coverage});
  for (size_t i = 0; i < report.failures.size(); ++i) {
    const SeedFailure& failure = report.failures[i];
    report_failure(draw_scenario(failure.seed, arguments.variant), failure.failures, command_of(failure.seed, arguments.variant),
                   !arguments.no_shrink && i < kShrunkMax);
  }
  return report.failures.empty() ? 0 : 1;
}

int run_every_boundary(const Arguments& arguments) {
  const auto start = SteadyClock::now();
  Coverage coverage;
  const BoundaryReport report = run_boundaries(coverage, arguments.variant.wires);
  print_boundaries(report, coverage, seconds_since(start), {.json = arguments.json, .coverage = arguments.coverage});
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

int run_fault_script(const Arguments& arguments) {
  std::string error;
  const std::optional<FaultScript> script = parse_script(*arguments.script, error);
  if (!script) {
    std::fprintf(stderr, "causeway-sim: --script: %s\n", error.c_str());
    return 2;
  }
  const auto stranger = std::find_if(script->begin(), script->end(),
                                     [&](const ScriptEvent& event) { return event.qp >= arguments.script_work.qps; });
  if (stranger != script->end()) {
    std::fprintf(stderr, "causeway-sim: --script: there is no qp %u; --qps says how many there are\n", stranger->qp);
    return 2;
  }
  const ScriptOutcome outcome = run_script(arguments.script_work, *script);
  std::fputs(describe(arguments.script_work, *script, outcome).c_str(), stdout);
  return passed(outcome) ? 0 : 1;
}

void add_script_options(CLI::App& app, ScriptWork& work) {
  // CLI11 would print the bytes of an enumeration in the help.
  const std::map<std::string, StreamKind> works{
      {"send", StreamKind::kSend}, {"write", StreamKind::kWrite}, {"read", StreamKind::kRead}};
  const std::map<std::string, PeerKind> peers{{"standard", PeerKind::kStandard}, {"causeway", PeerKind::kCauseway}};
  app.add_option_function<std::string>(
         "--work", [&work, works](const std::string& name) { work.work = works.at(name); },
         "of --script: what each connection does")
      ->check(CLI::IsMember({"send", "write", "read"}));
  app.add_option_function<std::string>(
         "--peer", [&work, peers](const std::string& name) { work.peer = peers.at(name); }, "of --script: whom it talks to")
      ->check(CLI::IsMember({"standard", "causeway"}));
  app.add_option("--size", work.message_bytes, "of --script: bytes of a message")
      ->check(CLI::Range(1u, ScriptWork::kMessageBytesMax))
      ->capture_default_str();
  app.add_option("--mtu", work.mtu_bytes, "of --script: payload bytes of a packet")
      ->check(CLI::IsMember({256u, 512u, 1024u, 2048u, 4096u}))
      ->capture_default_str();
  app.add_option("--qps", work.qps, "of --script: connections")->check(CLI::Range(1u, ScriptWork::kQpMax))->capture_default_str();
}

int main_of(const Arguments& arguments) {
  announce_seed_on_abort();
  if (arguments.script) {
    return run_fault_script(arguments);
  }
  if (arguments.goodput || !arguments.goodput_check.empty()) {
    return run_goodput(measure_goodput_table(), arguments.goodput_check);
  }
  if (arguments.reorder || !arguments.reorder_check.empty()) {
    return run_goodput(measure_reorder_table(), arguments.reorder_check);
  }
  if (arguments.isolation) {
    return run_isolation(*arguments.isolation);
  }
  if (arguments.boundary) {
    return run_every_boundary(arguments);
  }
  if (!arguments.boundary_at.empty()) {
    const auto scenario = parse_boundary(arguments.boundary_at);
    if (!scenario) {
      std::fprintf(stderr, "causeway-sim: --boundary-at takes what --boundary prints, as in tcp:kill_gateway:17\n");
      return 2;
    }
    return run_one(arguments, *scenario, "causeway-sim --boundary-at " + arguments.boundary_at);
  }
  if (arguments.seeds > 1) {
    return run_sweep(arguments);
  }
  Scenario scenario = draw_scenario(arguments.seed, arguments.variant);
  if (!arguments.keep.empty()) {
    std::vector<KeptFault> kept;
    if (!parse_kept(arguments.keep, kept)) {
      std::fprintf(stderr, "causeway-sim: --keep takes fault numbers such as 3,5/4 or none\n");
      return 2;
    }
    scenario = keep(scenario, kept);
  }
  if (arguments.scenario) {
    std::fputs(describe(scenario).c_str(), stdout);
    return 0;
  }
  return run_one(arguments, scenario, command_of(arguments.seed, arguments.variant));
}

}  // namespace
}  // namespace cw::sim

int main(int argc, char** argv) {
  cw::sim::Arguments arguments;
  CLI::App app{
      "Runs gateways and clients of Causeway in memory, under a simulated clock and faults drawn from a seed,\n"
      "and checks that no call is lost, doubled or damaged, that nothing leaks and that everything ends.\n"
      "\n"
      "  causeway-sim --seed 7                 one run; the same trace hash every time, on every machine\n"
      "  causeway-sim --seed 1 --seeds 2000    a sweep; exit status 1 if a seed failed\n"
      "  causeway-sim --seed 7 --scenario      what seed 7 is made of\n"
      "  causeway-sim --seed 7 --pcap 7.pcap   every frame that arrived, for Wireshark\n"
      "  causeway-sim --boundary               disconnects and kills at every packet of a small run\n"
      "  causeway-sim --script 'qp 0 out psn +40 #1 drop' --work write --peer standard",
      "causeway-sim"};
  app.set_version_flag("--version", CAUSEWAY_VERSION);
  app.add_option("--seed", arguments.seed, "the run, or the first run of a sweep")->capture_default_str();
  app.add_option("--seeds", arguments.seeds, "so many runs, with consecutive seeds")->capture_default_str();
  app.add_option_function<std::string>(
         "--wires",
         [&arguments](const std::string& name) {
           using cw::sim::Wires;
           arguments.variant.wires = name == "roce" ? Wires::kRoce : name == "iwarp" ? Wires::kIwarp : Wires::kBoth;
         },
         "what clients connect over, of a run, a sweep or --boundary: roce, iwarp, or both to one gateway (roce)")
      ->check(CLI::IsMember({"roce", "iwarp", "both"}));
  app.add_flag_callback(
      "--no-express", [&arguments] { arguments.variant.express = false; },
      "all hosts take the general paths alone; the hash must be the same");
  app.add_option("--jobs", arguments.jobs, "threads of a sweep; the result does not depend on it")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--keep", arguments.keep, "only these faults of the seed, as the shrinker prints them: 3,5/4 or none");
  app.add_option("--pcap", arguments.pcap, "write every frame that arrives to a capture file (one run)");
  app.add_option("--trace", arguments.trace, "write one line per event to a file, or - for standard output (one run)");
  app.add_option("--boundary-at", arguments.boundary_at, "one run of --boundary, as it prints them: tcp:kill_gateway:17");
  app.add_flag("--scenario", arguments.scenario, "print what the seed is made of, and run nothing");
  app.add_flag("--boundary", arguments.boundary, "break something at every packet, or at every byte of a stream, of a small run");
  app.add_flag("--goodput", arguments.goodput, "measure goodput of one connection by loss rate and window");
  app.add_option("--goodput-check", arguments.goodput_check,
                 "the same, compared with a golden table; exit status 1 if it differs");
  app.add_option(
      "--isolation", arguments.isolation,
      "rates and waits of honest clients beside a kind of hostile peers, or beside each (all); exit status 1 if one suffers");
  app.add_flag("--goodput-reorder", arguments.reorder, "measure goodput of one connection by what disorders its packets");
  app.add_option("--goodput-reorder-check", arguments.reorder_check,
                 "the same, compared with a golden table; exit status 1 if it differs");
  app.add_option("--script", arguments.script,
                 "a little work under a fault script, what each event cost, and the counters beside the wire; exit status 1 if\n"
                 "it did not end well: 'qp 0 out psn +40 #1 drop; qp 0 in ack +47 behind 3' (apps/sim/link/script.h)");
  cw::sim::add_script_options(app, arguments.script_work);
  app.add_flag("--no-shrink", arguments.no_shrink, "do not look for the smallest list of faults that still fails");
  app.add_flag("--coverage", arguments.coverage, "list every event of the protocols and how often it was seen");
  app.add_flag("--json", arguments.json, "print the report as JSON");
  CLI11_PARSE(app, argc, argv);
  // Worlds come and go by the thousand: keep their memory.
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
  (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return cw::sim::main_of(arguments);
}
