#include "dataplane/dpdk/eal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "dataplane/huge_tables.h"

namespace cw::dataplane {

namespace {

bool started = false;
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

// EAL answers an unusable CPU with its whole usage text.
bool check_cpus(const EalSettings& settings, const std::vector<uint32_t>& usable, std::string& error) {
  std::vector<uint32_t> wanted = settings.poll_lcores;
  wanted.push_back(settings.main_lcore);
  wanted.insert(wanted.end(), settings.worker_lcores.begin(), settings.worker_lcores.end());
  for (const uint32_t cpu : wanted) {
    if (!usable.empty() && !has(usable, cpu)) {
      error = fmt::format(
          "CPU {} is not one that this process may use; it may use {}: change main_lcore, poll_lcores or "
          "worker_lcores",
          cpu, fmt::join(usable, ","));
      return false;
    }
  }
  return true;
}

// Those named; else those without a poll core, or all when every one has one.
std::vector<uint32_t> choose_worker_cpus(const EalSettings& settings, const std::vector<uint32_t>& usable) {
  if (!settings.worker_lcores.empty()) {
    return settings.worker_lcores;
  }
  std::vector<uint32_t> cpus;
  std::ranges::copy_if(usable, std::back_inserter(cpus), [&](uint32_t cpu) { return !has(settings.poll_lcores, cpu); });
  return cpus.empty() ? usable : cpus;
}

}  // namespace

bool start_eal(const EalSettings& settings, std::string& error) {
  const std::vector<uint32_t> usable = usable_cpus();
  if (!check_cpus(settings, usable, error)) {
    return false;
  }
  worker_cpu_list = choose_worker_cpus(settings, usable);
  std::string lcores = std::to_string(settings.main_lcore);
  for (const uint32_t lcore : settings.poll_lcores) {
    if (lcore != settings.main_lcore) {
      lcores += fmt::format(",{}", lcore);
    }
  }
  std::vector<std::string> words = {"causeway",
                                    "-l",
                                    lcores,
                                    "--main-lcore",
                                    std::to_string(settings.main_lcore),
                                    "--file-prefix",
                                    settings.instance,
                                    "-m",
                                    std::to_string(settings.memory_mb)};
  if (settings.hugepages) {
    words.push_back("--in-memory");
  } else {
    words.push_back("--no-huge");
  }
  if (settings.pci_devices.empty()) {
    words.push_back("--no-pci");
  }
  for (const std::string& device : settings.pci_devices) {
    words.push_back("-a");
    words.push_back(device);
  }
  if (!settings.telemetry) {
    words.push_back("--no-telemetry");
  }
  if (!settings.verbose) {
    words.push_back("--log-level=lib.*:warning");
    words.push_back("--log-level=*:error");
  }
  // EAL keeps its runtime files in XDG_RUNTIME_DIR when it is not root.
  if (geteuid() != 0 && std::getenv("XDG_RUNTIME_DIR") == nullptr) {
    setenv("XDG_RUNTIME_DIR", "/tmp", 0);
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size());
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) {
    const char* hint = "run with DPDK logs (--verbose) to see more";
    if (rte_errno == EACCES || rte_errno == EPERM) {
      hint = settings.hugepages ? "hugepages need permission on hugetlbfs: or set dataplane.hugepages = false"
                                : "is the runtime directory (XDG_RUNTIME_DIR) writable?";
    } else if (rte_errno == ENOMEM) {
      hint = settings.hugepages ? "reserve more hugepages (vm.nr_hugepages) or lower dataplane.memory_mb"
                                : "lower dataplane.memory_mb";
    } else if (rte_errno == EALREADY) {
      hint = "another instance of this name runs: give gateway.instance another name";
    }
    error = fmt::format("DPDK does not start: {}; {}", rte_strerror(rte_errno), hint);
    return false;
  }
  put_tables_on_huge_pages();
  started = true;
  return true;
}

const std::vector<uint32_t>& worker_cpus() {
  return worker_cpu_list;
}

bool is_worker_cpu(uint32_t cpu) {
  return has(worker_cpu_list, cpu);
}

void stop_eal() {
  if (started) {
    (void)rte_eal_cleanup();
    started = false;
  }
}

}  // namespace cw::dataplane
