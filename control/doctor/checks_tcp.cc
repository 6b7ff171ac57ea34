// What iWARP takes of a host: addresses, TCP ports, descriptors, the kernel's TCP.
#include <fmt/core.h>

#include <algorithm>

#include "control/doctor/checks.h"

namespace cw::control::doctor {
namespace {

constexpr uint64_t kBesideClients = 50;     // descriptors for logs, epoll, the admin socket, /metrics
constexpr uint64_t kTcpBytesFew = 1 << 20;  // 100 MB/s at a round trip of 10 ms

bool has_kernel_server(const Facts& facts, uint16_t port) {
  return !facts.tcp.iwarp_device.empty() &&
         std::ranges::find(facts.tcp.kernel_rdma_ports, port) != facts.tcp.kernel_rdma_ports.end();
}

std::string kernel_server_fix(const std::string& name) {
  return fmt::format("/etc/nfs.conf, section [nfsd]: rdma = n; systemctl restart nfs-server; or give listener {} another port",
                     name);
}

void check_taken(const Facts& facts, const IwarpListenerFacts& listener, Findings& out) {
  const std::string who = fmt::format("listener {}: TCP {}", listener.name, listener.address);
  if (facts.admin == AdminSocket::kAnswers && (listener.holder.empty() || listener.holder.starts_with("causewayd"))) {
    out.push_back({"listeners", Severity::kFine, fmt::format("{} is taken: a gateway is running", who), {}});
  } else if (has_kernel_server(facts, listener.port)) {
    out.push_back({"listeners", Severity::kFault,
                   fmt::format("{} is taken by the kernel's NFS server, which serves RDMA on {}", who, facts.tcp.iwarp_device),
                   kernel_server_fix(listener.name)});
  } else if (!listener.holder.empty()) {
    out.push_back({"listeners", Severity::kFault, fmt::format("{} is taken by {}", who, listener.holder),
                   fmt::format("end that program, or give listener {} another port", listener.name)});
  } else {
    const std::string kernel =
        facts.tcp.iwarp_device.empty() ? std::string() : fmt::format(", or by the kernel for {}", facts.tcp.iwarp_device);
    out.push_back({"listeners", Severity::kFault, fmt::format("{} is taken by a program of another user{}", who, kernel),
                   fmt::format("as root: ss -ltnp 'sport = :{}'; cat /proc/fs/nfsd/portlist", listener.port)});
  }
}

void check_listener(const Facts& facts, const IwarpListenerFacts& listener, Findings& out) {
  const std::string who = fmt::format("listener {}: ", listener.name);
  switch (listener.bind) {
    case Bind::kTaken:
      check_taken(facts, listener, out);
      return;
    case Bind::kNotLocal:
      out.push_back({"listeners", Severity::kFault, fmt::format("{}{} is not an address of this host", who, listener.address),
                     "ip address add ADDRESS/PREFIX dev INTERFACE; or correct listener.address; "
                     "on the standby of a fail-over pair: sysctl -w net.ipv4.ip_nonlocal_bind=1 (net.ipv6.ip_nonlocal_bind=1)"});
      return;
    case Bind::kNotPermitted:
      out.push_back({"listeners", Severity::kFault,
                     fmt::format("{}TCP port {} is below {} (net.ipv4.ip_unprivileged_port_start), "
                                 "and this user has no CAP_NET_BIND_SERVICE",
                                 who, listener.port, facts.tcp.first_unprivileged_port),
                     fmt::format("give listener {} a port from {} on (20049 is registered for NFS over RDMA); "
                                 "or the drop-in low-port.conf of /usr/share/causeway/systemd",
                                 listener.name, facts.tcp.first_unprivileged_port)});
      return;
    case Bind::kOther:
      out.push_back({"listeners", Severity::kFault, fmt::format("{}TCP {}: {}", who, listener.address, listener.error),
                     "correct listener.address and listener.port"});
      return;
    case Bind::kFree:
      break;
  }
  if (has_kernel_server(facts, listener.port)) {
    out.push_back({"listeners", Severity::kWarning,
                   fmt::format("{}the kernel's NFS server serves RDMA at port {}, too: "
                               "on {} it may get the clients that should come here",
                               who, listener.port, facts.tcp.iwarp_device),
                   kernel_server_fix(listener.name)});
  }
  if (!listener.is_local) {
    out.push_back(
        {"listeners", Severity::kNote,
         fmt::format("{}{} is not an address of this host now: right for the standby of a fail-over pair", who, listener.address),
         "otherwise: ip address add ADDRESS/PREFIX dev INTERFACE"});
  } else if (listener.port < facts.tcp.first_unprivileged_port) {
    out.push_back({"listeners", Severity::kNote,
                   fmt::format("{}this user may take TCP port {}; the user of the service needs CAP_NET_BIND_SERVICE for it", who,
                               listener.port),
                   "systemd: the drop-in low-port.conf of /usr/share/causeway/systemd"});
  } else {
    out.push_back({"listeners", Severity::kFine, fmt::format("{}TCP {} is free", who, listener.address), {}});
  }
}

// What clients of iWARP can hold at a time.
uint64_t iwarp_clients_max(const Config& config) {
  uint64_t sum = 0;
  for (const ListenerConfig& listener : config.listeners) {
    sum += listener.transport == TransportKind::kIwarp ? connections_max_of(listener, config.limits) : 0;
  }
  return std::min<uint64_t>(sum, config.limits.connections_max);
}

}  // namespace

void check_listeners(const Facts& facts, Findings& out) {
  for (const IwarpListenerFacts& listener : facts.iwarp_listeners) {
    check_listener(facts, listener, out);
  }
}

void check_descriptors(const Facts& facts, Findings& out) {
  const Config& config = facts.config;
  const bool has_tcp_backend =
      std::ranges::find(config.backends, BackendType::kTcp, &BackendConfig::type) != config.backends.end();
  const uint64_t clients = iwarp_clients_max(config);
  const uint64_t half_open = clients > 0 ? config.limits.half_open_max : 0;
  const uint64_t to_backends = has_tcp_backend ? config.limits.connections_max : 0;
  if (clients + to_backends == 0) {
    return;
  }
  const uint64_t wanted = clients + half_open + to_backends + kBesideClients;
  if (!facts.descriptors_max || *facts.descriptors_max >= wanted) {
    out.push_back({"descriptors", Severity::kFine, "there are file descriptors for limits.connections_max clients", {}});
    return;
  }
  out.push_back({"descriptors", Severity::kWarning,
                 fmt::format("this user may have {} file descriptors open, and the gateway may want {}: clients of iWARP {}, "
                             "limits.half_open_max {}, connections to backends {}",
                             *facts.descriptors_max, wanted, clients, half_open, to_backends),
                 fmt::format("shell: ulimit -n {}; systemd: LimitNOFILE={} (the unit has more); or lower limits.connections_max",
                             wanted, wanted)});
}

void check_tcp(const Facts& facts, Findings& out) {
  if (facts.iwarp_listeners.empty()) {
    return;
  }
  const size_t before = out.size();
  if (facts.tcp.somaxconn != 0 && facts.tcp.somaxconn < kTcpBacklog) {
    out.push_back({"tcp", Severity::kWarning,
                   fmt::format("net.core.somaxconn is {}, and the gateway asks for a queue of {} new connections: "
                               "when many clients mount at once, some wait a second or longer",
                               facts.tcp.somaxconn, kTcpBacklog),
                   fmt::format("sysctl -w net.core.somaxconn={} (and in /etc/sysctl.d, to keep it)", kTcpBacklog)});
  }
  const auto check_memory = [&](const char* key, const char* what, uint64_t bytes, const char* usual) {
    if (bytes != 0 && bytes < kTcpBytesFew) {
      out.push_back({"tcp", Severity::kWarning,
                     fmt::format("net.ipv4.{} ends at {} KiB: at a round trip of 10 ms a client {} {} MB/s at most", key,
                                 bytes / 1024, what, bytes / 10'000),
                     fmt::format("sysctl -w net.ipv4.{}='{}' (and in /etc/sysctl.d, to keep it)", key, usual)});
    }
  };
  check_memory("tcp_rmem", "writes", facts.tcp.receive_bytes_max, "4096 131072 6291456");
  check_memory("tcp_wmem", "reads", facts.tcp.send_bytes_max, "4096 16384 4194304");
  if (out.size() == before) {
    out.push_back({"tcp", Severity::kFine, "the kernel's TCP has queues and buffers as iWARP wants them", {}});
  }
}

}  // namespace cw::control::doctor
