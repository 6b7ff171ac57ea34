// Starts DPDK's environment from our configuration: nobody types EAL arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/cpus.h"

namespace cw::dataplane {

struct EalSettings {
  std::string instance = "causeway";  // file prefix: several instances per host do not meet
  CpuSettings cpus;
  bool hugepages = false;
  uint32_t memory_mb = 512;
  std::vector<std::string> pci_devices;  // allowed PCI addresses; none = no PCI scan
  bool telemetry = false;                // DPDK's own telemetry socket
  bool verbose = false;
};

// False with one sentence that says what is missing and what to do.
[[nodiscard]] bool start_eal(const EalSettings& settings, std::string& error);
void stop_eal();

}  // namespace cw::dataplane
