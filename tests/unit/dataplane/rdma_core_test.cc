// What takes no RDMA device: the libraries, and the sentence when something is not there.
#include "dataplane/rnic/rdma_core.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

TEST(RdmaCore, ADeviceThatIsNotThereIsSaidSo) {
  std::string problem;
  const RdmaCore* core = RdmaCore::load(problem);
  const std::string said = rdma_problem("no-such-device", std::nullopt);
  if (core == nullptr) {
    EXPECT_NE(problem.find("apt-get install librdmacm1"), std::string::npos) << problem;
    EXPECT_EQ(said, problem);
    return;
  }
  EXPECT_EQ(problem, "");
  EXPECT_NE(core->cm_accept, nullptr);
  EXPECT_NE(core->reg_mr, nullptr);
  EXPECT_NE(said.find("there is no RDMA device 'no-such-device'"), std::string::npos) << said;
  EXPECT_NE(said.find("rdma link add no-such-device type rxe netdev INTERFACE"), std::string::npos) << said;
}

// It would take no connection: requests that come to the address come by the other device.
TEST(RdmaCore, AnAddressOfAnotherDeviceIsSaidSo) {
  const IpAddress address = IpAddress::v4(0xc000'0201);
  EXPECT_EQ(address_problem("rxe0", address, "rxe0"), "");
  EXPECT_EQ(address_problem("", address, "rxe1"), "") << "whatever device has it";
  const std::string other = address_problem("rxe0", address, "rxe1");
  EXPECT_NE(other.find("192.0.2.1 is of RDMA device 'rxe1' and not of 'rxe0'"), std::string::npos) << other;
  const std::string none = address_problem("rxe0", address, "");
  EXPECT_NE(none.find("no RDMA device has the address 192.0.2.1"), std::string::npos) << none;
}

}  // namespace
}  // namespace cw::dataplane
