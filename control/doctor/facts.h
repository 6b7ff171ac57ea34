// What causewayctl doctor knows of a host and a configuration before it judges. Plain values: read_facts() fills them from the
// system, tests make them up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/config/problem.h"

namespace cw::control::doctor {

// Whether something may be connected to, or listened on.
enum class Reach : uint8_t { kYes, kRefused, kTimeout, kNoRoute, kOther };

struct MemoryNode {
  uint32_t node = 0;
  uint64_t free_bytes = 0;  // in hugepages
};

struct PciFacts {
  bool exists = false;
  std::string driver;      // of the kernel, "" = none
  std::string vendor;      // "0x15b3"
  int32_t numa_node = -1;  // -1 = unknown, or there is one
  bool has_iommu_group = false;
  bool group_is_accessible = false;  // /dev/vfio/GROUP can be opened by this user
};

struct InterfaceFacts {
  std::string name;
  bool exists = false;
  bool is_up = false;
  uint32_t mtu = 0;
  bool has_gateway_address = false;  // one of the gateway's addresses is the kernel's too
  bool has_address = false;          // the kernel has one, link-local ones aside
  uint32_t receive_queues = 0;       // 0 = unknown
};

struct PortFacts {
  std::string device;
  bool names_driver = true;     // it is a PCI address, or begins with the name of a driver
  std::string missing_driver;   // of DPDK, that this host does not have: "net_memif"; empty: it has it, or that is not known
  uint32_t mtu = 0;             // wanted
  std::optional<PciFacts> pci;  // of a PCI address
  // Of a virtual device on an interface of the kernel, and of a NIC beside the kernel.
  std::optional<InterfaceFacts> interface;
  bool beside_kernel = false;
  bool names_addresses = true;        // in the configuration
  bool by_xdp = false;                // beside the kernel by an XDP program, else by rules of the driver
  uint32_t queues = 1;                // that an AF_XDP device reads
  std::optional<InterfaceFacts> tap;  // of the exception path
};

struct BackendFacts {
  std::string name;
  std::string address;
  Reach reach = Reach::kYes;
  std::string error;  // of kOther
};

struct ListenFacts {
  std::string address;
  bool is_free = true;
};

// What came of an attempt to take an address and a TCP port.
enum class Bind : uint8_t { kFree, kTaken, kNotLocal, kNotPermitted, kOther };

struct IwarpListenerFacts {
  std::string name;
  std::string address;  // "192.0.2.1:20049"; "port 20049" of all addresses
  uint16_t port = 0;
  bool is_local = true;  // the kernel has the address
  Bind bind = Bind::kFree;
  std::string error;   // of what is not free
  std::string holder;  // of kTaken: "ncat (process 17)"; empty: not known, or the kernel itself
};

// The kernel's TCP, as iWARP uses it. 0: not known.
struct TcpFacts {
  uint32_t somaxconn = 0;
  uint64_t receive_bytes_max = 0;  // of a connection, net.ipv4.tcp_rmem
  uint64_t send_bytes_max = 0;     // net.ipv4.tcp_wmem
  uint32_t first_unprivileged_port = 1024;
  std::string iwarp_device;                 // of the kernel, "siw0"; empty: there is none
  std::vector<uint16_t> kernel_rdma_ports;  // of the kernel's NFS server; for root to see (of verbs, too)
};

// A file below /dev/infiniband.
struct NodeFacts {
  std::string path;
  bool exists = false;
  bool may_open = false;  // for reading and writing, by RdmaFacts::user
};

// An entry of a port's GID table that is in use.
struct GidFacts {
  IpAddress gid;
  std::string interface;  // of the kernel; empty: of none, or not known
  bool is_roce_v2 = false;
};

struct RdmaPortFacts {
  uint32_t number = 1;
  std::string state;           // "ACTIVE", "DOWN"
  std::string physical_state;  // "LinkUp", "Disabled"
  bool is_infiniband = false;  // the link layer; false: Ethernet
  // Of the kernel, on the same link; the first is the port itself, others are its VLANs and the like.
  std::vector<std::string> interfaces;
  std::vector<GidFacts> gids;
};

// What rdma-core could drive.
struct RdmaDeviceFacts {
  std::string name;
  bool is_iwarp = false;
  bool is_software = false;  // rxe or siw: packets pass the kernel's network
  std::vector<RdmaPortFacts> ports;
  NodeFacts node;  // without a path: the kernel has made none
};

struct KernelInterfaceFacts {
  std::string name;
  uint32_t mtu = 0;
  std::string driver;  // "mlx5_core"; empty: none, or not known
  std::vector<IpAddress> addresses;
};

// What transport = "verbs" takes of a host. Read when a listener has it.
struct RdmaFacts {
  std::string library;  // of rdma-core, that cannot be loaded; empty: none
  bool has_providers = true;
  std::vector<RdmaDeviceFacts> devices;          // by name
  std::vector<KernelInterfaceFacts> interfaces;  // by name
  NodeFacts connection_manager;
  std::string user;  // whose rights NodeFacts::may_open tells; empty: this user's
  std::string kernel;
  bool has_rxe = true;  // the kernel's module is there, loaded or not
  bool has_siw = true;
  bool service_sees_none = false;  // there is a systemd unit, and no drop-in that lets it see RDMA devices
};

enum class AdminSocket : uint8_t { kNone, kAnswers, kStale, kNotPermitted, kNoDirectory, kMayNotMake };

struct CpuFacts {
  uint32_t cpu = 0;
  int32_t numa_node = -1;
  bool is_online = true;
  bool is_allowed = true;  // to this process
  bool is_isolated = false;
};

struct Capabilities {
  bool ipc_lock = true;
  bool net_raw = true;
  bool net_admin = true;
  bool net_bind_service = true;
  bool bpf = true;
};

struct Facts {
  std::string config_file;
  std::vector<Problem> config_problems;
  Config config;  // as far as it could be read

  // Memory
  uint64_t hugepages_total_bytes = 0;
  uint64_t hugepages_free_bytes = 0;
  std::vector<MemoryNode> hugepage_nodes;
  std::optional<uint64_t> memlock_bytes;  // absent: unlimited
  uint64_t memory_total_bytes = 0;        // of the host, or what its cgroup may have when that is less; 0: not known
  uint64_t memory_available_bytes = 0;    // of the host, without hugepages; 0: not known
  Capabilities capabilities;

  // Devices
  bool has_iommu_groups = false;
  bool vfio_is_loaded = false;
  bool vfio_without_iommu = false;  // its unsafe mode is on
  std::vector<PortFacts> ports;
  bool has_tun = true;          // /dev/net/tun can be opened by this user
  bool has_xdp_program = true;  // causewayd was built with clang and libbpf

  // Network
  std::string firewall;  // rules as nft or iptables-save lists them; empty: none, or they cannot be read
  bool firewall_is_readable = true;
  std::vector<BackendFacts> backends;
  std::optional<ListenFacts> metrics;
  std::vector<IwarpListenerFacts> iwarp_listeners;
  TcpFacts tcp;
  RdmaFacts rdma;
  std::optional<uint64_t> descriptors_max;  // absent: unlimited
  std::string admin_path;
  AdminSocket admin = AdminSocket::kNone;
  std::string admin_problem;  // what is wrong with the users and groups of [admin]; empty: nothing

  // Processors
  std::vector<CpuFacts> poll_cpus;
  std::vector<CpuFacts> worker_cpus;  // those that the configuration names
  uint32_t cpus_online = 1;
  std::string clock_source;
  bool tsc_is_invariant = true;
  double crc_bytes_per_second = 0;     // of RoCE packets, measured; 0 = not measured
  double crc32c_bytes_per_second = 0;  // of iWARP's FPDUs
};

}  // namespace cw::control::doctor
