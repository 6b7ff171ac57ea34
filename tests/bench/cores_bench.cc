// What a core's work costs as there are more cores: several worlds, each a poll core of one gateway with a client of its own, and
// what every core pays for not being alone.
//
//   cores_bench [--repeats N] [--json FILE]
//
//   worlds_N_taking_turns   1, 2, 4 cores share this CPU, one after the other for a few thousand calls: cycles per RPC of each.
//                           Constant: nothing that a core touches grows with the number of cores
//   worlds_2_at_once        two of them on two CPUs at the same time, next to each of them alone on the same CPU: constant as
//                           well when no line is written by both. Follows what else the machine does
//   steering                which core is this frame's? What each frame costs where there are several
//
// Unproven here, for want of a machine: more than two CPUs at once, a device that deals frames to queues, the rings between cores
// under load (handoff_bench has their price), and memory bandwidth shared by many cores.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/node/steering.h"
#include "tests/bench/core_distance.h"
#include "tests/bench/measure.h"
#include "tests/bench/rpc_pair.h"

namespace cw::bench {
namespace {

constexpr uint32_t kSliceCalls = 4000;

sim::WorldOptions options_of(uint32_t index, uint32_t count) {
  sim::WorldOptions options;
  options.seed = 1 + index;
  options.core = {index, count};
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 64;
  options.load.window = 8;
  options.load.connections = 4;
  options.load.verify_every = 64;
  return options;
}

// Cycles per RPC over one slice. Zero when calls were not answered.
double slice(RpcPair& pair) {
  const uint64_t before = pair.peer.driver.stats().calls;
  const uint64_t first = __rdtsc();
  if (!pair.run_calls(kSliceCalls)) {
    return 0;
  }
  return static_cast<double>(__rdtsc() - first) / static_cast<double>(pair.peer.driver.stats().calls - before);
}

class Bench {
 public:
  explicit Bench(uint32_t repeats) : repeats_(repeats) {}

  void taking_turns() {
    double alone = 0;
    for (const uint32_t count : {1u, 2u, 4u}) {
      std::vector<std::unique_ptr<RpcPair>> worlds;
      for (uint32_t index = 0; index < count; ++index) {
        worlds.push_back(std::make_unique<RpcPair>(options_of(index, count)));
        (void)slice(*worlds.back());
      }
      std::vector<double> cycles;
      for (uint32_t repeat = 0; repeat < repeats_; ++repeat) {
        for (const auto& world : worlds) {
          cycles.push_back(slice(*world));
          good_ = good_ && cycles.back() > 0 && world->failures() == 0;
        }
      }
      const Spread spread = spread_of(cycles);
      alone = count == 1 ? spread.median : alone;
      add("worlds_" + std::to_string(count) + "_taking_turns", spread, alone, "one world");
    }
  }

  void at_once() {
    const std::vector<int> cpus = own_cpus();
    if (cpus.size() < 2) {
      std::puts("cores_bench: one CPU only; two worlds at once are skipped");
      return;
    }
    RpcPair here(options_of(0, 2));
    RpcPair there(options_of(1, 2));
    CW_ASSERT(pin_to(cpus[0]));
    (void)slice(here);
    (void)slice(there);
    std::vector<double> alone;
    std::vector<double> together;
    const CoreDistance before = core_distance(cpus[1], std::chrono::milliseconds(5));
    for (uint32_t repeat = 0; repeat < repeats_; ++repeat) {
      alone.push_back(slice(here));
      std::atomic<bool> other_runs{false};
      std::atomic<bool> stop{false};
      std::thread other([&] {
        (void)pin_to(cpus[1]);
        while (!stop.load(std::memory_order_relaxed)) {
          good_there_ = slice(there) > 0 && good_there_;
          other_runs.store(true);
        }
      });
      while (!other_runs.load()) {
      }
      together.push_back(slice(here));
      stop.store(true);
      other.join();
    }
    good_ = good_ && good_there_ && here.failures() + there.failures() == 0;
    add("worlds_2_at_once", spread_of(together), spread_of(alone).median, "alone on the same CPU");
    rows_.back()["state"] = before.state();
    unpin(cpus);
  }

  // Frames of a small call, as they arrive.
  void steering() {
    RpcPair pair(options_of(1, 4));
    std::vector<std::vector<uint8_t>> frames;
    (void)slice(pair);
    pair.to_server.tap_context = &frames;
    pair.to_server.tap = [](void* context, const wire::TxPacket&, const Buffer& frame) {
      auto& kept = *static_cast<std::vector<std::vector<uint8_t>>*>(context);
      if (kept.size() < 64) {
        kept.emplace_back(frame.data, frame.data + frame.size);
      }
    };
    (void)slice(pair);
    pair.to_server.tap = nullptr;
    const node::Steering steering({1, 4}, 4, pair.server.node.endpoint().qpn_codec());
    std::vector<double> cycles;
    for (uint32_t repeat = 0; repeat < repeats_; ++repeat) {
      uint32_t owners = 0;
      const uint64_t first = __rdtsc();
      for (uint32_t round = 0; round < 100; ++round) {
        for (const std::vector<uint8_t>& frame : frames) {
          owners += steering.owner_of(frame);
        }
      }
      cycles.push_back(static_cast<double>(__rdtsc() - first) / static_cast<double>(100 * frames.size()));
      good_ = good_ && owners == 100 * frames.size();  // all for core 1
    }
    const Spread spread = spread_of(cycles);
    std::printf("%-24s %7.1f cycles per frame [%.1f %.1f]\n", "steering", spread.median, spread.low, spread.high);
    rows_.push_back(row("cores/steering", spread.median, "cycles per frame", spread));
  }

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] const nlohmann::json& rows() const { return rows_; }

 private:
  void add(const std::string& name, const Spread& spread, double baseline, const char* beside) {
    std::printf("%-24s %7.0f cycles per RPC, both ends [%.0f %.0f]: %.2f of the rate of %s\n", name.c_str(), spread.median,
                spread.low, spread.high, baseline / spread.median, beside);
    std::fflush(stdout);
    rows_.push_back(row_beside("cores/" + name, spread, "cycles", baseline, beside, false));
  }
  static void unpin(const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) {
      CPU_SET(static_cast<size_t>(cpu), &set);
    }
    (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }

  uint32_t repeats_;
  bool good_ = true;
  bool good_there_ = true;
  nlohmann::json rows_ = nlohmann::json::array();
};

int main_of(int count, char** words) {
  BenchOptions options{.repeats = 41, .json = {}, .only = {}};
  if (!options.parse(count, words)) {
    std::fputs("usage: cores_bench [--repeats N] [--json FILE]\n", stderr);
    return 2;
  }
  Bench bench(options.repeats);
  bench.taking_turns();
  bench.at_once();
  bench.steering();
  return write_rows(options.json, bench.rows()) && bench.good() ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
