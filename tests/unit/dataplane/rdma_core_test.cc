// What takes no RDMA device: the libraries, and the sentence when something is not there.
#include "dataplane/rnic/rdma_core.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

TEST(RdmaCore, ADeviceThatIsNotThereIsSaidSo) {
  std::string problem;
  const RdmaCore* core = RdmaCore::load(problem);
  const std::string said = rdma_problem("no-such-device");
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

}  // namespace
}  // namespace cw::dataplane
