#include "dataplane/cpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <iterator>

namespace cw::dataplane {
namespace {

std::vector<uint32_t> worker_cpu_list;

// CPUs that this process may use; empty when the kernel does not say.
std::vector<uint32_t> usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<uint32_t> cpus;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

bool has(const std::vector<uint32_t>& cpus, uint32_t cpu) {
  return std::ranges::find(cpus, cpu) != cpus.end();
}

// DPDK's environment answers an unusable CPU with its whole usage text.
bool check_cpus(const CpuSettings& settings, const std::vector<uint32_t>& usable, std::string& error) {
  std::vector<uint32_t> wanted = settings.poll_lcores;
  wanted.push_back(settings.main_lcore);
  wanted.insert(wanted.end(), settings.worker_lcores.begin(), settings.worker_lcores.end());
  for (const uint32_t cpu : wanted) {
    if (!usable.empty() && !has(usable, cpu)) {
      error = fmt::format(
          "CPU {} is not one that this process may use; it may use {}: change main_lcore, poll_lcores or worker_lcores", cpu,
          fmt::join(usable, ","));
      return false;
    }
  }
  return true;
}

// Those named; else those without a poll core, or all when every one has one.
std::vector<uint32_t> choose_worker_cpus(const CpuSettings& settings, const std::vector<uint32_t>& usable) {
  if (!settings.worker_lcores.empty()) {
    return settings.worker_lcores;
  }
  std::vector<uint32_t> cpus;
  std::ranges::copy_if(usable, std::back_inserter(cpus), [&](uint32_t cpu) { return !has(settings.poll_lcores, cpu); });
  return cpus.empty() ? usable : cpus;
}

}  // namespace

bool choose_cpus(const CpuSettings& settings, std::string& error) {
  const std::vector<uint32_t> usable = usable_cpus();
  if (!check_cpus(settings, usable, error)) {
    return false;
  }
  worker_cpu_list = choose_worker_cpus(settings, usable);
  return true;
}

const std::vector<uint32_t>& worker_cpus() {
  return worker_cpu_list;
}

bool is_worker_cpu(uint32_t cpu) {
  return has(worker_cpu_list, cpu);
}

}  // namespace cw::dataplane
