// What causewayctl doctor finds for transport = "verbs", from made-up facts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "control/config/ip_text.h"
#include "control/config/memory_plan.h"
#include "control/doctor/checks.h"
#include "control/doctor/rdma_devices.h"
#include "tests/unit/doctor/expect_finding.h"

namespace cw::control::doctor {
namespace {

const IpAddress kOnEth0 = *control::parse_ip("192.0.2.1");
const IpAddress kOnEth1 = *control::parse_ip("192.0.2.65");
const IpAddress kOnIb0 = *control::parse_ip("2001:db8::7");
const IpAddress kOnEth2 = *control::parse_ip("198.51.100.1");

RdmaDeviceFacts device_on(const char* name, const char* interface, const IpAddress& address, const char* node) {
  RdmaPortFacts port;
  port.state = "ACTIVE";
  port.physical_state = "LinkUp";
  port.interfaces = {interface};
  port.gids = {{address, interface, false}, {address, interface, true}};
  return {.name = name, .is_software = true, .ports = {port}, .node = {std::string("/dev/infiniband/") + node, true, true}};
}

// rxe0 on eth0, siw1 on eth1, mlx5_0 on ib0; eth2 has none. The listener names no device and no address.
Facts over_verbs() {
  Facts facts;
  facts.config_file = "/etc/causeway/causeway.toml";
  ListenerConfig listener;
  listener.name = "nfs";
  listener.transport = TransportKind::kVerbs;
  facts.config.listeners = {listener};
  RdmaFacts& rdma = facts.rdma;
  RdmaDeviceFacts siw = device_on("siw1", "eth1", *control::parse_ip("::1"), "uverbs1");
  siw.is_iwarp = true;
  RdmaDeviceFacts infiniband = device_on("mlx5_0", "ib0", *control::parse_ip("fe80::7"), "uverbs2");
  infiniband.is_software = false;
  infiniband.ports[0].is_infiniband = true;
  rdma.devices = {infiniband, device_on("rxe0", "eth0", kOnEth0, "uverbs0"), siw};
  rdma.interfaces = {{"eth0", 4200, "virtio_net", {kOnEth0}},
                     {"eth1", 1500, "virtio_net", {kOnEth1}},
                     {"eth2", 1500, "virtio_net", {kOnEth2}},
                     {"ib0", 2044, "mlx5_core", {kOnIb0}}};
  rdma.connection_manager = {"/dev/infiniband/rdma_cm", true, true};
  rdma.kernel = "6.1.0-9";
  return facts;
}

Facts over_verbs(const char* device, const IpAddress& address) {
  Facts facts = over_verbs();
  facts.config.listeners[0].device = device;
  facts.config.listeners[0].address = address;
  return facts;
}

RdmaDeviceFacts& rxe_of(Facts& facts) {
  return facts.rdma.devices[1];
}

bool finds(const Facts& facts, const std::string& check) {
  return std::ranges::any_of(judge(facts), [&](const Finding& each) { return check == each.check; });
}

TEST(DoctorRdma, AHealthyHostHasNoFaultAndNoWarning) {
  for (const Facts& facts : {over_verbs(), over_verbs("rxe0", kOnEth0), over_verbs("", kOnEth0), over_verbs("siw1", kOnEth1),
                             over_verbs("", kOnIb0)}) {
    for (const Finding& finding : judge(facts)) {
      EXPECT_EQ(finding.severity, Severity::kFine) << finding.check << ": " << finding.what;
    }
  }
  expect_finding(over_verbs("", kOnEth1), "rdma_address", Severity::kFine, "192.0.2.65 is of siw1, port 1 (iWARP on eth1)", "");
  expect_finding(over_verbs("", kOnIb0), "rdma_address", Severity::kFine, "is of mlx5_0, port 1 (InfiniBand on ib0)", "");
}

TEST(DoctorRdma, OtherWiresAskForNothingOfIt) {
  Facts facts = over_verbs();
  facts.config.listeners[0].transport = TransportKind::kIwarp;
  facts.rdma = {};
  facts.rdma.library = "librdmacm.so.1";
  facts.memlock_bytes = 1024;
  facts.capabilities.ipc_lock = false;
  for (const Finding& finding : judge(facts)) {
    EXPECT_FALSE(std::string(finding.check).starts_with("rdma")) << finding.what;
  }
}

// siw looks at the limit itself.
TEST(DoctorRdma, ARootThatMayLockLittleHasEnoughForAllButSiw) {
  for (const char* device : {"rxe0", "siw1"}) {
    const bool is_siw = std::string(device) == "siw1";
    Facts facts = over_verbs(device, is_siw ? kOnEth1 : kOnEth0);
    facts.memlock_bytes = 64 * 1024;
    facts.capabilities.ipc_lock = true;
    expect_finding(facts, "rdma_memory", is_siw ? Severity::kFault : Severity::kFine, is_siw ? "siw asks for no capability" : "",
                   is_siw ? "LimitMEMLOCK=infinity" : "");
  }
}

TEST(DoctorRdma, SaysHowToMakeADevice) {
  Facts facts = over_verbs();
  facts.rdma.devices.clear();
  facts.rdma.interfaces.pop_back();
  // Of three, which one it is for cannot be told.
  expect_finding(
      facts, "rdma", Severity::kFault,
      "listener nfs: there is no RDMA device at all; clients may call eth0, eth1 or eth2: listener.address tells which",
      "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev INTERFACE");
  EXPECT_FALSE(finds(facts, "rdma_address")) << "it has been said";
  facts.rdma.interfaces[1].addresses = {*control::parse_ip("fe80::1")};
  facts.rdma.interfaces[2].addresses.clear();
  expect_finding(facts, "rdma", Severity::kFault, "", "rdma link add rxe0 type rxe netdev eth0");
  facts.rdma.interfaces[1].addresses = {kOnEth1};
  facts.config.listeners[0].address = kOnEth1;
  expect_finding(facts, "rdma", Severity::kFault, "", "rdma link add rxe0 type rxe netdev eth1");
  facts.config.listeners[0].device = "siw7";
  expect_finding(facts, "rdma", Severity::kFault, "", "modprobe siw; rdma link add siw7 type siw netdev eth1");
  facts.rdma.has_siw = false;
  expect_finding(facts, "rdma", Severity::kFault, "the kernel 6.1.0-9 has no module siw", "linux-image-amd64");
  facts.rdma.has_siw = true;
  facts.rdma.has_rxe = false;
  facts.config.listeners[0].device = "";
  expect_finding(facts, "rdma", Severity::kFault, "the kernel 6.1.0-9 has no module rdma_rxe", "linux-image-amd64");
}

TEST(DoctorRdma, NamesTheModuleOfAnRnic) {
  Facts facts = over_verbs("", kOnIb0);
  facts.rdma.devices.clear();
  expect_finding(facts, "rdma", Severity::kFault, "ib0 is driven by mlx5_core, whose RDMA is the module mlx5_ib",
                 "modprobe mlx5_ib");
  facts.config.listeners[0].device = "ibp3s0";
  expect_finding(facts, "rdma", Severity::kFault, "ib0 is driven by mlx5_core", "modprobe mlx5_ib");
  facts.config.listeners[0].device = "rxe0";
  expect_finding(facts, "rdma", Severity::kFault, "", "rdma link add rxe0 type rxe netdev ib0");
  facts = over_verbs("bnxt_re0", kOnEth0);
  expect_finding(facts, "rdma", Severity::kFault, "devices of this name are of the module bnxt_re", "modprobe bnxt_re");
}

TEST(DoctorRdma, ListsTheDevicesThatThereAre) {
  const Facts facts = over_verbs("rxe9", kOnEth0);
  expect_finding(facts, "rdma", Severity::kFault,
                 "there is no RDMA device rxe9 among mlx5_0 (InfiniBand on ib0), rxe0 (RoCE on eth0), siw1 (iWARP on eth1)",
                 "correct listener.device; or modprobe rdma_rxe; rdma link add rxe9 type rxe netdev eth0");
  EXPECT_FALSE(finds(facts, "rdma_address")) << "it has been said";
}

TEST(DoctorRdma, LibrariesOfRdmaCore) {
  Facts facts = over_verbs();
  facts.rdma.has_providers = false;
  expect_finding(facts, "rdma", Severity::kFault, "no driver for any device", "apt-get install ibverbs-providers");
  facts.rdma.library = "librdmacm.so.1";
  expect_finding(facts, "rdma", Severity::kFault, "librdmacm.so.1, which cannot be loaded", "apt-get install librdmacm1");
}

TEST(DoctorRdma, NodesThatAreMissing) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  facts.rdma.connection_manager.exists = false;
  expect_finding(facts, "rdma", Severity::kFault, "there is no /dev/infiniband/rdma_cm", "modprobe rdma_ucm");
  rxe_of(facts).node.exists = false;
  expect_finding(facts, "rdma", Severity::kFault, "there is no /dev/infiniband/uverbs0, by which programs use rxe0",
                 "modprobe ib_uverbs");
  rxe_of(facts).node = {};
  expect_finding(facts, "rdma", Severity::kFault, "the kernel has no verbs for programs on rxe0", "modprobe ib_uverbs");
}

TEST(DoctorRdma, NodesThatMayNotBeOpened) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  facts.rdma.connection_manager.may_open = false;
  expect_finding(facts, "rdma", Severity::kFault, "this user may not read and write /dev/infiniband/rdma_cm",
                 "chmod 0666 /dev/infiniband/rdma_cm");
  facts.rdma.user = "causeway";
  rxe_of(facts).node.may_open = false;
  expect_finding(facts, "rdma", Severity::kWarning, "the user causeway may not read and write /dev/infiniband/uverbs0",
                 "chmod 0666 /dev/infiniband/uverbs0");
  // Of a device that no listener uses it does not matter.
  facts = over_verbs("rxe0", kOnEth0);
  facts.rdma.devices[2].node = {};
  facts.rdma.devices[2].ports[0].state = "DOWN";
  for (const Finding& finding : judge(facts)) {
    EXPECT_EQ(finding.severity, Severity::kFine) << finding.what;
  }
}

TEST(DoctorRdma, TheServiceSeesADeviceByADropIn) {
  Facts facts = over_verbs();
  facts.rdma.service_sees_none = true;
  expect_finding(facts, "rdma", Severity::kWarning, "PrivateDevices=yes", "drop-in verbs.conf");
}

TEST(DoctorRdma, PortsThatAreNotActive) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  RdmaPortFacts& port = rxe_of(facts).ports[0];
  port.state = "DOWN";
  port.physical_state = "Disabled";
  expect_finding(facts, "rdma", Severity::kFault, "rxe0, port 1 (RoCE on eth0) is DOWN, physically Disabled",
                 "ip link set eth0 up");
  port.state = "";
  expect_finding(facts, "rdma", Severity::kFault, "in no known state", "ip link set eth0 up");
  facts = over_verbs("", kOnIb0);
  facts.rdma.devices[0].ports[0].state = "INIT";
  expect_finding(facts, "rdma", Severity::kFault, "waits for a subnet manager", "opensm");
  facts.rdma.devices[0].ports[0].state = "DOWN";
  expect_finding(facts, "rdma", Severity::kFault, "mlx5_0, port 1 (InfiniBand on ib0) is DOWN", "cable");
}

// One port that works is enough, but not for an address of the other.
TEST(DoctorRdma, APortMattersWhenClientsHaveNoOther) {
  Facts facts = over_verbs();
  rxe_of(facts).ports[0].state = "DOWN";
  expect_finding(facts, "rdma", Severity::kNote, "rxe0, port 1 (RoCE on eth0) is DOWN", "ip link set eth0 up");
  for (RdmaDeviceFacts& device : facts.rdma.devices) {
    device.ports[0].state = "DOWN";
  }
  expect_finding(facts, "rdma", Severity::kFault, "rxe0, port 1 (RoCE on eth0) is DOWN", "ip link set eth0 up");
  facts = over_verbs("rxe0", kOnEth0);
  RdmaPortFacts second = rxe_of(facts).ports[0];
  second.number = 2;
  second.gids.clear();
  second.state = "DOWN";
  rxe_of(facts).ports.push_back(second);
  expect_finding(facts, "rdma", Severity::kNote, "rxe0, port 2 (RoCE on eth0) is DOWN", "");
  std::swap(rxe_of(facts).ports[0].state, rxe_of(facts).ports[1].state);
  expect_finding(facts, "rdma", Severity::kFault, "rxe0, port 1 (RoCE on eth0) is DOWN", "");
}

TEST(DoctorRdma, AddressesThatAreNotTheDevices) {
  expect_finding(over_verbs("rxe0", *control::parse_ip("192.0.2.9")), "rdma_address", Severity::kFault,
                 "listener nfs: 192.0.2.9 is on no interface of this host", "ip address add 192.0.2.9/PREFIX dev eth0");
  expect_finding(over_verbs("rxe0", kOnEth1), "rdma_address", Severity::kFault,
                 "192.0.2.65 is of RDMA device siw1 (iWARP on eth1), and not of rxe0",
                 "device = \"siw1\"; or give the listener an address of eth0");
  expect_finding(over_verbs("siw1", kOnEth0), "rdma_address", Severity::kFault, "is of RDMA device rxe0 (RoCE on eth0)",
                 "device = \"rxe0\"; or give the listener an address of eth1");
  expect_finding(over_verbs("rxe0", kOnEth2), "rdma_address", Severity::kFault,
                 "198.51.100.1 is on eth2, and rxe0 is not: there are mlx5_0",
                 "ip address add 198.51.100.1/PREFIX dev eth0; or another address; or a device on eth2");
  expect_finding(over_verbs("", kOnEth2), "rdma_address", Severity::kFault, "is on eth2, and no RDMA device is: there are mlx5_0",
                 "rdma link add");
}

TEST(DoctorRdma, AnAddressWithoutAGidIsLookedForOnTheNamedDevice) {
  Facts facts = over_verbs("rxe0", kOnEth2);
  facts.rdma.devices.push_back(device_on("rxe2", "eth2", kOnEth0, "uverbs3"));
  facts.rdma.devices.back().ports[0].gids.clear();
  expect_finding(facts, "rdma_address", Severity::kFault, "198.51.100.1 is on eth2, and rxe0 is not", "");
  facts.config.listeners[0].device = "";
  expect_finding(facts, "rdma_address", Severity::kFault, "198.51.100.1 is on eth2, and rxe2 has no GID of it", "rdma system");
}

TEST(DoctorRdma, GidsOfAnAddress) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  rxe_of(facts).ports[0].gids.pop_back();
  expect_finding(facts, "rdma_address", Severity::kWarning, "192.0.2.1 has a GID of RoCE v1 only on rxe0", "gid_attrs/types");
  rxe_of(facts).ports[0].gids.clear();
  expect_finding(facts, "rdma_address", Severity::kFault, "192.0.2.1 is on eth0, and rxe0 has no GID of it",
                 "ip link set eth0 up");
}

TEST(DoctorRdma, LoopbackIsForThisHostAlone) {
  Facts facts = over_verbs("", *control::parse_ip("127.0.0.1"));
  facts.rdma.interfaces.push_back({"lo", 65536, "", {*control::parse_ip("127.0.0.1")}});
  expect_finding(facts, "rdma_address", Severity::kNote, "127.0.0.1 is for clients on this host alone", "");
}

TEST(DoctorRdma, ADeviceWithoutAnAddressIsReachedByNobody) {
  Facts facts = over_verbs();
  facts.config.listeners[0].device = "rxe0";
  expect_finding(facts, "rdma_address", Severity::kFine, "clients reach rxe0 at the addresses of eth0", "");
  facts.rdma.interfaces[0].addresses = {*control::parse_ip("fe80::1")};
  expect_finding(facts, "rdma_address", Severity::kFault, "no interface of rxe0 has an address",
                 "ip address add ADDRESS/PREFIX dev eth0");
}

// Each device has its own registration by each poll core, and the kernel counts them all.
TEST(DoctorRdma, MemoryToLockIsCountedForEachDeviceAndCore) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  facts.capabilities.ipc_lock = false;
  const uint64_t bytes = registered_bytes(facts.config);
  facts.memlock_bytes = bytes;
  expect_finding(facts, "rdma_memory", Severity::kFine, "", "");
  facts.memlock_bytes = bytes - 1;
  expect_finding(facts, "rdma_memory", Severity::kFault, "which 1 RDMA device has registered",
                 ("ulimit -l " + std::to_string((bytes + 1023) / 1024)).c_str());
  facts.capabilities.ipc_lock = true;
  expect_finding(facts, "rdma_memory", Severity::kFine, "", "");
  facts = over_verbs();
  facts.capabilities.ipc_lock = false;
  facts.memlock_bytes = 3 * bytes - 1;
  expect_finding(facts, "rdma_memory", Severity::kFault, "which 3 RDMA devices have registered", "LimitMEMLOCK=infinity");
  facts.memlock_bytes = 3 * bytes;
  expect_finding(facts, "rdma_memory", Severity::kFine, "", "");
  facts.config.dataplane.poll_lcores = {1, 2};
  facts.memlock_bytes = 6 * registered_bytes(facts.config) - 1;
  expect_finding(facts, "rdma_memory", Severity::kFault, "which 3 RDMA devices have registered for 2 poll cores", "");
  *facts.memlock_bytes += 1;
  expect_finding(facts, "rdma_memory", Severity::kFine, "", "");
}

TEST(DoctorRdma, MtuOfRoce) {
  Facts facts = over_verbs();
  expect_finding(facts, "rdma_mtu", Severity::kFine, "rxe0: MTU 4200 of eth0 carries RoCE packets of 4096 bytes", "");
  facts.rdma.interfaces[0].mtu = 1500;
  expect_finding(facts, "rdma_mtu", Severity::kNote,
                 "rxe0: MTU 1500 of eth0 carries RoCE packets of 1024 bytes, 4096 is the best", "ip link set eth0 mtu 4200");
  facts.config.listeners[0].device = "siw1";
  EXPECT_FALSE(finds(facts, "rdma_mtu")) << "TCP carries iWARP";
}

// Packets of RNICs do not pass the kernel.
TEST(DoctorRdma, SoftwareDevicesAreBehindTheFirewall) {
  Facts facts = over_verbs("rxe0", kOnEth0);
  facts.firewall = "udp dport 4791 drop\ntcp dport 20049 drop\n";
  expect_finding(facts, "firewall", Severity::kFault, "drops UDP 4791", "grep 4791");
  facts = over_verbs("siw1", kOnEth1);
  facts.firewall = "udp dport 4791 accept\ntcp dport 20049 drop\n";
  expect_finding(facts, "firewall", Severity::kWarning, "drops or rejects TCP port 20049", "grep 20049");
  facts = over_verbs("", kOnIb0);
  facts.firewall = "udp dport 4791 drop\ntcp dport 20049 drop\n";
  EXPECT_FALSE(finds(facts, "firewall"));
}

TEST(DoctorRdma, TheKernelsNfsServerAtTheSamePort) {
  Facts facts = over_verbs();
  facts.tcp.kernel_rdma_ports = {20049};
  expect_finding(facts, "rdma", Severity::kFault, "the kernel's NFS server serves RDMA at port 20049", "rdma = n");
}

}  // namespace
}  // namespace cw::control::doctor
