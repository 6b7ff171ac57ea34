// Which CPUs the process's threads run on, as the configuration says. With DPDK and without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::dataplane {

struct CpuSettings {
  uint32_t main_lcore = 0;
  std::vector<uint32_t> poll_lcores;    // CPUs
  std::vector<uint32_t> worker_lcores;  // CPUs; empty: all that no poll core has, or all when that leaves none
};

// Once, before the threads start. False with one sentence: this process may not use one of them.
[[nodiscard]] bool choose_cpus(const CpuSettings& settings, std::string& error);

// CPUs of the workers: `worker_lcores`, or what it says that no list means. For threads that would otherwise inherit the one CPU
// of the thread that starts them. Valid after choose_cpus().
[[nodiscard]] const std::vector<uint32_t>& worker_cpus();
// Workers may run on this CPU too.
[[nodiscard]] bool is_worker_cpu(uint32_t cpu);

}  // namespace cw::dataplane
