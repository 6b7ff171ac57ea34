// What is right for a start need not fit a gateway that runs.
#include "control/config/reload_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/config/config_check.h"

namespace cw::control {
namespace {

// 64 connections of 64 + 16 credits, 4 packets each: 20480 of 32768 buffers.
Config config() {
  Config config;
  PortConfig& port = config.ports.emplace_back();
  port.device = "net_tap0,iface=cw0";
  port.addresses = {{IpAddress::v4(0xc000'0201), 24}};
  config.listeners.emplace_back().name = "nfs";
  config.listeners[0].backend = "nfs";
  config.backends.emplace_back().name = "nfs";
  config.backends[0].address = SocketAddress{IpAddress::v4(0x7f00'0001), 2049};
  return config;
}

ReloadPlan plan(const ReloadPlanner& planner, const Config& running, const Config& wanted) {
  LoadedConfig loaded;
  loaded.config = wanted;
  return planner.plan(running, loaded, "c.toml");
}

TEST(ReloadPlanTest, MoreCreditsThatTheBuffersBackAreApplied) {
  Config wanted = config();
  wanted.listeners[0].credits = 80;
  const ReloadPlan planned = plan(ReloadPlanner(config()), config(), wanted);
  EXPECT_TRUE(planned.problems.empty());
  EXPECT_EQ(planned.config.listeners[0].credits, 80u);
}

// Else the pool's last buffer could go, and nothing would be left to receive by.
TEST(ReloadPlanTest, WhatCreditsTakeTheDataOfCallsHasNoLonger) {
  const BufferPlan start = plan_buffers(config());
  for (uint32_t credits = 32; credits <= 128; credits += 8) {
    Config wanted = config();
    wanted.listeners[0].credits = credits;
    const ReloadPlan planned = plan(ReloadPlanner(config()), config(), wanted);
    if (planned.problems.empty()) {
      const uint64_t reserved = std::max(start.reserved, reserved_buffers(wanted));
      EXPECT_LE(reserved + planned.pulled_max + start.held_max, start.shared) << credits;
      EXPECT_GE(planned.pulled_max, start.pulled_min) << "a call of any size";
    } else {
      EXPECT_GT(reserved_buffers(wanted) + start.pulled_min + start.held_max, start.shared) << credits;
    }
  }
  EXPECT_EQ(plan(ReloadPlanner(config()), config(), config()).pulled_max, start.pulled_max) << "nothing has changed";
}

TEST(ReloadPlanTest, CreditsThatOnlyFitWithARestartAreRefusedWithTheNumber) {
  Config wanted = config();
  wanted.listeners[0].credits = 200;
  wanted.dataplane.rx_buffers = 65536;
  wanted.dataplane.memory_mb = 1024;
  ParsedConfig parsed;
  parsed.config = wanted;
  EXPECT_FALSE(has_errors(config_check(parsed))) << "fine for a start";
  const ReloadPlan planned = plan(ReloadPlanner(config()), config(), wanted);
  ASSERT_EQ(planned.problems.size(), 1u);
  EXPECT_EQ(planned.problems[0].key, "dataplane.rx_buffers");
  EXPECT_NE(planned.problems[0].message.find("32768 cannot back the credits"), std::string::npos) << planned.problems[0].message;
  EXPECT_NE(planned.problems[0].message.find("reserve 55296"), std::string::npos) << planned.problems[0].message;
  EXPECT_NE(planned.problems[0].suggestion.find("restart"), std::string::npos);
}

// Else the second listener would be given what connections of the first still have.
TEST(ReloadPlanTest, WhatConnectionsFromBeforeHoldCounts) {
  Config first = config();
  first.limits.connections_max = 128;
  first.listeners[0].connections_max = 64;
  first.listeners.push_back(first.listeners[0]);
  first.listeners[1].name = "more";
  first.listeners[1].port = 20050;
  first.listeners[1].credits = 16;
  ReloadPlanner planner(first);
  Config lower = first;
  lower.listeners[0].credits = 16;
  EXPECT_TRUE(plan(planner, first, lower).problems.empty());
  planner.on_applied(lower);
  Config swapped = lower;
  swapped.listeners[1].credits = 40;
  const ReloadPlan refused = plan(planner, lower, swapped);
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_EQ(refused.problems[0].key, "dataplane.rx_buffers");
  EXPECT_NE(refused.problems[0].message.find("34816 buffers"), std::string::npos) << refused.problems[0].message;
  EXPECT_TRUE(plan(ReloadPlanner(lower), lower, swapped).problems.empty()) << "had it not been for these";
}

// A listener is gone at once, its connections only when they end.
TEST(ReloadPlanTest, WhatConnectionsOfARemovedListenerHoldCounts) {
  Config first = config();
  first.limits.connections_max = 128;
  first.listeners[0].connections_max = 64;
  first.listeners.push_back(first.listeners[0]);
  first.listeners[1].name = "more";
  first.listeners[1].port = 20050;
  first.listeners[1].credits = 16;
  ReloadPlanner planner(first);
  Config one = first;
  one.listeners.erase(one.listeners.begin());
  const ReloadPlan removed = plan(planner, first, one);
  EXPECT_TRUE(removed.problems.empty());
  ASSERT_EQ(removed.config.listeners.size(), 1u);
  planner.on_applied(one);
  Config dearer = one;
  dearer.listeners[0].credits = 40;
  const ReloadPlan refused = plan(planner, one, dearer);
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_NE(refused.problems[0].message.find("34816 buffers"), std::string::npos) << refused.problems[0].message;
  EXPECT_TRUE(plan(ReloadPlanner(one), one, dearer).problems.empty()) << "had it not been for these";
}

}  // namespace
}  // namespace cw::control
