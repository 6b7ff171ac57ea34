// A core whose every counter is different from zero and from every other: what the collector does with it can be told apart.
#pragma once

#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "telemetry/collector.h"
#include "tests/support/file_tree.h"

namespace cw::telemetry {

// Fills any struct of 64-bit integers with first, first + 1, ...
template <typename T>
void fill_words(T& object, uint64_t first) {
  static_assert(sizeof(T) % 8 == 0 && std::is_trivially_copyable_v<T>);
  std::vector<uint64_t> words(sizeof(T) / 8);
  for (uint64_t& word : words) {
    word = first++;
  }
  std::memcpy(static_cast<void*>(&object), words.data(), sizeof(T));
}

inline void fill_synthetic(CoreSnapshot& out) {
  // A million apart, and the two that are added up (rc and gsi discards) such that their sums are nobody else's.
  fill_words(out.rc, 1'000'000);
  fill_words(out.gsi, 10'000'000);
  fill_words(out.cm, 3'000'000);
  fill_words(out.rpcrdma, 4'000'000);
  fill_words(out.connections, 5'000'000);
  fill_words(out.ports, 6'000'000);
  fill_words(out.pools, 7'000'000);
  fill_words(out.gateway, 9'000'000);
  fill_words(out.loop, 2'000'000);
  fill_words(out.iwarp, 21'000'000);
  fill_words(out.iwarp_streams, 43'000'000);
  fill_words(out.iwarp_tcp, 87'000'000);
  fill_words(out.rnic, 131'000'000);
  fill_words(out.rnic_works, 177'000'000);
  fill_words(out.workers, 223'000'000);
  out.durations = {};
  for (uint32_t row = 0; row < rpcrdma::kProcedureRows; ++row) {
    out.durations.calls[row].record(Duration::us(120) * (row + 1));
  }
  for (uint32_t stage = 0; stage < rpcrdma::kStageCount; ++stage) {
    out.durations.stages.record(static_cast<rpcrdma::Stage>(stage), Duration::ms(1) * (stage + 1));
  }
}

// Two servers of the first backend; the second has not been checked yet.
class SyntheticChecks final : public control::ServerChecks {
 public:
  [[nodiscard]] std::vector<control::ServerCheck> server_checks() const override {
    std::vector<control::ServerCheck> rows(2);
    rows[0] = {0, 0, "nfs", "192.0.2.7:2049", control::ServerState::kUp, true, 40, 2, Duration::us(350), "", {}};
    rows[1] = {0, 1, "nfs", "192.0.2.8:2049", control::ServerState::kUnknown, true, 0, 0, {}, "", {}};
    return rows;
  }
};

// A folder as the kernel has it for RDMA devices.
class SyntheticRdma {
 public:
  // Each series of the port gets a number of its own, or all are 0. Of one that several files may tell, the first does.
  void add_port(const std::string& device, const std::string& port, const std::string& state, uint64_t first) {
    const std::string folder = device + "/ports/" + port + "/";
    tree_.write(folder + "state", state + "\n");
    for (const RdmaPortCounter& counter : rdma_port_counters()) {
      tree_.write(folder + counter.sources[0].file, std::to_string(first) + "\n");
      first += first > 0 ? 1 : 0;
    }
  }
  void write(const std::string& path, const std::string& text) { tree_.write(path, text); }
  void remove(const std::string& path) { tree_.remove(path); }
  [[nodiscard]] std::string folder() const { return tree_.root(); }

 private:
  test::FileTree tree_;
};

// Published copies that are answered at once: the test plays the core.
class SyntheticCores {
 public:
  explicit SyntheticCores(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      snapshots_.push_back(std::make_unique<Published<CoreSnapshot>>());
    }
    rdma_.add_port("rxe0", "1", "1: DOWN", 0);
  }
  template <typename Fill>
  void publish(Fill&& fill) {
    for (auto& snapshot : snapshots_) {
      snapshot->request();
      snapshot->publish(fill);
      (void)snapshot->take();
    }
  }
  [[nodiscard]] MetricSources sources() const {
    MetricSources sources;
    sources.build = {"1.2.3", "abcdef", "22.11", "g++ 12"};
    sources.instance = "test";
    for (uint32_t i = 0; i < snapshots_.size(); ++i) {
      sources.cores.push_back({i, "poll", snapshots_[i].get()});
    }
    sources.ports = {{"net_memif0", "net_memif", "02:00:00:00:00:01", "software"},
                     {"0000:3b:02.1", "mlx5_pci", "02:00:00:00:00:02", "rss"}};
    sources.backends = {{"nfs"}, {"bench"}};
    sources.listeners = {{"nfs"}, {"bench"}};
    sources.clients = {{"cluster"}};
    sources.pools = {"rx", "large"};
    sources.limits = {64,
                      512,
                      4096,
                      {{"nfs", 48, 128, {5000, 1 << 30}}, {"bench", 16, 32, {}, true, "rxe0"}},
                      {{"cluster", 8, 1 << 20, {1000, 1 << 29}}}};
    sources.rdma_folder = rdma_.folder();
    sources.routes = {{"nfs", 100005, "bench", 5}, {"nfs", std::nullopt, std::nullopt, 0}};
    sources.checks = &checks_;
    return sources;
  }

 private:
  SyntheticChecks checks_;
  SyntheticRdma rdma_;
  std::vector<std::unique_ptr<Published<CoreSnapshot>>> snapshots_;
};

}  // namespace cw::telemetry
