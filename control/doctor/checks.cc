#include "control/doctor/checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace cw::control::doctor {
namespace {

constexpr std::array<Check, 22> kChecks = {{
    {"configuration", "the configuration file is valid", check_configuration},
    {"hugepages", "there are free hugepages for dataplane.memory_mb", check_hugepages},
    {"memory", "there is memory for dataplane.memory_mb", check_memory},
    {"memlock", "the gateway may lock its memory", check_memlock},
    {"capabilities", "the gateway may open its devices", check_capabilities},
    {"devices", "NICs are bound to a driver that DPDK can use; IOMMU, vfio; interfaces are there and up", check_devices},
    {"mtu", "ports carry RoCE packets of 4096 bytes", check_mtu},
    {"firewall", "UDP 4791 (RoCE, rxe) and the TCP ports of iWARP (siw) are not filtered", check_firewall},
    {"sockets", "the admin socket and the port of /metrics are free, or a gateway answers there", check_ports_taken},
    {"names", "users and groups of admin.admins, admin_groups and group are there", check_names},
    {"listeners", "iWARP: the address and the TCP port of each listener can be taken", check_listeners},
    {"descriptors", "there are file descriptors for limits.connections_max", check_descriptors},
    {"tcp", "iWARP: queues and buffers of the kernel's TCP", check_tcp},
    {"rdma", "verbs: RDMA devices are there, their ports are active, and the gateway may open them", check_rdma},
    {"rdma_address", "verbs: the address of each listener is its device's", check_rdma_addresses},
    {"rdma_memory", "verbs: the gateway may lock the buffers that devices have registered", check_rdma_memory},
    {"rdma_mtu", "verbs: interfaces of RoCE devices carry packets of 4096 bytes", check_rdma_mtu},
    {"backends", "backends take connections", check_backends},
    {"clock", "the time-stamp counter can be used", check_clock},
    {"cpus", "poll cores have CPUs of their own", check_cpus},
    {"numa", "poll cores, NICs and hugepages are on one node", check_numa},
    {"crc", "the checksum engine is fast", check_crc},
}};

// Below this the checksum of each packet is what bounds the gateway.
constexpr double kCrcSlow = 4e9;

}  // namespace

const char* to_string(Severity severity) noexcept {
  constexpr std::array kNames = {"fine", "note", "warning", "fault"};
  return kNames[static_cast<size_t>(severity)];
}

std::span<const Check> checks() {
  return kChecks;
}

Findings judge(const Facts& facts) {
  Findings out;
  for (const Check& check : kChecks) {
    check.judge(facts, out);
  }
  return out;
}

void check_configuration(const Facts& facts, Findings& out) {
  for (const Problem& problem : facts.config_problems) {
    const bool is_error = problem.severity == control::Severity::kError;
    out.push_back({"configuration", is_error ? Severity::kFault : Severity::kWarning, to_string(problem),
                   fmt::format("edit {}; causewayctl config check {}", facts.config_file, facts.config_file)});
  }
  if (facts.config_problems.empty()) {
    out.push_back({"configuration", Severity::kFine, fmt::format("{} is valid", facts.config_file), {}});
  }
}

void check_names(const Facts& facts, Findings& out) {
  if (!facts.admin_problem.empty()) {
    out.push_back({"names", Severity::kFault, facts.admin_problem, "getent passwd, and getent group, show those there are"});
  }
}

void check_ports_taken(const Facts& facts, Findings& out) {
  switch (facts.admin) {
    case AdminSocket::kNone:
      out.push_back({"sockets", Severity::kFine, fmt::format("{} is free: no gateway is running", facts.admin_path), {}});
      break;
    case AdminSocket::kAnswers:
      out.push_back({"sockets", Severity::kNote, fmt::format("a gateway is running and answers at {}", facts.admin_path),
                     fmt::format("causewayctl --socket {} status", facts.admin_path)});
      break;
    case AdminSocket::kStale:
      out.push_back({"sockets",
                     Severity::kNote,
                     fmt::format("{} was left behind by a gateway that was killed; the next one removes it", facts.admin_path),
                     {}});
      break;
    case AdminSocket::kNotPermitted:
      out.push_back({"sockets", Severity::kNote, fmt::format("{} is there, and this user may not open it", facts.admin_path),
                     "run this as root, or as a member of the socket's group"});
      break;
    case AdminSocket::kMayNotMake:
      out.push_back({"sockets", Severity::kWarning,
                     fmt::format("this user may not make {}: started by this user, the gateway ends at once", facts.admin_path),
                     "start the service, whose user may; or set admin.socket to a place of this user"});
      break;
    case AdminSocket::kNoDirectory: {
      const std::string directory = facts.admin_path.substr(0, facts.admin_path.rfind('/'));
      out.push_back({"sockets", Severity::kWarning,
                     fmt::format("{} does not exist; the gateway makes its last part only", directory),
                     fmt::format("install -d -o causeway -g causeway {}", directory)});
      break;
    }
  }
  if (facts.metrics && !facts.metrics->is_free && facts.admin != AdminSocket::kAnswers) {
    out.push_back({"sockets", Severity::kFault,
                   fmt::format("metrics.listen: TCP {} is taken by another program", facts.metrics->address),
                   "ss -ltnp shows by whom; set metrics.listen to another port"});
  }
}

void check_backends(const Facts& facts, Findings& out) {
  for (const BackendFacts& backend : facts.backends) {
    const std::string who = fmt::format("backend {} ({})", backend.name, backend.address);
    switch (backend.reach) {
      case Reach::kYes:
        out.push_back({"backends", Severity::kFine, who + " takes connections", {}});
        break;
      case Reach::kRefused:
        out.push_back({"backends", Severity::kFault, who + " refuses connections: nothing listens at that port",
                       "start the server, or correct backend.address (NFS servers: 2049; rpcinfo -p shows others)"});
        break;
      case Reach::kTimeout:
        out.push_back({"backends", Severity::kFault, who + " does not answer: it is down, or a firewall drops TCP to it",
                       fmt::format("ping its address; allow TCP {} from this host", backend.address)});
        break;
      case Reach::kNoRoute:
        out.push_back({"backends", Severity::kFault, who + " cannot be reached: there is no route",
                       fmt::format("ip route get {}", backend.address.substr(0, backend.address.rfind(':')))});
        break;
      case Reach::kOther:
        out.push_back({"backends", Severity::kFault, fmt::format("{}: {}", who, backend.error), "correct backend.address"});
        break;
    }
  }
}

void check_clock(const Facts& facts, Findings& out) {
  if (!facts.tsc_is_invariant) {
    out.push_back({"clock", Severity::kFault,
                   "the time-stamp counter of this CPU does not run at one rate (no constant_tsc): timers would be wrong",
                   "use another host, or have the hypervisor pass an invariant TSC"});
  } else if (facts.clock_source != "tsc" && !facts.clock_source.empty()) {
    out.push_back(
        {"clock", Severity::kNote,
         fmt::format("the kernel's clock source is {}, not tsc; poll cores read the TSC all the same", facts.clock_source),
         "on bare metal: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"});
  } else {
    out.push_back({"clock", Severity::kFine, "the time-stamp counter runs at one rate", {}});
  }
}

void check_crc(const Facts& facts, Findings& out) {
  const auto check = [&](double speed, const char* what, const char* wants) {
    if (speed <= 0) {
      return;
    }
    const bool slow = speed < kCrcSlow;
    out.push_back({"crc", slow ? Severity::kWarning : Severity::kFine,
                   fmt::format("checksums of {}: {:.1f} GB/s{}", what, speed / 1e9, slow ? ", too slow for fast links" : ""),
                   slow ? fmt::format("the CPU needs {}; in a guest, pass the host's CPU model", wants) : ""});
  };
  check(facts.crc_bytes_per_second, "4096-byte packets", "PCLMULQDQ (grep pclmulqdq /proc/cpuinfo)");
  check(facts.crc32c_bytes_per_second, "4096-byte FPDUs (iWARP)", "SSE4.2 and PCLMULQDQ (grep pclmulqdq /proc/cpuinfo)");
}

}  // namespace cw::control::doctor
