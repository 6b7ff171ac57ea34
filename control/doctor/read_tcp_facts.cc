#include "control/doctor/read_tcp_facts.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/crc32c.h"
#include "control/doctor/host_text.h"
#include "control/doctor/read_text.h"
#include "control/doctor/socket_probe.h"
#include "control/doctor/time_bytes.h"

namespace cw::control::doctor {
namespace {

namespace fs = std::filesystem;

bool is_local(const IpAddress& address) {
  if (is_loopback(address)) {
    return true;
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return true;  // not known: nothing is complained of
  }
  bool found = false;
  for (const ifaddrs* each = list; each != nullptr && !found; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) {
      continue;
    }
    if (address.is_v4() && each->ifa_addr->sa_family == AF_INET) {
      found = ntohl(reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr) == address.to_v4();
    } else if (!address.is_v4() && each->ifa_addr->sa_family == AF_INET6) {
      found = std::ranges::equal(reinterpret_cast<sockaddr_in6*>(each->ifa_addr)->sin6_addr.s6_addr, address.raw);
    }
  }
  freeifaddrs(list);
  return found;
}

// "ncat (process 17)": who has a descriptor of a socket that listens there. Processes of others are for root to see.
std::string holder_of(uint16_t port) {
  std::vector<uint64_t> inodes = listening_inodes(read_text("/proc/net/tcp"), port);
  const std::vector<uint64_t> more = listening_inodes(read_text("/proc/net/tcp6"), port);
  inodes.insert(inodes.end(), more.begin(), more.end());
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string id = process.path().filename();
    if (id.empty() || !std::ranges::all_of(id, [](unsigned char c) { return std::isdigit(c) != 0; })) {
      continue;
    }
    std::error_code not_ours;
    for (auto fd = fs::directory_iterator(process.path() / "fd", not_ours); !not_ours && fd != fs::directory_iterator();
         fd.increment(not_ours)) {
      std::error_code gone;
      const std::string link = fs::read_symlink(fd->path(), gone).string();
      if (std::ranges::any_of(inodes, [&](uint64_t inode) { return link == fmt::format("socket:[{}]", inode); })) {
        return fmt::format("{} (process {})", read_word(process.path() / "comm"), id);
      }
    }
  }
  return {};
}

IwarpListenerFacts read_listener(const ListenerConfig& config) {
  IwarpListenerFacts listener;
  const SocketAddress address{config.address.value_or(IpAddress{}), config.port};
  listener.name = config.name;
  listener.address = config.address ? to_string(address) : fmt::format("port {}", config.port);
  listener.port = config.port;
  listener.is_local = !config.address || is_local(*config.address);
  const BindResult tried = try_bind(address);
  listener.bind = tried.bind;
  listener.error = tried.error == 0 ? "" : std::strerror(tried.error);
  if (tried.bind == Bind::kTaken) {
    listener.holder = holder_of(config.port);
  }
  return listener;
}

// The kernel's devices that speak iWARP: siw, and RNICs.
std::string iwarp_device() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", error)) {
    if (read_word(entry.path() / "node_type") == "4:") {  // "4: RNIC"
      return entry.path().filename();
    }
  }
  return {};
}

}  // namespace

void read_tcp_facts(Facts& facts) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.descriptors_max = limit.rlim_cur;
  }
  for (const ListenerConfig& listener : facts.config.listeners) {
    if (listener.transport == TransportKind::kIwarp) {
      facts.iwarp_listeners.push_back(read_listener(listener));
    }
  }
  if (facts.iwarp_listeners.empty()) {
    return;
  }
  facts.tcp.somaxconn = static_cast<uint32_t>(read_number("/proc/sys/net/core/somaxconn"));
  facts.tcp.receive_bytes_max = last_number(read_text("/proc/sys/net/ipv4/tcp_rmem"));
  facts.tcp.send_bytes_max = last_number(read_text("/proc/sys/net/ipv4/tcp_wmem"));
  facts.tcp.first_unprivileged_port =
      static_cast<uint32_t>(read_number("/proc/sys/net/ipv4/ip_unprivileged_port_start", facts.tcp.first_unprivileged_port));
  facts.tcp.iwarp_device = iwarp_device();
  facts.tcp.kernel_rdma_ports = rdma_ports(read_text("/proc/fs/nfsd/portlist"));
  facts.crc32c_bytes_per_second = bytes_per_second([](Bytes bytes) {
    Crc32c crc;
    crc.add(bytes);
    return crc.value();
  });
}

}  // namespace cw::control::doctor
