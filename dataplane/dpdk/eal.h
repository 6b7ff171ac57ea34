// Starts DPDK's environment from our configuration: nobody types EAL arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::dataplane {

struct EalSettings {
  std::string instance = "causeway";  // file prefix: several instances per host do not meet
  uint32_t main_lcore = 0;
  std::vector<uint32_t> poll_lcores;    // CPUs
  std::vector<uint32_t> worker_lcores;  // CPUs; empty: all that no poll core has, or all when that leaves none
  bool hugepages = false;
  uint32_t memory_mb = 512;
  std::vector<std::string> pci_devices;  // allowed PCI addresses; none = no PCI scan
  bool telemetry = false;                // DPDK's own telemetry socket
  bool verbose = false;
};

// False with one sentence that says what is missing and what to do.
[[nodiscard]] bool start_eal(const EalSettings& settings, std::string& error);
void stop_eal();

// CPUs of the workers: `worker_lcores`, or what it says that no list means. For threads that would otherwise inherit the one CPU
// of the thread that starts them. Valid after start_eal().
[[nodiscard]] const std::vector<uint32_t>& worker_cpus();
// Workers may run on this CPU too.
[[nodiscard]] bool is_worker_cpu(uint32_t cpu);

}  // namespace cw::dataplane
