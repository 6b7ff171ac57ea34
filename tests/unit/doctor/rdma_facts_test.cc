// What is read of a made-up /sys and /dev, as Documentation/ABI/stable/sysfs-class-infiniband of Linux describes them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "control/config/ip_text.h"
#include "control/doctor/rdma_devices.h"
#include "control/doctor/read_rdma_facts.h"
#include "tests/support/file_tree.h"

namespace cw::control::doctor {
namespace {

constexpr const char* kNoGid = "0000:0000:0000:0000:0000:0000:0000:0000\n";

class RdmaFactsOf : public ::testing::Test {
 protected:
  RdmaFactsOf() {
    host_.root = files_.root();
    host_.kernel = "6.1.0-9";
  }
  void add_interface(const std::string& name, const std::string& hardware_address, const std::string& mtu = "1500\n") {
    files_.write("sys/class/net/" + name + "/address", hardware_address + "\n");
    files_.write("sys/class/net/" + name + "/mtu", mtu);
  }
  void add_device(const std::string& name, const std::string& node_type, const std::string& link_layer, const std::string& node) {
    const std::string folder = "sys/class/infiniband/" + name;
    files_.write(folder + "/node_type", node_type + "\n");
    files_.write(folder + "/ports/1/state", "4: ACTIVE\n");
    files_.write(folder + "/ports/1/phys_state", "5: LinkUp\n");
    files_.write(folder + "/ports/1/link_layer", link_layer + "\n");
    files_.write("sys/class/infiniband_verbs/" + node + "/ibdev", name + "\n");
    files_.write("dev/infiniband/" + node, "");
  }
  void add_gid(const std::string& device, const std::string& index, const std::string& gid, const std::string& interface = "",
               const std::string& type = "") {
    const std::string port = "sys/class/infiniband/" + device + "/ports/1/";
    files_.write(port + "gids/" + index, gid + "\n");
    if (!interface.empty()) {
      files_.write(port + "gid_attrs/ndevs/" + index, interface + "\n");
      files_.write(port + "gid_attrs/types/" + index, type + "\n");
    }
  }

  test::FileTree files_;
  RdmaHost host_;
};

TEST_F(RdmaFactsOf, AHostWithoutAnythingAreNone) {
  const RdmaFacts rdma = read_rdma(host_);
  EXPECT_TRUE(rdma.devices.empty());
  EXPECT_TRUE(rdma.interfaces.empty());
  EXPECT_FALSE(rdma.connection_manager.exists);
  EXPECT_FALSE(rdma.has_providers);
  EXPECT_TRUE(rdma.has_rxe) << "not known, so not complained of";
  EXPECT_FALSE(rdma.service_sees_none);
}

TEST_F(RdmaFactsOf, ADeviceOfRoceAreItsGids) {
  add_interface("eth0", "02:00:00:00:00:01", "4200\n");
  add_device("rxe0", "1: CA", "Ethernet", "uverbs3");
  files_.write("sys/class/infiniband/rxe0/parent", "eth0\n");
  files_.write("sys/class/infiniband_verbs/uverbs9/ibdev", "mlx5_7\n");
  add_gid("rxe0", "0", "fe80:0000:0000:0000:0000:00ff:fe00:0001", "eth0", "RoCE v2");
  add_gid("rxe0", "1", "0000:0000:0000:0000:0000:ffff:c000:0201", "eth0", "IB/RoCE v1");
  add_gid("rxe0", "2", "0000:0000:0000:0000:0000:ffff:c000:0201", "eth0.5", "RoCE v2");
  add_gid("rxe0", "3", kNoGid);
  files_.write("dev/infiniband/rdma_cm", "");
  files_.write("etc/libibverbs.d/rxe.driver", "driver rxe\n");
  host_.addresses = {{"eth0", *control::parse_ip("192.0.2.1")}, {"lo", *control::parse_ip("127.0.0.1")}};
  const RdmaFacts rdma = read_rdma(host_);
  ASSERT_EQ(rdma.devices.size(), 1u);
  const RdmaDeviceFacts& rxe = rdma.devices[0];
  EXPECT_EQ(rxe.name, "rxe0");
  EXPECT_FALSE(rxe.is_iwarp);
  EXPECT_TRUE(rxe.is_software);
  EXPECT_EQ(rxe.node.path, "/dev/infiniband/uverbs3");
  EXPECT_TRUE(rxe.node.exists && rxe.node.may_open);
  ASSERT_EQ(rxe.ports.size(), 1u);
  const RdmaPortFacts& port = rxe.ports[0];
  EXPECT_EQ(port.number, 1u);
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.physical_state, "LinkUp");
  EXPECT_FALSE(port.is_infiniband);
  EXPECT_EQ(port.interfaces, (std::vector<std::string>{"eth0", "eth0.5"}));
  ASSERT_EQ(port.gids.size(), 3u);
  EXPECT_EQ(port.gids[1].gid, control::parse_ip("192.0.2.1"));
  EXPECT_FALSE(port.gids[1].is_roce_v2);
  EXPECT_EQ(port.gids[2].interface, "eth0.5");
  EXPECT_TRUE(port.gids[2].is_roce_v2);
  ASSERT_EQ(rdma.interfaces.size(), 1u);
  EXPECT_EQ(rdma.interfaces[0].mtu, 4200u);
  EXPECT_EQ(rdma.interfaces[0].addresses, std::vector{*control::parse_ip("192.0.2.1")});
  EXPECT_TRUE(rdma.connection_manager.exists && rdma.has_providers);
  EXPECT_EQ(place_of(rdma, *control::parse_ip("192.0.2.1"), "").gid, &port.gids[2]) << "that of RoCE v2";
}

// Before Linux 6.5 a GID of iWARP has no interface.
TEST_F(RdmaFactsOf, ADeviceOfIwarpIsFoundByItsMacAddress) {
  add_interface("lo", "00:00:00:00:00:00");
  add_interface("eth1", "02:00:00:00:00:0a");
  add_interface("eth2", "02:00:00:00:00:0b");
  add_device("siw1", "4: RNIC", "Ethernet", "uverbs0");
  add_gid("siw1", "0", "0200:0000:000b:0000:0000:0000:0000:0000");
  add_gid("siw1", "1", "0000:0000:0000:0000:0000:ffff:c000:0201");  // begins as the address of lo does
  const RdmaFacts rdma = read_rdma(host_);
  ASSERT_EQ(rdma.devices.size(), 1u);
  EXPECT_TRUE(rdma.devices[0].is_iwarp);
  EXPECT_EQ(rdma.devices[0].ports[0].interfaces, std::vector<std::string>{"eth2"});
}

TEST_F(RdmaFactsOf, APortOfInfinibandIsFoundByItsGid) {
  add_interface("eth1", "fe:80:00:00:00:00");
  add_interface("ib0", "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1");
  add_interface("ib1", "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a2");
  add_device("mlx4_0", "1: CA", "InfiniBand", "uverbs0");
  add_gid("mlx4_0", "0", "fe80:0000:0000:0000:f452:1403:007b:cba2");
  files_.write("sys/class/infiniband/mlx4_0/device/vendor", "0x15b3\n");
  host_.addresses = {{"ib1", *control::parse_ip("192.0.2.3")}};
  const RdmaFacts rdma = read_rdma(host_);
  ASSERT_EQ(rdma.devices.size(), 1u);
  EXPECT_FALSE(rdma.devices[0].is_software);
  EXPECT_TRUE(rdma.devices[0].ports[0].is_infiniband);
  EXPECT_EQ(rdma.devices[0].ports[0].interfaces, std::vector<std::string>{"ib1"});
  EXPECT_EQ(place_of(rdma, *control::parse_ip("192.0.2.3"), "").device, &rdma.devices[0]);
}

TEST_F(RdmaFactsOf, DriversOfInterfacesAreTheirLinks) {
  add_interface("eth0", "02:00:00:00:00:01");
  files_.write("sys/bus/pci/drivers/mlx5_core/bind", "");
  std::filesystem::create_directories(files_.root() / "sys/class/net/eth0/device");
  std::filesystem::create_symlink(files_.root() / "sys/bus/pci/drivers/mlx5_core",
                                  files_.root() / "sys/class/net/eth0/device/driver");
  EXPECT_EQ(read_rdma(host_).interfaces[0].driver, "mlx5_core");
}

TEST_F(RdmaFactsOf, ModulesAreLoadableOrLoadedOrBuiltIn) {
  files_.write("lib/modules/6.1.0-9/modules.dep", "kernel/drivers/infiniband/sw/siw/siw.ko.xz: kernel/lib/libcrc32c.ko.xz\n");
  EXPECT_TRUE(read_rdma(host_).has_siw);
  EXPECT_FALSE(read_rdma(host_).has_rxe);
  files_.write("lib/modules/6.1.0-9/modules.builtin", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko\n");
  EXPECT_TRUE(read_rdma(host_).has_rxe);
  files_.remove("lib/modules/6.1.0-9/modules.builtin");
  files_.write("sys/module/rdma_rxe/refcnt", "0\n");
  EXPECT_TRUE(read_rdma(host_).has_rxe);
}

TEST_F(RdmaFactsOf, RightsOfAnotherUserAreThoseOfTheFile) {
  add_device("rxe0", "1: CA", "Ethernet", "uverbs0");
  const std::filesystem::path node = files_.root() / "dev/infiniband/uverbs0";
  struct stat status {};
  ASSERT_EQ(stat(node.c_str(), &status), 0);
  const auto may_open = [&](mode_t mode, uid_t user, gid_t group) {
    EXPECT_EQ(chmod(node.c_str(), mode), 0);
    host_.user = {"causeway", user, {group}};
    const RdmaFacts rdma = read_rdma(host_);
    EXPECT_EQ(rdma.user, "causeway");
    return rdma.devices[0].node.may_open;
  };
  const uid_t other = status.st_uid + 1;
  const gid_t no_member = status.st_gid + 1;
  EXPECT_TRUE(may_open(0666, other, no_member));
  EXPECT_FALSE(may_open(0664, other, no_member));
  EXPECT_FALSE(may_open(0662, other, no_member));
  EXPECT_TRUE(may_open(0660, other, status.st_gid));
  EXPECT_FALSE(may_open(0606, other, status.st_gid)) << "a group's rights come before those of all";
  EXPECT_TRUE(may_open(0600, status.st_uid, no_member));
  EXPECT_FALSE(may_open(0066, status.st_uid, status.st_gid)) << "an owner's rights come before those of all";
}

TEST_F(RdmaFactsOf, AServiceWithoutItsDropInSeesNoDevice) {
  files_.write("usr/lib/systemd/system/causewayd.service", "[Service]\nPrivateDevices=yes\n");
  EXPECT_TRUE(read_rdma(host_).service_sees_none);
  files_.write("etc/systemd/system/causewayd.service.d/tap.conf", "[Service]\nPrivateDevices=no\nDeviceAllow=/dev/net/tun rw\n");
  EXPECT_TRUE(read_rdma(host_).service_sees_none);
  files_.write("etc/systemd/system/causewayd.service.d/verbs.conf",
               "[Service]\nPrivateDevices=no\nDeviceAllow=/dev/infiniband/rdma_cm rw\n");
  EXPECT_FALSE(read_rdma(host_).service_sees_none);
}

}  // namespace
}  // namespace cw::control::doctor
