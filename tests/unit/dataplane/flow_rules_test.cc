// The exact rules that a port asks of its NIC, when it asks, and what it does when the NIC refuses.
#include "dataplane/dpdk/flow_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "control/config/memory_plan.h"
#include "dataplane/dpdk/port.h"
#include "rocev2/rc/qpn_codec.h"
#include "rocev2/wire/bth.h"
#include "tests/unit/dataplane/test_nic.h"

namespace cw::dataplane::test {
namespace {

using Lines = std::vector<std::string>;

const IpAddress kV4 = IpAddress::v4(0xc000'0201);  // 192.0.2.1
const IpAddress kV6 = IpAddress::v6(std::array<uint8_t, 16>{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});

class FlowRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TestNic::make();
    settings.device = TestNic::kAddress;
    settings.taken = {kV4};
    std::string error;
    pools = MbufPools::create({.packet_buffers = 8191,
                               .packet_data_bytes = control::packet_data_bytes(settings.device, settings.mtu),
                               .large_buffers = 127,
                               .views = 511},
                              error);
    ASSERT_NE(pools, nullptr) << error;
  }

  // The sentence of a start that fails, else empty.
  std::string open() {
    std::string error;
    port = Port::open(settings, *pools, error);
    return error;
  }

  PortSettings settings;
  std::unique_ptr<MbufPools> pools;
  std::unique_ptr<Port> port;
};

TEST_F(FlowRulesTest, EachCoresQueuePairsGoToItsQueue) {
  settings.cores = 4;
  settings.taken = {kV4, kV6};
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kFlow);
  EXPECT_STREQ(to_string(port->steering()), "flow");
  EXPECT_EQ(port->steering_refusal(), "");
  Lines rules;
  for (const char* ip : {"IPV4", "IPV6"}) {
    for (uint32_t core = 0; core < 4; ++core) {
      rules.push_back(
          fmt::format("0: ETH / {} / UDP 4791 mask 65535 / RAW relative 0 000000000000000{} mask 6000000000000003 -> QUEUE {}",
                      ip, core, core));
    }
  }
  Lines expected{"configure 4 queues", "start", "promiscuous"};
  for (const char* step : {"validate ", "create "}) {
    std::ranges::transform(rules, std::back_inserter(expected), [step](const std::string& rule) { return step + rule; });
  }
  EXPECT_EQ(TestNic::calls(), expected);

  TestNic::calls().clear();
  port.reset();
  expected.clear();
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    expected.push_back("destroy " + *rule);
  }
  expected.insert(expected.end(), {"stop", "close"});
  EXPECT_EQ(TestNic::calls(), expected);
}

TEST_F(FlowRulesTest, CoresWithoutAQueueGetTheirPacketsFromOthers) {
  settings.cores = 6;
  settings.vlan = 100;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(TestNic::calls_of("create"),
            (Lines{"0: ETH / VLAN 0064 mask 0fff / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000000 mask "
                   "6000000000000007 -> QUEUE 0",
                   "0: ETH / VLAN 0064 mask 0fff / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000001 mask "
                   "6000000000000007 -> QUEUE 1",
                   "0: ETH / VLAN 0064 mask 0fff / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000002 mask "
                   "6000000000000007 -> QUEUE 2",
                   "0: ETH / VLAN 0064 mask 0fff / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000003 mask "
                   "6000000000000007 -> QUEUE 3"}));
}

// Their number counts for the bits of a QPN all the same.
TEST_F(FlowRulesTest, CoresOfAnotherWireTakeNoQueue) {
  settings.cores = 3;
  settings.cores_without_queue = 1;
  settings.taken = {kV4};
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->queues(), 2);
  EXPECT_EQ(TestNic::calls_of("create"),
            (Lines{"0: ETH / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000000 mask 6000000000000003 -> QUEUE 0",
                   "0: ETH / IPV4 / UDP 4791 mask 65535 / RAW relative 0 0000000000000001 mask 6000000000000003 -> QUEUE 1"}));
}

TEST_F(FlowRulesTest, OneCoreForThePortHasNothingToSteer) {
  settings.cores = 2;
  settings.cores_without_queue = 1;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->queues(), 1);
  EXPECT_EQ(port->steering(), PortSteering::kNone);
}

// A BTH as the rules' RAW items see it.
int queue_of(const std::array<uint8_t, wire::Bth::kSize>& bth, uint32_t core_mask) {
  if ((bth[0] & 0x60) != 0) {
    return -1;
  }
  return static_cast<int>(load_be24(bth.data() + 5) & core_mask);
}

TEST_F(FlowRulesTest, WhatTheRulesCompareIsWhereTheCoreStandsAndNoCmMessageMatches) {
  const rc::QpnCodec codec(77, 2, 10);
  std::array<uint8_t, wire::Bth::kSize> raw{};
  for (const wire::Opcode opcode : {wire::Opcode::kRcSendOnly, wire::Opcode::kRcReadResponseLast, wire::Opcode::kCnp}) {
    for (uint32_t core = 0; core < 4; ++core) {
      wire::Bth bth{.opcode = opcode, .destination = *codec.encode({core, 5, 1})};
      bth.write(raw);
      EXPECT_EQ(queue_of(raw, rc::QpnCodec::core_mask(2)), static_cast<int>(core));
    }
  }
  wire::Bth mad{.opcode = wire::Opcode::kUdSendOnly, .destination = verbs::Qpn(1)};
  mad.write(raw);
  EXPECT_EQ(queue_of(raw, rc::QpnCodec::core_mask(2)), -1);
}

TEST_F(FlowRulesTest, ADriverThatRefusesOneRuleGetsNoneAndRssStays) {
  settings.cores = 2;
  settings.taken = {kV4, kV6};
  TestNic::refused() = "IPV6";
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kRss);
  EXPECT_EQ(port->steering_refusal(), "ETH / IPV6 / UDP dst 4791 / RAW: no such item (Operation not supported)");
  EXPECT_EQ(TestNic::calls_of("create"), Lines{});
  port.reset();
  EXPECT_EQ(TestNic::calls_of("destroy"), Lines{});
}

TEST_F(FlowRulesTest, RulesThatWereMadeBeforeOneFailedAreTakenAway) {
  settings.cores = 4;
  TestNic::created_max() = 3;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kRss);
  EXPECT_EQ(port->steering_refusal(), "ETH / IPV4 / UDP dst 4791 / RAW: the table is full (Operation not supported)");
  EXPECT_EQ(TestNic::calls_of("create").size(), 3u);
  EXPECT_EQ(TestNic::calls_of("destroy").size(), 3u);
}

// As e1000e, whose driver has two queues and no RSS.
TEST_F(FlowRulesTest, ADriverWithNeitherRulesNorRssLeavesItToTheCores) {
  settings.cores = 2;
  TestNic::refused() = "RAW";
  TestNic::deals() = false;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->queues(), 2);
  EXPECT_EQ(port->steering(), PortSteering::kSoftware);
}

// Poll cores and the admin socket have what the control thread found.
TEST_F(FlowRulesTest, TheDeviceIsAskedForItsLinkByWhoLooksAlone) {
  ASSERT_EQ(open(), "");
  TestNic::link_questions() = 0;
  EXPECT_TRUE(port->link_up());
  EXPECT_GT(port->link_mbps(), 0u);
  EXPECT_EQ(TestNic::link_questions(), 0u);
  port->look_at_link();
  EXPECT_TRUE(port->link_up());
  EXPECT_EQ(TestNic::link_questions(), 1u);
}

TEST_F(FlowRulesTest, OneCoreNeedsNoRules) {
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kNone);
  EXPECT_EQ(TestNic::calls(), (Lines{"configure 1 queues", "start", "promiscuous"}));
}

TEST_F(FlowRulesTest, OneQueueForSeveralCoresIsSharedInSoftware) {
  settings.device = "net_null0";
  settings.cores = 2;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kSoftware);
  EXPECT_EQ(TestNic::calls_of("validate"), Lines{});
}

TEST_F(FlowRulesTest, BesideTheKernelOnlyRocePacketsToTheAddressesAreTaken) {
  settings.beside_kernel = true;
  settings.taken = {kV4, kV6};
  ASSERT_EQ(open(), "");
  const std::string v4 = "0: ETH / IPV4 c0000201 mask ffffffff / UDP 4791 mask 65535 -> QUEUE 0";
  const std::string v6 =
      "0: ETH / IPV6 20010db8000000000000000000000001 mask ffffffffffffffffffffffffffffffff / UDP 4791 mask 65535 -> QUEUE 0";
  EXPECT_EQ(TestNic::calls(), (Lines{"isolate 1", "configure 1 queues", "start", "validate " + v4, "validate " + v6,
                                     "create " + v4, "create " + v6}));
  TestNic::calls().clear();
  port.reset();
  EXPECT_EQ(TestNic::calls(), (Lines{"destroy " + v6, "destroy " + v4, "stop", "close"}));
}

TEST_F(FlowRulesTest, BesideTheKernelTheRestIsDealtToAllQueues) {
  settings.beside_kernel = true;
  settings.cores = 2;
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kFlow);
  EXPECT_EQ(TestNic::calls_of("create"),
            (Lines{"0: ETH / IPV4 c0000201 mask ffffffff / UDP 4791 mask 65535 / RAW relative 0 0000000000000000 mask "
                   "6000000000000001 -> QUEUE 0",
                   "0: ETH / IPV4 c0000201 mask ffffffff / UDP 4791 mask 65535 / RAW relative 0 0000000000000001 mask "
                   "6000000000000001 -> QUEUE 1",
                   "1: ETH / IPV4 c0000201 mask ffffffff / UDP 4791 mask 65535 -> RSS 0,1"}));
}

TEST_F(FlowRulesTest, BesideTheKernelADriverWithoutRawDealsEverythingByRss) {
  settings.beside_kernel = true;
  settings.cores = 2;
  TestNic::refused() = "RAW";
  ASSERT_EQ(open(), "");
  EXPECT_EQ(port->steering(), PortSteering::kRss);
  EXPECT_EQ(TestNic::calls_of("create"), (Lines{"0: ETH / IPV4 c0000201 mask ffffffff / UDP 4791 mask 65535 -> RSS 0,1"}));
}

TEST_F(FlowRulesTest, ADriverThatCannotIsolateEndsTheStartBeforeItTouchesTheDevice) {
  settings.beside_kernel = true;
  TestNic::isolates() = false;
  EXPECT_EQ(
      open(),
      "port '0000:99:00.0': the driver net_null cannot leave the kernel its packets: Operation not supported. beside_kernel "
      "takes a NIC of mlx5, net_tap with remote=, or net_af_xdp; without it, use exception_tap");
  EXPECT_EQ(TestNic::calls(), (Lines{"isolate 1", "close"}));
}

TEST_F(FlowRulesTest, ADriverThatIsolatesAndRefusesTheRuleEndsTheStart) {
  settings.beside_kernel = true;
  TestNic::refused() = "UDP";
  EXPECT_EQ(open(),
            "port '0000:99:00.0': the driver net_null refuses the rule that takes RoCE packets from the kernel: ETH / IPV4 dst "
            "192.0.2.1 / UDP dst 4791: no such item (Operation not supported). Remove beside_kernel, and use exception_tap");
  EXPECT_EQ(TestNic::calls_of("create"), Lines{});
}

}  // namespace
}  // namespace cw::dataplane::test
