#include "control/doctor/read_facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "control/admin/admin_peer.h"
#include "control/config/build_features.h"
#include "control/config/config_file.h"
#include "control/config/kernel_address.h"
#include "control/doctor/host_text.h"
#include "control/doctor/interface_queues.h"
#include "control/doctor/kernel_interface.h"
#include "control/doctor/read_rdma_facts.h"
#include "control/doctor/read_tcp_facts.h"
#include "control/doctor/read_text.h"
#include "control/doctor/socket_probe.h"
#include "control/doctor/time_bytes.h"
#include "control/socket/unique_fd.h"
#include "rocev2/wire/icrc.h"

namespace cw::control::doctor {
namespace {

namespace fs = std::filesystem;
constexpr int kConnectTimeoutMs = 1000;

std::string link_name(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? std::string() : target.filename().string();
}

// What a program says; empty and false when it cannot be run or fails.
bool output_of(const char* command, std::string& out) {
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) {
    return false;
  }
  std::array<char, 4096> buffer;
  constexpr size_t kBytesMax = 4 << 20;
  for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0 && out.size() < kBytesMax;) {
    out.append(buffer.data(), got);
  }
  return pclose(pipe) == 0;
}

// Free and total bytes of all sizes of hugepages below a folder of the kernel.
void add_hugepages(const fs::path& folder, uint64_t& total, uint64_t& free) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    uint64_t kib = 0;
    if (std::sscanf(entry.path().filename().c_str(), "hugepages-%lukB", &kib) == 1) {
      total += read_number(entry.path() / "nr_hugepages") * kib * 1024;
      free += read_number(entry.path() / "free_hugepages") * kib * 1024;
    }
  }
}

void read_memory(Facts& facts) {
  add_hugepages("/sys/kernel/mm/hugepages", facts.hugepages_total_bytes, facts.hugepages_free_bytes);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", error)) {
    MemoryNode node;
    uint64_t total = 0;
    if (std::sscanf(entry.path().filename().c_str(), "node%u", &node.node) == 1) {
      add_hugepages(entry.path() / "hugepages", total, node.free_bytes);
      facts.hugepage_nodes.push_back(node);
    }
  }
  const std::string meminfo = read_text("/proc/meminfo");
  facts.memory_total_bytes = meminfo_bytes(meminfo, "MemTotal:");
  facts.memory_available_bytes = meminfo_bytes(meminfo, "MemAvailable:");
  // A container's own; "max" reads as 0.
  if (const uint64_t most = read_number("/sys/fs/cgroup/memory.max"); most > 0) {
    facts.memory_total_bytes = std::min(facts.memory_total_bytes, most);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.memlock_bytes = limit.rlim_cur;
  }
  const uint64_t mask = effective_capabilities(read_text("/proc/self/status"));
  constexpr uint32_t kNetBindService = 10;
  constexpr uint32_t kNetAdmin = 12;
  constexpr uint32_t kNetRaw = 13;
  constexpr uint32_t kIpcLock = 14;
  constexpr uint32_t kBpf = 39;
  facts.capabilities = {.ipc_lock = (mask >> kIpcLock & 1) != 0,
                        .net_raw = (mask >> kNetRaw & 1) != 0,
                        .net_admin = (mask >> kNetAdmin & 1) != 0,
                        .net_bind_service = (mask >> kNetBindService & 1) != 0,
                        .bpf = (mask >> kBpf & 1) != 0};
}

PciFacts read_pci(const std::string& address) {
  const fs::path folder = "/sys/bus/pci/devices/" + address;
  PciFacts pci;
  pci.exists = fs::exists(folder);
  pci.driver = link_name(folder / "driver");
  pci.vendor = read_word(folder / "vendor");
  const std::string node = read_word(folder / "numa_node");
  pci.numa_node = node.empty() || node.front() == '-' ? -1 : std::atoi(node.c_str());
  const std::string group = link_name(folder / "iommu_group");
  pci.has_iommu_group = !group.empty();
  pci.group_is_accessible = access(("/dev/vfio/" + (group.empty() ? "noiommu-0" : group)).c_str(), R_OK | W_OK) == 0;
  return pci;
}

// What the kernel's addresses say of the interface.
void read_addresses(const PortConfig& port, InterfaceFacts& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return;
  }
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || interface.name != each->ifa_name) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = each->ifa_addr->sa_family;
    const void* raw = family == AF_INET    ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr)
                      : family == AF_INET6 ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(each->ifa_addr)->sin6_addr)
                                           : nullptr;
    if (raw != nullptr && inet_ntop(family, raw, text.data(), text.size()) != nullptr) {
      const auto address = parse_ip(text.data());
      interface.has_gateway_address |=
          std::ranges::any_of(port.addresses, [&](const IpPrefix& own) { return address && own.address == *address; });
      interface.has_address |= address && !is_link_local(*address);
    }
  }
  freeifaddrs(list);
}

InterfaceFacts read_interface(const std::string& name, const PortConfig& port) {
  InterfaceFacts interface;
  interface.name = name;
  const fs::path folder = fs::path("/sys/class/net") / name;
  interface.exists = fs::exists(folder);
  interface.mtu = static_cast<uint32_t>(read_number(folder / "mtu"));
  interface.is_up = (std::strtoul(read_word(folder / "flags").c_str(), nullptr, 16) & IFF_UP) != 0;
  interface.receive_queues = receive_queues_of(name);
  read_addresses(port, interface);
  return interface;
}

uint32_t queue_count(const std::string& device) {
  constexpr std::string_view kKey = ",queue_count=";
  const size_t at = device.find(kKey);
  return at == std::string::npos ? 1 : static_cast<uint32_t>(std::strtoul(device.c_str() + at + kKey.size(), nullptr, 10));
}

// Debian has each driver of DPDK as a library of its own, whose name ends in .so.23 unless DPDK's headers are installed too.
// Where there is no such folder, DPDK has them otherwise.
bool lacks_driver(const std::string& driver) {
  const std::string library = driver == "net_virtio_user" ? "net_virtio" : driver == "net_bonding" ? "net_bond" : driver;
  std::error_code error;
  bool has_folder = false;
  for (const auto& architecture : fs::directory_iterator("/usr/lib", error)) {
    for (const auto& folder : fs::directory_iterator(architecture.path() / "dpdk", error)) {
      has_folder = true;
      for (const auto& file : fs::directory_iterator(folder.path(), error)) {
        if (file.path().filename().string().starts_with(fmt::format("librte_{}.so", library))) {
          return false;
        }
      }
    }
  }
  return has_folder;
}

void read_ports(Facts& facts) {
  std::error_code error;
  facts.has_tun = access("/dev/net/tun", R_OK | W_OK) == 0;
  facts.has_xdp_program = kHasXdpProgram;
  facts.has_iommu_groups = !fs::is_empty("/sys/kernel/iommu_groups", error) && !error;
  facts.vfio_is_loaded = fs::exists("/sys/module/vfio_pci");
  facts.vfio_without_iommu = read_word("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode") == "Y";
  for (const PortConfig& config : facts.config.ports) {
    PortFacts& port = facts.ports.emplace_back();
    port.device = config.device;
    port.mtu = config.mtu;
    if (is_pci_address(config.device)) {
      port.pci = read_pci(config.device);
    }
    const std::optional<std::string> driver = driver_of(config.device);
    port.names_driver = port.pci || driver;
    port.missing_driver = driver && lacks_driver(*driver) ? *driver : "";
    port.beside_kernel = config.beside_kernel;
    port.names_addresses = !config.addresses.empty();
    port.by_xdp = is_af_xdp(config.device);
    port.queues = queue_count(config.device);
    if (const auto name = port.pci && !config.beside_kernel ? std::nullopt : kernel_interface_of(config.device)) {
      port.interface = read_interface(*name, config);
    }
    if (!config.exception_tap.empty()) {
      port.tap = read_interface(config.exception_tap, config);
    }
  }
}

BackendFacts read_backend(const BackendConfig& config, const SocketAddress& server) {
  BackendFacts backend{.name = config.name, .address = to_string(server), .reach = Reach::kYes, .error = {}};
  sockaddr_storage address{};
  const socklen_t length = write_address(server, address);
  const UniqueFd fd(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiter{fd.get(), POLLOUT, 0};
    if (poll(&waiter, 1, kConnectTimeoutMs) == 0) {
      error = ETIMEDOUT;
    } else {
      socklen_t size = sizeof(error);
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  backend.reach = error == 0                                      ? Reach::kYes
                  : error == ECONNREFUSED                         ? Reach::kRefused
                  : error == ETIMEDOUT                            ? Reach::kTimeout
                  : error == ENETUNREACH || error == EHOSTUNREACH ? Reach::kNoRoute
                                                                  : Reach::kOther;
  backend.error = error == 0 ? "" : std::strerror(error);
  return backend;
}

AdminSocket read_admin(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!fs::exists(path, error)) {
    // The gateway makes the socket's directory, but none above it.
    const fs::path above = fs::exists(folder, error) ? folder : folder.parent_path();
    return !fs::exists(above, error)                 ? AdminSocket::kNoDirectory
           : access(above.c_str(), W_OK | X_OK) != 0 ? AdminSocket::kMayNotMake
                                                     : AdminSocket::kNone;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return AdminSocket::kAnswers;
  }
  return errno == EACCES || errno == EPERM ? AdminSocket::kNotPermitted : AdminSocket::kStale;
}

void read_network(Facts& facts) {
  const bool has_nft = output_of("nft list ruleset 2>/dev/null", facts.firewall);
  const bool has_iptables = output_of("iptables-save 2>/dev/null", facts.firewall);
  // Where root can run neither program, nobody has made rules with them.
  facts.firewall_is_readable = has_nft || has_iptables || geteuid() == 0;
  for (const BackendConfig& backend : facts.config.backends) {
    for (const SocketAddress& server : servers_of(backend)) {
      facts.backends.push_back(read_backend(backend, server));
    }
  }
  facts.admin_path = admin_socket_path(facts.config);
  facts.admin = read_admin(facts.admin_path);
  (void)resolve_policy(facts.config.admin, facts.admin_problem);
  if (facts.config.metrics.listen) {
    const BindResult tried = try_bind(*facts.config.metrics.listen);
    facts.metrics = ListenFacts{to_string(*facts.config.metrics.listen), tried.bind != Bind::kTaken};
  }
}

int32_t node_of(uint32_t cpu) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/sys/devices/system/cpu/cpu{}", cpu), error)) {
    int32_t node = -1;
    if (std::sscanf(entry.path().filename().c_str(), "node%d", &node) == 1) {
      return node;
    }
  }
  return -1;
}

void read_cpus(Facts& facts) {
  const std::vector<uint32_t> online = parse_cpu_list(read_text("/sys/devices/system/cpu/online"));
  const std::vector<uint32_t> isolated = parse_cpu_list(read_text("/sys/devices/system/cpu/isolated"));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool knows_allowed = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  facts.cpus_online = static_cast<uint32_t>(std::max<size_t>(online.size(), 1));
  const auto facts_of = [&](uint32_t cpu) {
    const auto holds = [cpu](const std::vector<uint32_t>& list) { return std::ranges::find(list, cpu) != list.end(); };
    // isolcpus= takes a CPU out of every mask, and a thread can be bound to it all the same.
    return CpuFacts{.cpu = cpu,
                    .numa_node = node_of(cpu),
                    .is_online = holds(online),
                    .is_allowed = !knows_allowed || CPU_ISSET(cpu, &allowed) || holds(isolated),
                    .is_isolated = holds(isolated)};
  };
  for (const uint32_t cpu : poll_cpus(facts.config)) {
    facts.poll_cpus.push_back(facts_of(cpu));
  }
  for (const uint32_t cpu : facts.config.dataplane.worker_lcores) {
    facts.worker_cpus.push_back(facts_of(cpu));
  }
  facts.clock_source = read_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.tsc_is_invariant = has_invariant_tsc(read_text("/proc/cpuinfo"));
  if (!facts.config.ports.empty()) {
    facts.crc_bytes_per_second = bytes_per_second([](Bytes packet) { return wire::Icrc(packet).value(); });
  }
}

}  // namespace

Facts read_facts(const std::string& config_file) {
  Facts facts;
  facts.config_file = config_file;
  LoadedConfig loaded = load_config(config_file);
  facts.config_problems = std::move(loaded.problems);
  facts.config = std::move(loaded.config);
  read_memory(facts);
  read_ports(facts);
  read_network(facts);
  read_tcp_facts(facts);
  read_rdma_facts(facts);
  read_cpus(facts);
  return facts;
}

}  // namespace cw::control::doctor
