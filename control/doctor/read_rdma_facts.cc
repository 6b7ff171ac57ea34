#include "control/doctor/read_rdma_facts.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <grp.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <string_view>
#include <system_error>

#include "control/config/kernel_address.h"
#include "control/doctor/host_text.h"
#include "control/doctor/rdma_devices.h"
#include "control/doctor/read_text.h"

namespace cw::control::doctor {
namespace {

namespace fs = std::filesystem;
constexpr const char* kServiceUser = "causeway";
constexpr size_t kInfinibandAddressBytes = 20;  // of an interface: flags and queue pair, then the port's GID
constexpr size_t kGidBytes = 16;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// "4: ACTIVE" -> "ACTIVE".
std::string behind_colon(const std::string& text) {
  const size_t colon = text.find(": ");
  const size_t begin = colon == std::string::npos ? 0 : colon + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// "02:00:00:00:00:01" of an interface.
std::vector<uint8_t> hardware_address(const fs::path& interface) {
  std::vector<uint8_t> bytes;
  std::istringstream text(read_word(interface / "address"));
  for (std::string byte; std::getline(text, byte, ':');) {
    bytes.push_back(static_cast<uint8_t>(std::strtoul(byte.c_str(), nullptr, 16)));
  }
  return bytes;
}

bool may_open(const fs::path& path, const RdmaHost::User& user) {
  if (user.name.empty()) {
    return access(path.c_str(), R_OK | W_OK) == 0;
  }
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return false;
  }
  const bool is_of_group = std::ranges::find(user.groups, status.st_gid) != user.groups.end();
  const mode_t wanted = status.st_uid == user.id ? S_IRUSR | S_IWUSR : is_of_group ? S_IRGRP | S_IWGRP : S_IROTH | S_IWOTH;
  return (status.st_mode & wanted) == wanted;
}

NodeFacts read_node(const RdmaHost& host, const std::string& name) {
  NodeFacts node{.path = "/dev/infiniband/" + name};
  const fs::path path = host.root / "dev/infiniband" / name;
  std::error_code error;
  node.exists = fs::exists(path, error);
  node.may_open = may_open(path, host.user);
  return node;
}

std::vector<GidFacts> read_gids(const fs::path& port) {
  std::vector<GidFacts> gids;
  for (const std::string& index : names_in(port / "gids")) {
    const auto gid = parse_ip(read_word(port / "gids" / index));
    if (gid && *gid != IpAddress{}) {
      gids.push_back({*gid, read_word(port / "gid_attrs/ndevs" / index),
                      read_text(port / "gid_attrs/types" / index).starts_with("RoCE v2")});
    }
  }
  return gids;
}

// The kernel does not say for every kind of port; hardware addresses do.
std::vector<std::string> interfaces_of(const RdmaHost& host, const fs::path& device, const RdmaPortFacts& port) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (!name.empty() && !contains(names, name)) {
      names.push_back(name);
    }
  };
  add(read_word(device / "parent"));  // of rxe
  for (const GidFacts& gid : port.gids) {
    add(gid.interface);
  }
  if (!names.empty()) {
    return names;
  }
  // A GID of iWARP begins with the MAC address; an interface of InfiniBand has its port's GID in its hardware address.
  const fs::path net = host.root / "sys/class/net";
  for (const std::string& name : names_in(net)) {
    const std::vector<uint8_t> address = hardware_address(net / name);
    const bool is_infiniband = address.size() == kInfinibandAddressBytes;
    const size_t skipped = is_infiniband ? kInfinibandAddressBytes - kGidBytes : 0;
    const bool is_nil = std::ranges::all_of(address, [](uint8_t byte) { return byte == 0; });
    if (is_infiniband == port.is_infiniband && !is_nil && std::ranges::any_of(port.gids, [&](const GidFacts& gid) {
          return std::equal(address.begin() + static_cast<ptrdiff_t>(skipped), address.end(), gid.gid.raw.begin());
        })) {
      add(name);
    }
  }
  return names;
}

RdmaDeviceFacts read_device(const RdmaHost& host, const std::string& name) {
  const fs::path folder = host.root / "sys/class/infiniband" / name;
  RdmaDeviceFacts device;
  device.name = name;
  device.is_iwarp = read_word(folder / "node_type") == "4:";  // "4: RNIC"
  std::error_code error;
  device.is_software = !fs::exists(folder / "device", error);
  for (const std::string& number : names_in(folder / "ports")) {
    const fs::path path = folder / "ports" / number;
    RdmaPortFacts port;
    port.number = static_cast<uint32_t>(std::strtoul(number.c_str(), nullptr, 10));
    port.state = behind_colon(read_text(path / "state"));
    port.physical_state = behind_colon(read_text(path / "phys_state"));
    port.is_infiniband = read_word(path / "link_layer") == "InfiniBand";
    port.gids = read_gids(path);
    port.interfaces = interfaces_of(host, folder, port);
    device.ports.push_back(std::move(port));
  }
  const fs::path nodes = host.root / "sys/class/infiniband_verbs";
  for (const std::string& node : names_in(nodes)) {
    if (read_word(nodes / node / "ibdev") == name) {
      device.node = read_node(host, node);
    }
  }
  return device;
}

std::vector<KernelInterfaceFacts> read_interfaces(const RdmaHost& host) {
  std::vector<KernelInterfaceFacts> interfaces;
  const fs::path net = host.root / "sys/class/net";
  for (const std::string& name : names_in(net)) {
    KernelInterfaceFacts interface;
    interface.name = name;
    interface.mtu = static_cast<uint32_t>(read_number(net / name / "mtu"));
    std::error_code error;
    interface.driver = fs::read_symlink(net / name / "device/driver", error).filename();
    for (const auto& [owner, address] : host.addresses) {
      if (owner == name) {
        interface.addresses.push_back(address);
      }
    }
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

// Loaded, or to be loaded. Where nobody knows (a container), nothing is complained of.
bool has_module(const RdmaHost& host, const std::string& name) {
  const fs::path folder = host.root / "lib/modules" / host.kernel;
  const std::string loadable = read_text(folder / "modules.dep");
  std::error_code error;
  const std::string file = "/" + name + ".ko";
  return loadable.empty() || loadable.find(file) != std::string::npos || fs::exists(host.root / "sys/module" / name, error) ||
         read_text(folder / "modules.builtin").find(file) != std::string::npos;
}

// The unit has a /dev of its own with nothing in it that is a device, unless a drop-in says so.
bool service_sees_none(const RdmaHost& host) {
  constexpr std::array kFolders = {"etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"};
  bool has_unit = false;
  for (const char* folder : kFolders) {
    const fs::path unit = host.root / folder / "causewayd.service";
    const std::string text = read_text(unit);
    has_unit = has_unit || text.find("PrivateDevices=yes") != std::string::npos;
    const fs::path drop_ins = unit.string() + ".d";
    for (const std::string& name : names_in(drop_ins)) {
      if (read_text(drop_ins / name).find("rdma_cm") != std::string::npos) {
        return false;
      }
    }
  }
  return has_unit;
}

std::string library_that_is_missing() {
  for (const char* name : {"libibverbs.so.1", "librdmacm.so.1"}) {
    if (dlopen(name, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      return name;
    }
  }
  return {};
}

std::vector<std::pair<std::string, IpAddress>> kernel_addresses() {
  std::vector<std::pair<std::string, IpAddress>> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return addresses;
  }
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) {
      sockaddr_storage raw{};
      std::memcpy(&raw, each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      addresses.emplace_back(each->ifa_name, read_address(raw).address);
    }
  }
  freeifaddrs(list);
  return addresses;
}

RdmaHost::User service_user() {
  RdmaHost::User user;
  const passwd* entry = geteuid() == 0 ? getpwnam(kServiceUser) : nullptr;
  if (entry == nullptr) {
    return user;
  }
  user.name = kServiceUser;
  user.id = entry->pw_uid;
  int count = 256;
  user.groups.resize(static_cast<size_t>(count));
  (void)getgrouplist(kServiceUser, entry->pw_gid, user.groups.data(), &count);
  user.groups.resize(static_cast<size_t>(std::clamp(count, 0, 256)));
  return user;
}

}  // namespace

RdmaHost this_host() {
  RdmaHost host;
  utsname names{};
  host.kernel = uname(&names) == 0 ? names.release : "";
  host.addresses = kernel_addresses();
  host.user = service_user();
  return host;
}

RdmaFacts read_rdma(const RdmaHost& host) {
  RdmaFacts rdma;
  rdma.user = host.user.name;
  rdma.kernel = host.kernel;
  for (const std::string& name : names_in(host.root / "sys/class/infiniband")) {
    rdma.devices.push_back(read_device(host, name));
  }
  rdma.interfaces = read_interfaces(host);
  rdma.connection_manager = read_node(host, "rdma_cm");
  rdma.has_providers = !names_in(host.root / "etc/libibverbs.d").empty();
  rdma.has_rxe = has_module(host, "rdma_rxe");
  rdma.has_siw = has_module(host, "siw");
  rdma.service_sees_none = service_sees_none(host);
  return rdma;
}

void read_rdma_facts(Facts& facts) {
  if (verbs_listeners(facts.config).empty()) {
    return;
  }
  facts.rdma = read_rdma(this_host());
  facts.rdma.library = library_that_is_missing();
  facts.tcp.kernel_rdma_ports = rdma_ports(read_text("/proc/fs/nfsd/portlist"));
}

}  // namespace cw::control::doctor
