// Which verbs listeners nobody can reach: by the kernel's word of RDMA devices, and by what is listened on.
#include "telemetry/cut_off.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

constexpr uint16_t kPort = 20049;

ListenerLimits verbs_listener(const std::string& device, const std::string& address = "") {
  return {.name = "nfs", .needs_link = false, .rdma_device = device, .port = kPort, .address = address};
}

VerbsListener listened_on(std::string_view device, bool is_lost = false) {
  VerbsListener row{.port = kPort, .is_lost = is_lost ? 1u : 0u};
  device.copy(row.device.data(), row.device.size() - 1);
  return row;
}

// Empty: clients can come.
std::string why(const ListenerLimits& listener, const SyntheticRdma& rdma, const std::vector<VerbsListener>& known = {}) {
  const std::vector<std::string> devices = {*listener.rdma_device};
  const std::vector<CutOff> found = cut_off_listeners(std::vector{listener}, known, rdma_port_states(rdma.folder(), devices));
  return found.empty() ? "" : found.front().why;
}

TEST(CutOff, ANamedDeviceHasToBeThereWithAnActivePort) {
  SyntheticRdma rdma;
  rdma.add_port("mlx5_0", "1", "4: ACTIVE", 0);  // of somebody else
  EXPECT_EQ(why(verbs_listener("rxe0"), rdma), "there is no RDMA device rxe0");
  rdma.add_port("rxe0", "1", "1: DOWN", 0);
  EXPECT_EQ(why(verbs_listener("rxe0"), rdma), "port 1 of RDMA device rxe0 is DOWN");
  rdma.add_port("rxe0", "2", "2: INIT", 0);
  EXPECT_EQ(why(verbs_listener("rxe0"), rdma), "port 1 of RDMA device rxe0 is DOWN, port 2 of RDMA device rxe0 is INIT");
  rdma.add_port("rxe0", "2", "4: ACTIVE", 0);
  EXPECT_EQ(why(verbs_listener("rxe0"), rdma), "") << "clients have the other port";
}

TEST(CutOff, WithoutANameAnyActivePortWillDo) {
  SyntheticRdma rdma;
  EXPECT_EQ(why(verbs_listener(""), rdma), "there is no RDMA device");
  rdma.add_port("rxe0", "1", "1: DOWN", 0);
  EXPECT_EQ(why(verbs_listener(""), rdma), "port 1 of RDMA device rxe0 is DOWN");
  rdma.add_port("siw0", "1", "4: ACTIVE", 0);
  EXPECT_EQ(why(verbs_listener(""), rdma, {listened_on("")}), "");
}

TEST(CutOff, AnAddressIsOfOneDevice) {
  SyntheticRdma rdma;
  rdma.add_port("rxe0", "1", "1: DOWN", 0);
  rdma.add_port("siw0", "1", "4: ACTIVE", 0);
  const ListenerLimits listener = verbs_listener("", "192.0.2.1");
  EXPECT_EQ(why(listener, rdma, {listened_on("siw0")}), "");
  EXPECT_EQ(why(listener, rdma, {listened_on("rxe0")}), "port 1 of RDMA device rxe0 is DOWN");
  EXPECT_EQ(why(listener, rdma, {listened_on("", true)}), "no RDMA device has its address 192.0.2.1");
  EXPECT_EQ(why(verbs_listener("siw0", "192.0.2.1"), rdma, {listened_on("", true)}),
            "RDMA device siw0 does not have its address 192.0.2.1");
}

TEST(CutOff, OtherWiresHaveNoRdmaDevice) {
  const std::vector<ListenerLimits> listeners = {{.name = "roce"}, {.name = "iwarp", .needs_link = false}};
  EXPECT_TRUE(cut_off_listeners(listeners, {}, {}).empty());
}

}  // namespace
}  // namespace cw::telemetry
