// Memory, permissions and processors.
#include <fmt/core.h>

#include <algorithm>

#include "control/doctor/checks.h"

namespace cw::control::doctor {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool has_pci(const Facts& facts) {
  return std::ranges::any_of(facts.ports, [](const PortFacts& port) { return port.pci.has_value(); });
}

bool has_interface(const Facts& facts) {
  return std::ranges::any_of(facts.ports, [](const PortFacts& port) { return port.interface.has_value(); });
}

}  // namespace

void check_hugepages(const Facts& facts, Findings& out) {
  const uint64_t wanted = uint64_t{facts.config.dataplane.memory_mb} * kMiB;
  if (facts.ports.empty()) {
    return;  // they are DPDK's
  }
  if (!facts.config.dataplane.hugepages) {
    if (has_pci(facts)) {
      out.push_back({"hugepages", Severity::kWarning, "a physical NIC is configured without hugepages: few drivers work so",
                     "set dataplane.hugepages = true"});
    }
    return;
  }
  if (facts.admin == AdminSocket::kAnswers) {
    out.push_back({"hugepages", Severity::kFine, "a gateway is running and has its hugepages", {}});
  } else if (facts.hugepages_free_bytes < wanted) {
    const uint64_t pages = (wanted + 2 * kMiB - 1) / (2 * kMiB);
    out.push_back({"hugepages", Severity::kFault,
                   fmt::format("{} MiB of hugepages are free of {} MiB in all, dataplane.memory_mb wants {} MiB",
                               facts.hugepages_free_bytes / kMiB, facts.hugepages_total_bytes / kMiB, wanted / kMiB),
                   fmt::format("sysctl -w vm.nr_hugepages={} (and in /etc/sysctl.d, to keep it)",
                               pages + (facts.hugepages_total_bytes - facts.hugepages_free_bytes) / (2 * kMiB))});
  } else {
    out.push_back(
        {"hugepages", Severity::kFine, fmt::format("{} MiB of hugepages are free", facts.hugepages_free_bytes / kMiB), {}});
  }
}

void check_memory(const Facts& facts, Findings& out) {
  const uint64_t wanted = uint64_t{facts.config.dataplane.memory_mb} * kMiB;
  if (facts.memory_total_bytes == 0) {
    return;
  }
  const bool takes_more = facts.ports.empty() || !facts.config.dataplane.hugepages;  // else check_hugepages() says
  if (wanted > facts.memory_total_bytes) {
    out.push_back({"memory", Severity::kFault,
                   fmt::format("dataplane.memory_mb wants {} MiB, and there are {} MiB in all", wanted / kMiB,
                               facts.memory_total_bytes / kMiB),
                   "set dataplane.memory_mb lower, or give the host or the container more"});
  } else if (takes_more && facts.admin != AdminSocket::kAnswers && wanted > facts.memory_available_bytes) {
    out.push_back({"memory", Severity::kWarning,
                   fmt::format("dataplane.memory_mb wants {} MiB, and {} MiB are available now", wanted / kMiB,
                               facts.memory_available_bytes / kMiB),
                   "ps -eo rss,args --sort=-rss shows who has it; or set dataplane.memory_mb lower"});
  } else {
    out.push_back({"memory",
                   Severity::kFine,
                   fmt::format("there are {} MiB for the {} MiB of dataplane.memory_mb", facts.memory_available_bytes / kMiB,
                               wanted / kMiB),
                   {}});
  }
}

void check_memlock(const Facts& facts, Findings& out) {
  if (facts.ports.empty()) {
    return;  // without DPDK nothing is locked
  }
  const uint64_t wanted = uint64_t{facts.config.dataplane.memory_mb} * kMiB;
  if (!facts.memlock_bytes || facts.capabilities.ipc_lock || *facts.memlock_bytes >= 2 * wanted) {
    out.push_back({"memlock", Severity::kFine, "memory may be locked", {}});
    return;
  }
  // What needs no device of its own runs with pageable memory.
  const Severity severity = has_pci(facts) ? Severity::kFault : Severity::kNote;
  out.push_back({"memlock", severity,
                 fmt::format("this user may lock {} KiB of memory and has no CAP_IPC_LOCK, the gateway wants {} MiB",
                             *facts.memlock_bytes / 1024, wanted / kMiB),
                 "systemd: LimitMEMLOCK=infinity (the unit has it); shell: ulimit -l unlimited, as root"});
}

void check_capabilities(const Facts& facts, Findings& out) {
  const bool by_xdp = std::ranges::any_of(facts.ports, [](const PortFacts& port) { return port.beside_kernel && port.by_xdp; });
  if (by_xdp && !facts.capabilities.bpf) {
    out.push_back({"capabilities", Severity::kWarning,
                   "a port is beside the kernel, and this user has no CAP_BPF to load its XDP program",
                   "systemd: the drop-in af-xdp.conf of /usr/share/causeway/systemd; shell: run causewayd as root"});
  }
  if (std::ranges::any_of(facts.ports, [](const PortFacts& port) { return port.tap.has_value(); }) &&
      (!facts.has_tun || !facts.capabilities.net_admin)) {
    out.push_back({"capabilities", Severity::kWarning,
                   facts.has_tun ? "an exception_tap takes CAP_NET_ADMIN, unless the interface is made for this user"
                                 : "an exception_tap takes /dev/net/tun, which this user cannot open",
                   facts.has_tun
                       ? "the drop-in tap.conf of /usr/share/causeway/systemd; or ip tuntap add dev NAME mode tap user causeway"
                       : "modprobe tun; the drop-in tap.conf of /usr/share/causeway/systemd"});
  }
  if (!has_interface(facts)) {
    return;
  }
  if (facts.capabilities.net_raw && facts.capabilities.net_admin) {
    out.push_back({"capabilities", Severity::kFine, "this user may open interfaces of the kernel", {}});
    return;
  }
  const char* missing = facts.capabilities.net_raw     ? "CAP_NET_ADMIN"
                        : facts.capabilities.net_admin ? "CAP_NET_RAW"
                                                       : "CAP_NET_RAW and CAP_NET_ADMIN";
  out.push_back({"capabilities", Severity::kWarning,
                 fmt::format("a port is on an interface of the kernel, and this user has no {}", missing),
                 "systemd: a drop-in of /usr/share/causeway/systemd with AmbientCapabilities; shell: run causewayd as root"});
}

// False: said, with the key to correct.
bool is_usable(const CpuFacts& cpu, const char* what, const char* key, Findings& out) {
  if (!cpu.is_online) {
    out.push_back({"cpus", Severity::kFault, fmt::format("{} CPU {} is not there or offline", what, cpu.cpu),
                   fmt::format("correct dataplane.{}; lscpu -e shows the CPUs", key)});
    return false;
  }
  if (!cpu.is_allowed) {
    out.push_back(
        {"cpus", Severity::kFault, fmt::format("CPU {} is outside the CPUs that this process may use", cpu.cpu),
         fmt::format("correct dataplane.{}, or the cpuset (systemd: AllowedCPUs=, Kubernetes: integer CPU requests)", key)});
    return false;
  }
  return true;
}

void check_cpus(const Facts& facts, Findings& out) {
  const bool spins = facts.config.dataplane.idle == IdleMode::kSpin;
  size_t before = out.size();
  for (const CpuFacts& cpu : facts.worker_cpus) {
    (void)is_usable(cpu, "worker", "worker_lcores", out);
  }
  for (const CpuFacts& cpu : facts.poll_cpus) {
    if (is_usable(cpu, "poll core", "poll_lcores", out) && !cpu.is_isolated && spins) {
      out.push_back(
          {"cpus", Severity::kWarning,
           fmt::format("CPU {} polls all the time and is not isolated: other programs and interrupts delay it", cpu.cpu),
           fmt::format("kernel command line: isolcpus={} nohz_full={} rcu_nocbs={}", cpu.cpu, cpu.cpu, cpu.cpu)});
    }
  }
  if (spins && facts.cpus_online <= facts.poll_cpus.size()) {
    out.push_back({"cpus", Severity::kWarning, "every CPU of this host spins for the gateway: workers and all else have none",
                   "set dataplane.idle = \"sleep\", or fewer dataplane.poll_lcores"});
  }
  if (out.size() == before) {
    out.push_back({"cpus",
                   Severity::kFine,
                   facts.worker_cpus.empty() ? "the poll cores have their CPUs" : "poll cores and workers have their CPUs",
                   {}});
  }
}

void check_numa(const Facts& facts, Findings& out) {
  for (const PortFacts& port : facts.ports) {
    if (!port.pci || port.pci->numa_node < 0) {
      continue;
    }
    for (const CpuFacts& cpu : facts.poll_cpus) {
      if (cpu.numa_node >= 0 && cpu.numa_node != port.pci->numa_node) {
        out.push_back({"numa", Severity::kWarning,
                       fmt::format("CPU {} is on node {}, the NIC {} on node {}: each packet crosses between them", cpu.cpu,
                                   cpu.numa_node, port.device, port.pci->numa_node),
                       fmt::format("take CPUs of node {} for dataplane.poll_lcores: cat /sys/devices/system/node/node{}/cpulist",
                                   port.pci->numa_node, port.pci->numa_node)});
      }
    }
    const auto node = std::ranges::find(facts.hugepage_nodes, static_cast<uint32_t>(port.pci->numa_node), &MemoryNode::node);
    if (facts.config.dataplane.hugepages && facts.admin != AdminSocket::kAnswers && node != facts.hugepage_nodes.end() &&
        node->free_bytes == 0) {
      out.push_back({"numa", Severity::kWarning,
                     fmt::format("node {}, where the NIC {} is, has no free hugepage", port.pci->numa_node, port.device),
                     fmt::format("echo 512 > /sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages",
                                 port.pci->numa_node)});
    }
  }
}

}  // namespace cw::control::doctor
