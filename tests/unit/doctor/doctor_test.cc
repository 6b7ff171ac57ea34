// Each finding of causewayctl doctor, from made-up facts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "control/doctor/checks.h"
#include "control/doctor/host_text.h"
#include "dataplane/sockets/tcp_streams.h"
#include "tests/unit/doctor/expect_finding.h"

namespace cw::control::doctor {
namespace {

constexpr uint64_t kMiB = 1 << 20;

static_assert(kTcpBacklog == dataplane::TcpStreamsOptions{}.backlog);

// Nothing is wrong with this host.
Facts healthy() {
  Facts facts;
  facts.config_file = "/etc/causeway/causeway.toml";
  facts.config.dataplane.poll_lcores = {2};
  facts.config.dataplane.memory_mb = 512;
  facts.config.dataplane.hugepages = true;
  facts.config.dataplane.idle = IdleMode::kSpin;
  facts.hugepages_total_bytes = 1024 * kMiB;
  facts.hugepages_free_bytes = 1024 * kMiB;
  facts.hugepage_nodes = {{0, 512 * kMiB}, {1, 512 * kMiB}};
  facts.has_iommu_groups = true;
  PciFacts pci{true, "vfio-pci", "0x8086", 1, true, true};
  facts.ports = {{.device = "0000:3b:00.0", .mtu = 4200, .pci = pci, .interface = std::nullopt}};
  facts.backends = {{"nfs", "127.0.0.1:2049", Reach::kYes, ""}};
  facts.metrics = ListenFacts{"127.0.0.1:9464", true};
  facts.admin_path = "/run/causeway/default.sock";
  facts.poll_cpus = {{2, 1, true, true, true}};
  facts.cpus_online = 8;
  facts.clock_source = "tsc";
  facts.crc_bytes_per_second = 60e9;
  return facts;
}

Facts on_interface() {
  Facts facts = healthy();
  facts.config.dataplane.hugepages = false;
  facts.ports = {{.device = "net_af_packet0,iface=roce0",
                  .mtu = 4500,
                  .pci = std::nullopt,
                  .interface = InterfaceFacts{"roce0", true, true, 4500, false}}};
  return facts;
}

TEST(Doctor, AHealthyHostHasNoFaultAndNoWarning) {
  for (const Facts& facts : {healthy(), on_interface()}) {
    for (const Finding& finding : judge(facts)) {
      EXPECT_EQ(finding.severity, Severity::kFine) << finding.check << ": " << finding.what;
    }
  }
}

TEST(Doctor, EveryCheckHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const Check& check : checks()) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
  }
}

TEST(Doctor, ConfigurationProblemsAreItsFindings) {
  Facts facts = healthy();
  facts.config_problems = {{"c.toml", 3, 1, "port.mut", "unknown key", "did you mean 'mtu'?", control::Severity::kError}};
  expect_finding(facts, "configuration", Severity::kFault, "c.toml:3:1", "causewayctl config check");
}

TEST(Doctor, Memory) {
  Facts facts = on_interface();
  facts.memory_total_bytes = 2048 * kMiB;
  facts.memory_available_bytes = 1500 * kMiB;
  expect_finding(facts, "memory", Severity::kFine, "1500 MiB for the 512 MiB", "");
  facts.memory_available_bytes = 100 * kMiB;
  expect_finding(facts, "memory", Severity::kWarning, "512 MiB, and 100 MiB are available", "ps -eo");
  facts.admin = AdminSocket::kAnswers;
  expect_finding(facts, "memory", Severity::kFine, "100 MiB", "");  // the gateway that runs has its memory
  facts.memory_total_bytes = 256 * kMiB;
  expect_finding(facts, "memory", Severity::kFault, "there are 256 MiB in all", "dataplane.memory_mb");
  facts = healthy();  // in hugepages
  facts.memory_total_bytes = 2048 * kMiB;
  facts.memory_available_bytes = 100 * kMiB;
  expect_finding(facts, "memory", Severity::kFine, "100 MiB", "");
}

TEST(Doctor, NamesOfUsersAndGroups) {
  Facts facts = healthy();
  facts.admin_problem = "admin.admins: there is no user 'alice' on this host";
  expect_finding(facts, "names", Severity::kFault, "no user 'alice'", "getent passwd");
}

TEST(Doctor, DriversOfDevices) {
  Facts facts = on_interface();
  facts.ports[0].device = "eth0";
  facts.ports[0].names_driver = false;
  expect_finding(facts, "devices", Severity::kFault, "'eth0' is no device of DPDK's", "net_af_packet0,iface=eth0");
  facts.ports[0].names_driver = true;
  facts.ports[0].device = "net_af_xdp0,iface=eth0";
  facts.ports[0].missing_driver = "net_af_xdp";
  expect_finding(facts, "devices", Severity::kFault, "no driver net_af_xdp here", "apt install librte-net-af-xdp23");
  EXPECT_EQ(driver_of("net_memif0,role=server"), "net_memif");
  EXPECT_EQ(driver_of("net_af_packet12,iface=eth0"), "net_af_packet");
  EXPECT_EQ(driver_of("eth0"), std::nullopt);
  EXPECT_EQ(driver_of("net_"), std::nullopt);
  EXPECT_EQ(driver_of("net_0"), std::nullopt);
  EXPECT_EQ(driver_of(""), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemTotal:  16 kB\nMemAvailable:    8 kB\n", "MemAvailable:"), 8192u);
  EXPECT_EQ(meminfo_bytes("MemTotal:  16 kB\n", "MemAvailable:"), 0u);
  EXPECT_EQ(meminfo_bytes("MemAvailable:", "MemAvailable:"), 0u);
}

TEST(Doctor, Hugepages) {
  Facts facts = healthy();
  facts.hugepages_free_bytes = 100 * kMiB;
  facts.hugepages_total_bytes = 200 * kMiB;
  expect_finding(facts, "hugepages", Severity::kFault, "100 MiB of hugepages are free of 200 MiB in all", "vm.nr_hugepages=306");
  facts.admin = AdminSocket::kAnswers;
  expect_finding(facts, "hugepages", Severity::kFine, "a gateway is running", "");
  facts = healthy();
  facts.config.dataplane.hugepages = false;
  expect_finding(facts, "hugepages", Severity::kWarning, "without hugepages", "dataplane.hugepages = true");
}

TEST(Doctor, LockedMemory) {
  Facts facts = healthy();
  facts.memlock_bytes = 64 * 1024;
  facts.capabilities.ipc_lock = false;
  expect_finding(facts, "memlock", Severity::kFault, "64 KiB", "LimitMEMLOCK=infinity");
  facts.capabilities.ipc_lock = true;
  expect_finding(facts, "memlock", Severity::kFine, "", "");
}

TEST(Doctor, Capabilities) {
  Facts facts = on_interface();
  facts.capabilities.net_raw = false;
  expect_finding(facts, "capabilities", Severity::kWarning, "no CAP_NET_RAW", "AmbientCapabilities");
  facts.capabilities.net_admin = false;
  expect_finding(facts, "capabilities", Severity::kWarning, "CAP_NET_RAW and CAP_NET_ADMIN", "root");
}

TEST(Doctor, NicDriversAndIommu) {
  Facts facts = healthy();
  facts.ports[0].pci->driver = "ixgbe";
  expect_finding(facts, "devices", Severity::kFault, "bound to ixgbe", "dpdk-devbind.py --bind=vfio-pci 0000:3b:00.0");
  facts = healthy();
  facts.ports[0].pci->has_iommu_group = false;
  expect_finding(facts, "devices", Severity::kFault, "no IOMMU group", "intel_iommu=on");
  facts.vfio_without_iommu = true;
  expect_finding(facts, "devices", Severity::kFine, "vfio-pci", "");
  facts = healthy();
  facts.ports[0].pci->group_is_accessible = false;
  expect_finding(facts, "devices", Severity::kFault, "may not open the vfio group", "chown");
  facts.ports[0].pci->exists = false;
  expect_finding(facts, "devices", Severity::kFault, "there is no PCI device", "lspci");
  facts = healthy();
  facts.ports[0].pci = PciFacts{true, "mlx5_core", "0x15b3", 1, true, false};
  expect_finding(facts, "devices", Severity::kFine, "keeps its kernel driver", "");
}

TEST(Doctor, InterfacesOfTheKernel) {
  Facts facts = on_interface();
  facts.ports[0].interface->is_up = false;
  expect_finding(facts, "devices", Severity::kFault, "roce0 is down", "ip link set roce0 up");
  facts.ports[0].interface->has_gateway_address = true;
  expect_finding(facts, "devices", Severity::kFault, "is also the kernel's on roce0", "ip addr del");
  facts.ports[0].interface->exists = false;
  expect_finding(facts, "devices", Severity::kFault, "there is no interface roce0", "ip -br link");
}

Facts beside_kernel() {
  Facts facts = on_interface();
  facts.ports = {{.device = "net_af_xdp0,iface=roce0",
                  .mtu = 2200,
                  .pci = std::nullopt,
                  .interface = InterfaceFacts{"roce0", true, true, 2200, true, true, 1},
                  .beside_kernel = true,
                  .by_xdp = true}};
  return facts;
}

TEST(Doctor, KnowsWhatAPortBesideTheKernelTakes) {
  Facts facts = beside_kernel();
  for (const Finding& finding : judge(facts)) {
    EXPECT_LE(finding.severity, Severity::kNote) << finding.what;
  }
  expect_finding(facts, "mtu", Severity::kFine, "2048 bytes, the most", "");
  facts.capabilities.bpf = false;
  expect_finding(facts, "capabilities", Severity::kWarning, "no CAP_BPF", "af-xdp.conf");
  facts.has_xdp_program = false;
  expect_finding(facts, "devices", Severity::kFault, "built without its XDP program", "apt install clang libbpf-dev");
  facts.ports[0].interface->receive_queues = 8;
  expect_finding(facts, "devices", Severity::kWarning, "8 receive queues and the gateway reads 1",
                 "ethtool -L roce0 combined 1 ");
  facts.ports[0].interface->has_gateway_address = false;
  expect_finding(facts, "devices", Severity::kNote, "standby", "ip address add");
  facts.ports[0].names_addresses = false;
  facts.ports[0].interface->has_address = false;
  expect_finding(facts, "devices", Severity::kFault, "the kernel has no address on roce0", "ip address add");
  facts.ports[0].mtu = 1500;
  expect_finding(facts, "mtu", Severity::kNote, "1024 bytes, AF_XDP can do 2048", "port.mtu = 2200");
}

TEST(Doctor, KnowsWhatAPortBesideTheKernelByRulesTakes) {
  Facts facts = healthy();
  facts.ports[0].beside_kernel = true;
  expect_finding(facts, "devices", Severity::kFault, "the kernel has no interface of it: it is bound to vfio-pci",
                 "exception_tap");
  facts.ports[0].pci->vendor = "0x15b3";
  facts.ports[0].pci->driver = "mlx5_core";
  facts.ports[0].interface = InterfaceFacts{"eth0", true, true, 4200, true, true, 8};
  facts.capabilities.bpf = false;
  facts.has_xdp_program = false;
  for (const Finding& finding : judge(facts)) {
    EXPECT_LE(finding.severity, Severity::kNote) << finding.what;
  }
  facts.ports[0].names_addresses = false;
  facts.ports[0].interface->has_address = false;
  expect_finding(facts, "devices", Severity::kFault, "the kernel has no address on eth0", "ip address add");
}

TEST(Doctor, KnowsWhatAnExceptionTapTakes) {
  Facts facts = on_interface();
  facts.ports[0].tap = InterfaceFacts{"cw0", true, true, 4500, true, true, 1};
  expect_finding(facts, "devices", Severity::kFine, "the gateway's address on cw0", "");
  facts.ports[0].tap->has_gateway_address = false;
  expect_finding(facts, "devices", Severity::kFault, "nobody answers ARP", "ip address add ADDRESS/PREFIX dev cw0");
  facts.ports[0].tap->exists = false;
  expect_finding(facts, "devices", Severity::kNote, "will make cw0", "ip tuntap add dev cw0 mode tap");
  facts.capabilities.net_admin = false;
  expect_finding(facts, "capabilities", Severity::kWarning, "exception_tap takes CAP_NET_ADMIN", "user causeway");
  facts.has_tun = false;
  expect_finding(facts, "capabilities", Severity::kWarning, "/dev/net/tun", "modprobe tun");
}

TEST(Doctor, Mtu) {
  Facts facts = on_interface();
  facts.ports[0].interface->mtu = 1500;
  expect_finding(facts, "mtu", Severity::kFault, "has MTU 1500, port.mtu is 4500", "ip link set roce0 mtu 4500");
  facts = healthy();
  facts.ports[0].mtu = 1500;
  expect_finding(facts, "mtu", Severity::kNote, "RoCE packets of 1024 bytes", "4200");
}

TEST(Doctor, Firewall) {
  Facts facts = healthy();
  facts.firewall =
      "table inet f {\n chain in {\n  type filter hook input priority filter; policy accept;\n  udp dport 4791 drop\n }\n}\n";
  expect_finding(facts, "firewall", Severity::kFault, "drops UDP 4791", "delete that rule");
  facts.firewall = ":INPUT DROP [0:0]\n-A INPUT -p tcp --dport 20049 -j ACCEPT\n";
  expect_finding(facts, "firewall", Severity::kWarning, "none accepts UDP 4791", "nft add rule");
  expect_finding(facts, "firewall", Severity::kNote, "20049", "");
  facts.firewall += "-A INPUT -p udp --dport 4791 -j ACCEPT\n";
  expect_finding(facts, "firewall", Severity::kFine, "", "");
  facts.firewall_is_readable = false;
  expect_finding(facts, "firewall", Severity::kNote, "cannot be read", "root");
}

TEST(Doctor, SocketsThatAreTaken) {
  Facts facts = healthy();
  facts.metrics->is_free = false;
  expect_finding(facts, "sockets", Severity::kFault, "TCP 127.0.0.1:9464 is taken", "ss -ltnp");
  facts.admin = AdminSocket::kAnswers;
  expect_finding(facts, "sockets", Severity::kNote, "a gateway is running", "causewayctl --socket");
  EXPECT_TRUE(std::ranges::none_of(judge(facts), [](const Finding& f) { return f.severity == Severity::kFault; }))
      << "the port of /metrics is that gateway's";
  facts.admin = AdminSocket::kNoDirectory;
  expect_finding(facts, "sockets", Severity::kWarning, "/run/causeway does not exist", "install -d");
  facts.admin = AdminSocket::kMayNotMake;
  expect_finding(facts, "sockets", Severity::kWarning, "may not make /run/causeway/default.sock", "admin.socket");
  facts.admin = AdminSocket::kStale;
  expect_finding(facts, "sockets", Severity::kNote, "left behind", "");
  facts.admin = AdminSocket::kNotPermitted;
  expect_finding(facts, "sockets", Severity::kNote, "may not open it", "group");
}

TEST(Doctor, Backends) {
  Facts facts = healthy();
  facts.backends[0].reach = Reach::kRefused;
  expect_finding(facts, "backends", Severity::kFault, "refuses connections", "start the server");
  facts.backends[0].reach = Reach::kTimeout;
  expect_finding(facts, "backends", Severity::kFault, "does not answer", "allow TCP 127.0.0.1:2049");
  facts.backends[0].reach = Reach::kNoRoute;
  expect_finding(facts, "backends", Severity::kFault, "no route", "ip route get 127.0.0.1");
  facts.backends[0].reach = Reach::kOther;
  facts.backends[0].error = "Invalid argument";
  expect_finding(facts, "backends", Severity::kFault, "Invalid argument", "backend.address");
}

TEST(Doctor, ClockAndChecksums) {
  Facts facts = healthy();
  facts.clock_source = "hpet";
  expect_finding(facts, "clock", Severity::kNote, "hpet", "current_clocksource");
  facts.tsc_is_invariant = false;
  expect_finding(facts, "clock", Severity::kFault, "does not run at one rate", "invariant TSC");
  facts.crc_bytes_per_second = 1e9;
  expect_finding(facts, "crc", Severity::kWarning, "1.0 GB/s", "pclmulqdq");
}

TEST(Doctor, Cpus) {
  Facts facts = healthy();
  facts.poll_cpus[0].is_isolated = false;
  expect_finding(facts, "cpus", Severity::kWarning, "not isolated", "isolcpus=2");
  facts.config.dataplane.idle = IdleMode::kSleep;
  expect_finding(facts, "cpus", Severity::kFine, "", "");
  facts.poll_cpus[0].is_allowed = false;
  expect_finding(facts, "cpus", Severity::kFault, "outside the CPUs", "AllowedCPUs");
  facts.poll_cpus[0].is_online = false;
  expect_finding(facts, "cpus", Severity::kFault, "offline", "lscpu -e");
  facts = healthy();
  facts.worker_cpus = {{3, 1, true, false, false}};
  expect_finding(facts, "cpus", Severity::kFault, "outside the CPUs", "worker_lcores");
  facts = healthy();
  facts.cpus_online = 1;
  expect_finding(facts, "cpus", Severity::kWarning, "every CPU of this host spins", "sleep");
}

TEST(Doctor, Numa) {
  Facts facts = healthy();
  facts.poll_cpus[0].numa_node = 0;
  expect_finding(facts, "numa", Severity::kWarning, "CPU 2 is on node 0, the NIC 0000:3b:00.0 on node 1", "node1/cpulist");
  facts.hugepage_nodes[1].free_bytes = 0;
  expect_finding(facts, "numa", Severity::kWarning, "has no free hugepage", "node1/hugepages");
}

// iWARP alone, as an ordinary user on an ordinary host.
Facts over_tcp() {
  Facts facts;
  facts.config_file = "/etc/causeway/causeway.toml";
  ListenerConfig listener;
  listener.name = "nfs";
  listener.transport = TransportKind::kIwarp;
  facts.config.listeners = {listener};
  BackendConfig backend;
  backend.name = "nfs";
  facts.config.backends = {backend};
  facts.memlock_bytes = 64 * 1024;
  facts.capabilities = {.ipc_lock = false, .net_raw = false, .net_admin = false, .net_bind_service = false, .bpf = false};
  facts.backends = {{"nfs", "127.0.0.1:2049", Reach::kYes, ""}};
  facts.iwarp_listeners = {
      {.name = "nfs", .address = "port 20049", .port = 20049, .is_local = true, .bind = Bind::kFree, .error = {}, .holder = {}}};
  facts.tcp.somaxconn = 4096;
  facts.tcp.receive_bytes_max = 6 * kMiB;
  facts.tcp.send_bytes_max = 4 * kMiB;
  facts.descriptors_max = 1024;
  facts.poll_cpus = {{0, -1, true, true, false}};
  facts.cpus_online = 2;
  facts.clock_source = "tsc";
  facts.crc32c_bytes_per_second = 20e9;
  return facts;
}

TEST(Doctor, IwarpAloneNeedsNothingOfDpdk) {
  for (const Finding& finding : judge(over_tcp())) {
    const std::string check = finding.check;
    EXPECT_EQ(finding.severity, Severity::kFine) << check << ": " << finding.what;
    EXPECT_TRUE(check != "hugepages" && check != "memlock" && check != "devices" && check != "mtu" && check != "numa") << check;
    EXPECT_EQ(finding.what.find("4791"), std::string::npos) << finding.what;
  }
  expect_finding(over_tcp(), "listeners", Severity::kFine, "TCP port 20049 is free", "");
  expect_finding(over_tcp(), "tcp", Severity::kFine, "queues and buffers", "");
  expect_finding(over_tcp(), "firewall", Severity::kFine, "filters TCP port 20049", "");
  expect_finding(over_tcp(), "crc", Severity::kFine, "FPDUs (iWARP): 20.0 GB/s", "");
}

TEST(Doctor, SaysWhoHasTheTcpPort) {
  Facts facts = over_tcp();
  facts.iwarp_listeners[0].bind = Bind::kTaken;
  facts.iwarp_listeners[0].holder = "ncat (process 17)";
  expect_finding(facts, "listeners", Severity::kFault, "TCP port 20049 is taken by ncat (process 17)", "another port");
  facts.iwarp_listeners[0].holder = "";
  expect_finding(facts, "listeners", Severity::kFault, "by a program of another user", "ss -ltnp 'sport = :20049'");
  facts.tcp.iwarp_device = "siw0";
  expect_finding(facts, "listeners", Severity::kFault, "or by the kernel for siw0", "/proc/fs/nfsd/portlist");
  facts.admin = AdminSocket::kAnswers;
  expect_finding(facts, "listeners", Severity::kFine, "a gateway is running", "");
  facts.iwarp_listeners[0].holder = "ncat (process 17)";
  expect_finding(facts, "listeners", Severity::kFault, "taken by ncat", "another port");
}

TEST(Doctor, SeesTheNfsServerOfTheKernelAtTheSamePort) {
  Facts facts = over_tcp();
  facts.tcp.kernel_rdma_ports = {20049};  // on RoCE devices: UDP
  expect_finding(facts, "listeners", Severity::kFine, "is free", "");
  facts.tcp.iwarp_device = "irdma0";
  expect_finding(facts, "listeners", Severity::kWarning, "on irdma0 it may get the clients", "rdma = n");
  facts.iwarp_listeners[0].bind = Bind::kTaken;
  expect_finding(facts, "listeners", Severity::kFault, "by the kernel's NFS server, which serves RDMA on irdma0", "rdma = n");
}

TEST(Doctor, SaysWhatIsWrongWithAListenersAddress) {
  Facts facts = over_tcp();
  IwarpListenerFacts& listener = facts.iwarp_listeners[0];
  listener.address = "192.0.2.1:20049";
  listener.is_local = false;
  expect_finding(facts, "listeners", Severity::kNote, "192.0.2.1:20049 is not an address of this host now", "ip address add");
  listener.bind = Bind::kNotLocal;
  expect_finding(facts, "listeners", Severity::kFault, "192.0.2.1:20049 is not an address of this host", "ip_nonlocal_bind=1");
  listener.bind = Bind::kOther;
  listener.error = "Invalid argument";
  expect_finding(facts, "listeners", Severity::kFault, "Invalid argument", "listener.address");
}

TEST(Doctor, KnowsPortsThatTakeACapability) {
  Facts facts = over_tcp();
  facts.iwarp_listeners[0].port = 111;
  facts.iwarp_listeners[0].bind = Bind::kNotPermitted;
  expect_finding(facts, "listeners", Severity::kFault, "TCP port 111 is below 1024 (net.ipv4.ip_unprivileged_port_start)",
                 "low-port.conf");
  facts.iwarp_listeners[0].bind = Bind::kFree;
  expect_finding(facts, "listeners", Severity::kNote, "the user of the service needs CAP_NET_BIND_SERVICE", "low-port.conf");
  facts.tcp.first_unprivileged_port = 80;
  expect_finding(facts, "listeners", Severity::kFine, "is free", "");
}

TEST(Doctor, CountsTheDescriptorsOfClients) {
  Facts facts = over_tcp();
  facts.config.limits.connections_max = 231;  // twice, 512 half-open ones, and 50
  expect_finding(facts, "descriptors", Severity::kFine, "", "");
  facts.config.limits.connections_max = 232;
  expect_finding(facts, "descriptors", Severity::kWarning, "may have 1024 file descriptors open, and the gateway may want 1026",
                 "LimitNOFILE=1026");
  facts.config.listeners[0].connections_max = 100;
  expect_finding(facts, "descriptors", Severity::kFine, "", "");
  facts.config.limits.connections_max = 2000;
  expect_finding(facts, "descriptors", Severity::kWarning,
                 "clients of iWARP 100, limits.half_open_max 512, connections to "
                 "backends 2000",
                 "ulimit -n 2662");
  facts.config.listeners[0].transport = TransportKind::kRoce;
  expect_finding(facts, "descriptors", Severity::kWarning, "clients of iWARP 0, limits.half_open_max 0", "ulimit -n 2050");
  facts.config.backends[0].type = BackendType::kBuiltin;
  EXPECT_TRUE(std::ranges::none_of(judge(facts), [](const Finding& f) { return std::string(f.check) == "descriptors"; }));
  facts.config.listeners[0].transport = TransportKind::kIwarp;
  facts.descriptors_max.reset();
  expect_finding(facts, "descriptors", Severity::kFine, "", "");
}

TEST(Doctor, QueuesAndBuffersOfTcp) {
  Facts facts = over_tcp();
  facts.tcp.somaxconn = 128;
  expect_finding(facts, "tcp", Severity::kWarning, "net.core.somaxconn is 128", "sysctl -w net.core.somaxconn=1024");
  facts.tcp.receive_bytes_max = 212992;
  expect_finding(facts, "tcp", Severity::kWarning, "tcp_rmem ends at 208 KiB: at a round trip of 10 ms a client writes 21 MB/s",
                 "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'");
  facts.tcp.send_bytes_max = kMiB - 1;
  expect_finding(facts, "tcp", Severity::kWarning, "tcp_wmem ends at 1023 KiB: at a round trip of 10 ms a client reads 104 MB/s",
                 "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'");
  facts.tcp = TcpFacts{};  // nothing is known
  expect_finding(facts, "tcp", Severity::kFine, "", "");
}

TEST(Doctor, FirewallOfIwarp) {
  Facts facts = over_tcp();
  facts.firewall = " type filter hook input priority filter; policy drop;\n udp dport 20049 accept\n tcp dport 2004 accept\n";
  expect_finding(facts, "firewall", Severity::kWarning, "none accepts TCP port 20049", "tcp dport 20049 accept");
  for (const char* rule :
       {"tcp dport { 2049, 20049 } accept", "-A INPUT -p tcp -m multiport --dports 111,20049 -j ACCEPT",
        "tcp dport 20000-20100 counter packets 1 bytes 2 accept", "-A INPUT -p tcp --dport 20000:20100 -j ACCEPT"}) {
    Facts accepting = facts;
    accepting.firewall += rule;
    expect_finding(accepting, "firewall", Severity::kFine, "filters TCP port 20049", "");
  }
  facts.firewall += "tcp dport 20049 reject\n";
  expect_finding(facts, "firewall", Severity::kWarning, "drops or rejects TCP port 20049", "delete that rule");
  facts.firewall_is_readable = false;
  expect_finding(facts, "firewall", Severity::kNote, "cannot be read", "root");
}

TEST(Doctor, CrcOfIwarp) {
  Facts facts = over_tcp();
  facts.crc32c_bytes_per_second = 1e9;
  expect_finding(facts, "crc", Severity::kWarning, "FPDUs (iWARP): 1.0 GB/s, too slow", "SSE4.2");
}

TEST(HostText, WhatLinuxSaysIsUnderstood) {
  EXPECT_EQ(parse_cpu_list("0-3,7\n"), (std::vector<uint32_t>{0, 1, 2, 3, 7}));
  EXPECT_EQ(parse_cpu_list("\n"), std::vector<uint32_t>());
  EXPECT_EQ(parse_cpu_list("x,2,5-4"), std::vector<uint32_t>{2});
  EXPECT_EQ(effective_capabilities("Name:\tx\nCapEff:\t0000000000006000\nCapBnd:"), 0x6000u);
  EXPECT_EQ(effective_capabilities("nothing"), 0u);
  EXPECT_EQ(interface_of("net_af_packet0,iface=roce0,framesz=8192"), "roce0");
  EXPECT_EQ(interface_of("net_vhost0,iface=/run/x.sock"), std::nullopt);
  EXPECT_EQ(interface_of("net_memif0"), std::nullopt);
  EXPECT_EQ(interface_of("net_tap0,iface=cw0"), std::nullopt);
  EXPECT_EQ(interface_of("net_tap0,iface=cwt,remote=eth0"), "eth0");
  EXPECT_TRUE(is_pci_address("0000:3b:00.0"));
  EXPECT_FALSE(is_pci_address("net_tap0,ifx"));
  EXPECT_EQ(listening_inodes("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
                             "   0: 0100007F:4E51 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 811 1\n"
                             "   1: 0100007F:4E51 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 812 1\n"
                             "   2: 00000000:0801 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 813 1\n"
                             "broken\n",
                             20049),
            std::vector<uint64_t>{811});
  EXPECT_EQ(rdma_ports("rdma 20049\nrdma6 20049\nudp 2049\ntcp 2049\n"), (std::vector<uint16_t>{20049, 20049}));
  EXPECT_EQ(rdma_ports(""), std::vector<uint16_t>());
  EXPECT_EQ(last_number("4096\t131072\t6291456\n"), 6291456u);
  EXPECT_EQ(last_number(""), 0u);
  EXPECT_TRUE(has_invariant_tsc("flags: constant_tsc x nonstop_tsc"));
  EXPECT_FALSE(has_invariant_tsc("flags: constant_tsc"));
}

}  // namespace
}  // namespace cw::control::doctor
