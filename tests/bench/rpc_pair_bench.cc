// RPCs through a client's and a gateway's whole stack in one thread, nothing left out but the NIC: iCRC made and verified on
// every packet, ACKs sent, every answer checked by status and length and one in 64 in full.
//
//   rpc_pair_bench [--repeats N] [--calls N] [--only PREFIX] [--json FILE]
//   rpc_pair_bench --steady CASE --calls N      these calls and nothing else, by a clock of their own: for instructions.py
//
// --express no: without the express paths, on both ends.
//
// Bulk stands next to a bound (copy_crc_bound.h), measured between the repeats: answers next to copy and CRC, arguments next to
// the CRC alone, since the gateway checks them where they lie. The wire copies what a NIC's DMA would, in nobody's half; the
// bench program writes (SOURCE) or sums (SINK) each byte once more.
//
// A figure is the median over many short repeats, each of which is over before the scheduler can do much to it; the best and the
// quartiles are shown as well. Cycles are ticks of the TSC.
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "tests/bench/copy_crc_bound.h"
#include "tests/bench/measure.h"
#include "tests/bench/rpc_pair.h"
#include "tests/bench/still_program.h"

namespace cw::bench {
namespace {

using load::BenchProcedure;

struct Settings {
  uint32_t repeats = 101;
  uint32_t calls = 4000;  // per repeat, small RPCs; bulk repeats move as many bytes as 4000 RPCs of 4 KiB
  std::string only;
  std::string json;
  std::string steady;
  bool express = true;
};

struct Case {
  std::string name;
  BenchProcedure operation = BenchProcedure::kNull;
  uint32_t bytes = 0;
  uint32_t window = 1;
  uint32_t connections = 1;
  uint32_t path_mtu = 4096;
  gateway::BackendKind backend = gateway::BackendKind::kBuiltin;
  bool still = false;  // see still_program.h
};

// Instructions retired by this thread in user space; absent where the machine has no counter (most virtual ones).
class InstructionCounter {
 public:
  InstructionCounter() {
    perf_event_attr attributes{};
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof(attributes);
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
  }
  ~InstructionCounter() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;
  [[nodiscard]] bool present() const { return fd_ >= 0; }
  [[nodiscard]] uint64_t read() const {
    uint64_t value = 0;
    return fd_ >= 0 && ::read(fd_, &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value)) ? value : 0;
  }

 private:
  int fd_ = -1;
};

struct Outcome {
  Spread cycles;         // per RPC, both ends
  Spread server_cycles;  // per RPC, the gateway's side
  double packets = 0;    // per RPC, both directions
  double instructions = 0;
  double gigabytes_per_second = 0;  // payload, from the median
  // Bulk: payload over the gateway's share of the time, quartiles; what copy and CRC of that payload would take alone, and which
  // of them is the bound. What comes in is checked where it lies, and copied by nobody.
  Spread gateway_gigabytes;
  double copy = 0;
  double crc = 0;
  double bound = 0;
  const char* beside = "copy+CRC bound";
  bool good = false;
};

constexpr uint32_t kBulkBytes = 65536;
// About 2 ms. No turn takes so long by itself: one that did was interrupted by somebody else's work, and its time is left out.
constexpr uint64_t kInterruptedCycles = 5'000'000;

sim::WorldOptions options_of(const Case& one, const Settings& settings, rpcrdma::Program& still) {
  sim::WorldOptions options;
  options.express = settings.express;
  options.path_mtu = one.path_mtu;
  options.backend = one.backend;
  options.load.operation = one.operation;
  options.load.bytes = one.bytes;
  options.load.window = one.window;
  options.load.connections = one.connections;
  options.load.verify_every = one.still ? 0 : 64;
  options.program = one.still ? &still : nullptr;
  options.credits = std::max(64u, one.window);
  return options;
}

Outcome run(const Case& one, const Settings& settings, const TscTime& time) {
  const InstructionCounter instructions;
  Outcome outcome;
  StillProgram still(one.still ? one.bytes : 0);
  auto pair = std::make_unique<RpcPair>(options_of(one, settings, still));
  const uint64_t calls = one.bytes < 4096 ? settings.calls : std::max<uint64_t>(4, uint64_t{settings.calls} * 4096 / one.bytes);
  if (!pair->run_calls(std::max<uint64_t>(2 * calls, 2000 / one.window))) {
    return outcome;
  }
  std::vector<double> cycles;
  std::vector<double> server_cycles;
  uint64_t all_calls = 0;
  const uint64_t packets_before = pair->to_server.packets() + pair->to_client.packets();
  uint64_t instructions_spent = 0;
  const load::LoadStats& stats = pair->peer.driver.stats();
  const Instant base = pair->now;
  const Instant begun = time.now();
  for (uint32_t repeat = 0; repeat < settings.repeats; ++repeat) {
    const uint64_t before = stats.calls;
    const uint64_t goal = before + calls;
    const uint64_t instructions_before = instructions.read();
    uint64_t spent = 0;
    uint64_t at = __rdtsc();
    while (stats.calls < goal) {
      pair->now = base + (time.now() - begun);
      pair->turn();
      const uint64_t after = __rdtsc();
      spent += after - at < kInterruptedCycles ? after - at : 0;
      at = after;
    }
    instructions_spent += instructions.read() - instructions_before;
    cycles.push_back(static_cast<double>(spent) / static_cast<double>(stats.calls - before));
    all_calls += stats.calls - before;
  }
  outcome.packets = static_cast<double>(pair->to_server.packets() + pair->to_client.packets() - packets_before) /
                    static_cast<double>(all_calls);
  outcome.instructions = static_cast<double>(instructions_spent) / static_cast<double>(all_calls);
  // The gateway's share by itself; reading the counter twice per turn would disturb the figure above.
  CopyCrcBound bound(one.path_mtu, time);
  for (uint32_t repeat = 0; repeat < std::max(settings.repeats / 4, 3u); ++repeat) {
    const uint64_t before = stats.calls;
    uint64_t spent = 0;
    while (stats.calls < before + calls) {
      pair->now = base + (time.now() - begun);
      pair->serve_client();
      pair->to_server.carry();
      const uint64_t first = __rdtsc();
      pair->serve_gateway();
      const uint64_t taken = __rdtsc() - first;
      pair->to_client.carry();
      spent += taken < kInterruptedCycles ? taken : 0;
    }
    server_cycles.push_back(static_cast<double>(spent) / static_cast<double>(stats.calls - before));
    if (one.bytes >= kBulkBytes) {
      bound.sample();
    }
  }
  outcome.cycles = spread_of(std::move(cycles));
  outcome.server_cycles = spread_of(std::move(server_cycles));
  const uint32_t moved = one.operation == BenchProcedure::kEcho ? 2 * one.bytes : one.bytes;
  outcome.gigabytes_per_second = static_cast<double>(moved) / (outcome.cycles.median * time.ns_per_cycle());
  if (bound.is_measured()) {
    const auto rate = [&](double spent) { return static_cast<double>(moved) / (spent * time.ns_per_cycle()); };
    const Spread& share = outcome.server_cycles;
    outcome.gateway_gigabytes = {rate(share.best), rate(share.high), rate(share.median), rate(share.low)};
    outcome.copy = bound.copy();
    outcome.crc = bound.crc();
    outcome.bound = one.operation == BenchProcedure::kSink ? bound.crc() : bound.bound();
    outcome.beside = one.operation == BenchProcedure::kSink ? "CRC bound" : "copy+CRC bound";
  }
  outcome.good = pair->failures() == 0;
  return outcome;
}

// [tcp_]OPERATION[BYTES[k|m]][_wWINDOW][_cCONNECTIONS][_mtuMTU]: "echo64_w4_c8", "source1m_mtu1024". read and write are source
// and sink without a program that makes the bytes up and sums them. A window of bulk is 8 calls.
std::optional<Case> case_of(const std::string& name) {
  static const std::regex kShape(
      "(tcp_)?(null|echo|source|sink|read|write)(?:([0-9]{1,4})(k|m)?)?(?:_w([0-9]{1,4}))?(?:_c([0-9]{1,4}))?"
      "(?:_mtu([0-9]{3,4}))?");
  std::smatch part;
  if (!std::regex_match(name, part, kShape)) {
    return std::nullopt;
  }
  const auto number = [&part](size_t at, uint32_t otherwise) {
    return part[at].matched ? static_cast<uint32_t>(std::stoul(part[at])) : otherwise;
  };
  Case one{.name = name};
  const std::string operation = part[2];
  one.operation = operation == "null"                            ? BenchProcedure::kNull
                  : operation == "echo"                          ? BenchProcedure::kEcho
                  : operation == "source" || operation == "read" ? BenchProcedure::kSource
                                                                 : BenchProcedure::kSink;
  one.still = operation == "read" || operation == "write";
  one.bytes = number(3, 0) << (part[4] == "m" ? 20 : part[4] == "k" ? 10 : 0);
  one.window = number(5, one.bytes < kBulkBytes / 16 ? 1 : 8);
  one.connections = number(6, 1);
  one.path_mtu = number(7, 4096);
  if (part[1].matched) {
    one.backend = gateway::BackendKind::kTcp;
  }
  return one;
}

std::vector<Case> cases() {
  std::vector<std::string> names;
  for (const char* window : {"_w1", "_w16", "_w32"}) {
    names.insert(names.end(), {std::string("null") + window, std::string("echo64") + window});
  }
  names.insert(names.end(), {"echo64_w4_c8", "tcp_echo64_w32"});
  for (const char* mtu : {"_mtu1024", "_mtu4096"}) {
    for (const std::string bytes : {"64k", "1m"}) {
      for (const std::string operation : {"source", "read", "sink", "write"}) {
        names.push_back(operation + bytes + mtu);
      }
    }
  }
  std::vector<Case> list;
  list.reserve(names.size());
  for (const std::string& name : names) {
    list.push_back(case_of(name).value());
  }
  return list;
}

bool parse(int count, char** words, Settings& settings) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string key = words[i];
    if (key == "--repeats") {
      settings.repeats = static_cast<uint32_t>(std::max(1l, std::strtol(words[i + 1], nullptr, 10)));
    } else if (key == "--calls") {
      settings.calls = static_cast<uint32_t>(std::max(1l, std::strtol(words[i + 1], nullptr, 10)));
    } else if (key == "--only") {
      settings.only = words[i + 1];
    } else if (key == "--json") {
      settings.json = words[i + 1];
    } else if (key == "--steady") {
      settings.steady = words[i + 1];
    } else if (key == "--express") {
      settings.express = std::string(words[i + 1]) != "no";
    } else {
      return false;
    }
  }
  return count % 2 == 1;
}

int run_steady(const Settings& settings) {
  const std::optional<Case> one = case_of(settings.steady);
  if (!one) {
    std::fprintf(stderr, "rpc_pair_bench: %s is no case; one is \"echo64_w4_c8\", another \"source1m_mtu1024\"\n",
                 settings.steady.c_str());
    return 2;
  }
  StillProgram still(one->still ? one->bytes : 0);
  RpcPair pair(options_of(*one, settings, still));
  const bool good = pair.run_calls(settings.calls) && pair.failures() == 0;
  std::printf("%" PRIu64 " calls, %" PRIu64 " packets, %" PRId64 " turns\n", pair.peer.driver.stats().calls,
              pair.to_server.packets() + pair.to_client.packets(), (pair.now - Instant::from_ns(1'000'000'000)).to_us());
  return good ? 0 : 1;
}

int main_of(int count, char** words) {
  Settings settings;
  if (!parse(count, words, settings)) {
    std::fputs(
        "usage: rpc_pair_bench [--repeats N] [--calls N] [--only PREFIX] [--json FILE]\n"
        "       rpc_pair_bench --steady CASE --calls N\n"
        "       with either: --express no\n",
        stderr);
    return 2;
  }
  if (!settings.steady.empty()) {
    return run_steady(settings);
  }
  const TscTime time;
  const bool counts = InstructionCounter().present();
  nlohmann::json rows = nlohmann::json::array();
  bool good = true;
  std::printf("%-20s %10s %22s %9s %9s %9s %9s %8s\n", "case", "cycles/RPC", "best [quartiles]", "gateway", "ns/RPC", "packets",
              counts ? "instr" : "-", "GB/s");
  for (const Case& one : cases()) {
    if (!one.name.starts_with(settings.only)) {
      continue;
    }
    const Outcome outcome = run(one, settings, time);
    good = good && outcome.good && outcome.cycles.median > 0;
    std::printf("%-20s %10.0f %6.0f [%6.0f %6.0f] %9.0f %9.0f %9.2f %9.0f %8.2f%s\n", one.name.c_str(), outcome.cycles.median,
                outcome.cycles.best, outcome.cycles.low, outcome.cycles.high, outcome.server_cycles.median,
                outcome.cycles.median * time.ns_per_cycle(), outcome.packets, outcome.instructions, outcome.gigabytes_per_second,
                outcome.good ? "" : "  WRONG ANSWERS");
    std::fflush(stdout);
    const double ns = outcome.cycles.median * time.ns_per_cycle();
    nlohmann::json figure = row("rpc_pair/" + one.name + "/cycles_per_rpc", outcome.cycles.median, "cycles", outcome.cycles);
    figure["best"] = outcome.cycles.best;
    figure["gateway"] = outcome.server_cycles.median;
    figure["gateway_spread"] = {outcome.server_cycles.low, outcome.server_cycles.high};
    figure["packets_per_rpc"] = outcome.packets;
    figure["ns_per_rpc"] = ns;
    figure["gigabytes_per_second"] = outcome.gigabytes_per_second;
    figure["good"] = outcome.good;
    rows.push_back(std::move(figure));
    if (outcome.bound > 0) {
      nlohmann::json share =
          row_beside("payload/" + one.name + "/gateway", outcome.gateway_gigabytes, "GB/s", outcome.bound, outcome.beside, true);
      share["copy"] = outcome.copy;
      share["crc"] = outcome.crc;
      share["good"] = outcome.good;
      rows.push_back(std::move(share));
      std::printf("%20s gateway's share %.2f GB/s; copy %.1f, CRC %.1f GB/s; %.2f of the %s of %.2f\n", "",
                  outcome.gateway_gigabytes.median, outcome.copy, outcome.crc, outcome.gateway_gigabytes.median / outcome.bound,
                  outcome.beside, outcome.bound);
    }
  }
  return write_rows(settings.json, rows) && good ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
