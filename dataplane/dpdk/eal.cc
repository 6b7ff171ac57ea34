#include "dataplane/dpdk/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dataplane/huge_tables.h"

namespace cw::dataplane {

namespace {

bool started = false;

// The host has set some hugepages aside, of whatever size.
bool has_hugepages() {
  std::error_code ignored;
  for (const auto& size : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ignored)) {
    uint64_t pages = 0;
    if (std::ifstream(size.path() / "nr_hugepages") >> pages && pages > 0) {
      return true;
    }
  }
  return false;
}

std::string why_not(const EalSettings& settings, int number) {
  const char* hint = "run with DPDK logs (--verbose) to see more";
  if (settings.hugepages && !has_hugepages()) {
    return "the host has no hugepages: reserve some (vm.nr_hugepages), or set dataplane.hugepages = false";
  }
  if (number == EACCES || number == EPERM) {
    hint = settings.hugepages ? "hugepages need permission on hugetlbfs: or set dataplane.hugepages = false"
                              : "is the runtime directory (XDG_RUNTIME_DIR) writable?";
  } else if (number == ENOMEM) {
    hint = settings.hugepages ? "reserve more hugepages (vm.nr_hugepages) or lower dataplane.memory_mb"
                              : "lower dataplane.memory_mb";
  } else if (number == EALREADY) {
    hint = "another instance of this name runs: give gateway.instance another name";
  }
  return fmt::format("{}; {}", rte_strerror(number), hint);
}

}  // namespace

bool start_eal(const EalSettings& settings, std::string& error) {
  if (!choose_cpus(settings.cpus, error)) {
    return false;
  }
  const uint32_t main_lcore = settings.cpus.main_lcore;
  std::string lcores = std::to_string(main_lcore);
  for (const uint32_t lcore : settings.cpus.poll_lcores) {
    if (lcore != main_lcore) {
      lcores += fmt::format(",{}", lcore);
    }
  }
  std::vector<std::string> words = {"causeway",
                                    "-l",
                                    lcores,
                                    "--main-lcore",
                                    std::to_string(main_lcore),
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
    error = "DPDK does not start: " + why_not(settings, rte_errno);
    return false;
  }
  put_tables_on_huge_pages();
  started = true;
  return true;
}

void stop_eal() {
  if (started) {
    (void)rte_eal_cleanup();
    started = false;
  }
}

}  // namespace cw::dataplane
