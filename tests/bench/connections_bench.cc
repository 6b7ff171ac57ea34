// What many connections cost: the rate with all of them active, and the memory of idle ones.
//
//   connections_bench [--repeats N] [--json FILE] [--only idle|in_turn|all]
//
//   in turn   8 calls of 64 bytes are due at a time and go to the connections in turn, so that as many calls, packets and
//             buffers are on their way with 10,000 queue pairs as with 16: what is left is the state of the queue pairs
//   all       every connection has one call in flight, all the time: the packets of 10,000 calls do not fit any cache either
//   idle      what gateway and stack take from the heap for each connection more, after it has served one call; at 100,000.
//             Tables that say how many calls or handshakes there may be at a time stay as they are
//
// Both ends are in this thread and both have that many queue pairs. The pairs of 16 and of many take turns, so that what the
// machine does in between meets both. How many lines a call misses: the time it takes longer, in units of the time that one line
// takes out of a set as large as the queue pairs'.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "dataplane/huge_tables.h"
#include "tests/bench/measure.h"
#include "tests/bench/rpc_pair.h"
#include "tests/support/alloc_guard.h"

namespace cw::bench {
namespace {

constexpr uint32_t kFew = 16;
constexpr uint32_t kDueAtOnce = 8;  // a turn receives 32 frames, and a call takes two each way
constexpr uint32_t kHalfOpen = 512;
constexpr uint32_t kCallsInFlight = 4096;
constexpr uint32_t kLineBytes = 64;
constexpr uint64_t kTurnsMax = 20'000'000;

sim::WorldOptions options_for(uint32_t connections, bool in_turn) {
  sim::WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 64;
  options.load.window = 1;
  options.load.connections = connections;
  options.load.verify_every = 64;
  options.connections_max = connections;
  options.path_mtu = 1024;
  // Among so many nobody shares an acknowledgement; 16 would share theirs, and what the rest costs could not be compared.
  options.ack_delay = Duration();
  options.packet_buffers = in_turn ? options.packet_buffers : std::max(options.packet_buffers, 4 * connections);
  // A turn takes a microsecond by the pair's clock.
  if (in_turn) {
    options.load.open_loop = load::OpenLoopOptions{
        .rate = load::Profile(1e6 * kDueAtOnce), .arrivals = load::Arrivals::kConstant, .burst = kDueAtOnce, .queue_max = 65536};
  }
  return options;
}

// Connections up, and each of them has answered twice.
bool warm_up(RpcPair& pair, uint32_t connections, bool in_turn) {
  for (uint32_t turns = 0; pair.peer.driver.connected() < connections; ++turns) {
    if (turns > kTurnsMax) {
      std::fprintf(stderr, "connections_bench: only %u of %u connections came up\n", pair.peer.driver.connected(), connections);
      return false;
    }
    pair.now = pair.now + Duration::us(1);
    pair.turn();
  }
  if (in_turn) {
    pair.peer.driver.begin(pair.now);
  }
  return pair.run_calls(2 * uint64_t{connections} + 10'000);
}

struct Rate {
  explicit Rate(uint32_t count, bool in_turn) : connections(count), pair(options_for(count, in_turn)) {}
  uint32_t connections;
  RpcPair pair;
  std::vector<double> cycles;          // per RPC, of each repeat
  std::vector<double> gateway_cycles;  // of these, the gateway's
  uint64_t packets = 0;
  uint64_t calls = 0;

  bool sample(uint64_t least) {
    const load::LoadStats& stats = pair.peer.driver.stats();
    const uint64_t before = stats.calls;
    const uint64_t packets_before = pair.to_client.packets() + pair.to_server.packets();
    const uint64_t first = __rdtsc();
    uint64_t served = 0;
    for (uint64_t turns = 0; stats.calls < before + least; ++turns) {
      if (turns == kTurnsMax) {
        return false;
      }
      pair.now = pair.now + Duration::us(1);
      pair.serve_client();
      pair.to_server.carry();
      const uint64_t begun = __rdtsc();
      pair.serve_gateway();
      served += __rdtsc() - begun;
      pair.to_client.carry();
    }
    const uint64_t done = stats.calls - before;
    cycles.push_back(static_cast<double>(__rdtsc() - first) / static_cast<double>(done));
    gateway_cycles.push_back(static_cast<double>(served) / static_cast<double>(done));
    packets += pair.to_client.packets() + pair.to_server.packets() - packets_before;
    calls += done;
    return true;
  }
  [[nodiscard]] double packets_per_call() const { return static_cast<double>(packets) / static_cast<double>(calls); }
};

// Cycles to fetch one line that nobody expects, out of a set of so many bytes.
double cycles_per_miss(uint64_t bytes) {
  struct alignas(kLineBytes) Line {
    uint32_t next = 0;
  };
  const uint32_t count = static_cast<uint32_t>(std::max<uint64_t>(bytes / kLineBytes, 1024));
  std::vector<Line> lines(count);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  SeededRandom random(1);
  for (uint32_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[random.next_below(i + 1)]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    lines[order[i]].next = order[(i + 1) % count];
  }
  uint32_t at = 0;
  const uint64_t first = __rdtsc();
  for (uint32_t i = 0; i < count; ++i) {
    at = lines[at].next;
  }
  asm volatile("" : : "r"(at));
  return static_cast<double>(__rdtsc() - first) / count;
}

// Bytes that the gateway's side takes from the heap with this many connections, each of which has answered a call.
struct GatewayBytes {
  uint64_t tables = 0;  // made at start
  int64_t serving = 0;  // while connections came up and were served
};

// The buffers of packets stay the same in number, enough for a packet of each of `connections_max`.
std::optional<GatewayBytes> gateway_bytes(uint32_t connections, uint32_t connections_max) {
  sim::WorldOptions options = options_for(connections, true);
  options.packet_buffers = std::max(options.packet_buffers, 2 * connections_max);
  options.half_open_max = kHalfOpen;
  options.calls_in_flight_max = kCallsInFlight;
  GatewayBytes bytes;
  {
    const test::CountAllocations counted;
    const sim::GatewayHost host(options, 1);
    bytes.tables = counted.bytes();
  }
  // They come one after the other, 256 in a millisecond: handshakes at once are a matter of their own.
  std::string problem;
  options.load.connection_profile.emplace();
  if (!options.load.connection_profile->parse("1, " + std::to_string(connections / 256 + 1) + "ms:" + std::to_string(connections),
                                              problem)) {
    std::fprintf(stderr, "connections_bench: %s\n", problem.c_str());
    return std::nullopt;
  }
  RpcPair pair(options);
  pair.peer.driver.begin(pair.now);
  uint64_t goal = UINT64_MAX;
  for (uint64_t turns = 0; pair.peer.driver.stats().calls < goal; ++turns) {
    if (goal == UINT64_MAX && pair.peer.driver.connected() == connections) {
      goal = pair.peer.driver.stats().calls + 2 * uint64_t{connections};
    }
    if (turns > kTurnsMax) {
      std::fprintf(stderr, "connections_bench: %u connections did not come up\n", connections);
      return std::nullopt;
    }
    pair.now = pair.now + Duration::us(1);
    pair.serve_client();
    pair.to_server.carry();
    const test::CountAllocations counted;
    pair.serve_gateway();
    bytes.serving += counted.net_bytes();
    pair.to_client.carry();
  }
  return bytes;
}

bool measure_active(uint32_t many, bool in_turn, uint32_t repeats, double bytes_per_connection, nlohmann::json& rows) {
  Rate few_rate(kFew, in_turn);
  Rate many_rate(many, in_turn);
  if (!warm_up(few_rate.pair, kFew, in_turn) || !warm_up(many_rate.pair, many, in_turn)) {
    return false;
  }
  for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
    if (!few_rate.sample(many) || !many_rate.sample(many)) {
      std::fprintf(stderr, "connections_bench: calls were not answered\n");
      return false;
    }
  }
  const bool good = few_rate.pair.failures() + many_rate.pair.failures() == 0;
  const char* how = in_turn ? "in_turn" : "all";
  const Spread few_cycles = spread_of(few_rate.cycles);
  const Spread many_cycles = spread_of(many_rate.cycles);
  const std::string name = "connections/" + std::to_string(many) + "_active_" + how;
  nlohmann::json figure = row_beside(name, many_cycles, "cycles", few_cycles.median, "16 connections", false);
  figure["packets_per_rpc"] = many_rate.packets_per_call();
  figure["baseline_packets_per_rpc"] = few_rate.packets_per_call();
  figure["baseline_spread"] = {few_cycles.low, few_cycles.high};
  const double miss = cycles_per_miss(static_cast<uint64_t>(2 * many * bytes_per_connection));
  const double lines = (many_cycles.median - few_cycles.median) / miss;
  figure["cycles_per_line"] = miss;
  figure["lines_missed_per_rpc"] = lines;
  figure["good"] = good;
  rows.push_back(std::move(figure));
  std::printf(
      "%-34s %6.0f cycles/RPC [%.0f %.0f], 16 connections %.0f [%.0f %.0f]: %.2f of the rate; %.2f and %.2f packets/RPC\n",
      name.c_str(), many_cycles.median, many_cycles.low, many_cycles.high, few_cycles.median, few_cycles.low, few_cycles.high,
      few_cycles.median / many_cycles.median, many_rate.packets_per_call(), few_rate.packets_per_call());
  std::printf("%-34s as if %.0f lines were missed, one after the other, of %.0f cycles each%s\n", "", lines, miss,
              good ? "" : "  WRONG ANSWERS");
  const Spread few_share = spread_of(few_rate.gateway_cycles);
  const Spread many_share = spread_of(many_rate.gateway_cycles);
  rows.push_back(row_beside(name + "/gateway", many_share, "cycles", few_share.median, "16 connections", false));
  std::printf("%-34s %6.0f cycles/RPC [%.0f %.0f], 16 connections %.0f [%.0f %.0f]: %.2f of the rate\n",
              (name + "/gateway").c_str(), many_share.median, many_share.low, many_share.high, few_share.median, few_share.low,
              few_share.high, few_share.median / many_share.median);
  return good;
}

// Bytes per connection, or 0 when calls were not answered.
double measure_idle(uint32_t idle, nlohmann::json& rows) {
  const std::optional<GatewayBytes> some = gateway_bytes(idle / 2, idle);
  const std::optional<GatewayBytes> all = gateway_bytes(idle, idle);
  if (!some || !all) {
    return 0;
  }
  const uint32_t more = idle - idle / 2;
  const double tables = static_cast<double>(all->tables - some->tables) / more;
  const double serving = static_cast<double>(all->serving - some->serving) / more;
  const double bytes = tables + serving;
  nlohmann::json figure = row("connections/bytes_per_idle_connection", bytes, "bytes", {bytes, bytes, bytes, bytes});
  figure["connections"] = idle;
  figure["tables"] = tables;
  figure["serving"] = serving;
  rows.push_back(std::move(figure));
  std::printf("%-34s %6.0f bytes of the gateway's heap at %u connections: %.0f of tables, %.0f while it served them\n",
              "connections/idle", bytes, idle, tables, serving);
  std::fflush(stdout);
  return bytes;
}

int main_of(int count, char** words) {
  constexpr double kLikelyBytes = 4096;
  dataplane::put_tables_on_huge_pages();
  BenchOptions options{.repeats = 21, .json = {}, .only = {}};
  if (!options.parse(count, words)) {
    std::fputs("usage: connections_bench [--repeats N] [--json FILE] [--only idle|in_turn|all]\n", stderr);
    return 2;
  }
  const bool smoke = options.repeats < 5;
  nlohmann::json rows = nlohmann::json::array();
  const double bytes = options.wants("idle") ? measure_idle(smoke ? 2000 : 100'000, rows) : kLikelyBytes;
  bool good = bytes > 0;
  for (const bool in_turn : {true, false}) {
    if (good && options.wants(in_turn ? "in_turn" : "all")) {
      good = measure_active(smoke ? 600 : 10'000, in_turn, options.repeats, bytes, rows);
      std::fflush(stdout);
    }
  }
  return write_rows(options.json, rows) && good ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
