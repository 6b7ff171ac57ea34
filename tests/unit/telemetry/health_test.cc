#include "telemetry/health.h"

#include <gtest/gtest.h>

namespace cw::telemetry {
namespace {

HealthFacts serving() {
  HealthFacts facts;
  facts.started = true;
  return facts;
}

TEST(HealthTest, AServingGatewayIsAliveAndReady) {
  const Health health = judge_health(serving());
  EXPECT_TRUE(health.live);
  EXPECT_TRUE(health.ready);
  EXPECT_EQ(health.reason, "");
}

TEST(HealthTest, AStartingGatewayIsAliveButNotReady) {
  const Health health = judge_health({});
  EXPECT_TRUE(health.live);
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason, "not listening yet");
}

TEST(HealthTest, ADrainingGatewayIsAliveButNotReady) {
  HealthFacts facts;
  facts.draining = true;
  const Health health = judge_health(facts);
  EXPECT_TRUE(health.live);
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason, "draining: new connections are refused");
}

TEST(HealthTest, ABackendThatRefusesIsNoReasonToRestart) {
  HealthFacts facts = serving();
  facts.backends_down = {"nfs", "bulk"};
  const Health health = judge_health(facts);
  EXPECT_TRUE(health.live);
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason, "backend nfs is down; backend bulk is down");
}

TEST(HealthTest, ASilentPollCoreIsNeitherAliveNorReady) {
  HealthFacts facts = serving();
  facts.silent_lcore = 3;
  const Health health = judge_health(facts);
  EXPECT_FALSE(health.live);
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason, "the poll core on CPU 3 does not turn");
}

TEST(HealthTest, WithoutALinkNobodyIsServed) {
  HealthFacts facts = serving();
  facts.links_down = {"net_memif0", "0000:01:00.0"};
  const Health health = judge_health(facts);
  EXPECT_TRUE(health.live) << "a restart plugs in no cable";
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason, "the link of net_memif0 is down; the link of 0000:01:00.0 is down");
  EXPECT_TRUE(health.warnings.empty());
}

// Whatever else there is: its clients have no other way, as those of a backend that is down.
TEST(HealthTest, AListenerWhoseRdmaDeviceIsGoneMakesItUnready) {
  HealthFacts facts = serving();
  facts.has_other_ways = true;
  facts.cut_off = {{"nfs", "there is no RDMA device rxe0"}, {"bulk", "port 1 of RDMA device mlx5_0 is DOWN"}};
  const Health health = judge_health(facts);
  EXPECT_TRUE(health.live);
  EXPECT_FALSE(health.ready);
  EXPECT_EQ(health.reason,
            "no client reaches listener nfs: there is no RDMA device rxe0; "
            "no client reaches listener bulk: port 1 of RDMA device mlx5_0 is DOWN");
  ASSERT_EQ(health.cut_off.size(), 2u);
  EXPECT_EQ(health.cut_off[1].listener, "bulk");
}

// A load balancer would take away what still works.
TEST(HealthTest, WhatLeavesClientsServedIsAWarning) {
  HealthFacts facts = serving();
  facts.links_down = {"net_memif0"};
  facts.has_other_ways = true;
  facts.servers_down = {"10.0.0.1:2049 of backend nfs"};
  facts.reload_failed = true;
  const Health health = judge_health(facts);
  EXPECT_TRUE(health.ready);
  EXPECT_EQ(health.reason, "");
  EXPECT_EQ(health.warnings.size(), 3u);
  EXPECT_EQ(to_text(health),
            "ok; the link of net_memif0 is down; server 10.0.0.1:2049 of backend nfs is down; the last reload was refused: the "
            "gateway runs with the configuration before; the log says why");
}

TEST(HealthTest, TheReasonComesBeforeTheWarnings) {
  HealthFacts facts = serving();
  facts.backends_down = {"nfs"};
  facts.reload_failed = true;
  EXPECT_TRUE(to_text(judge_health(facts)).starts_with("backend nfs is down; the last reload was refused"));
}

}  // namespace
}  // namespace cw::telemetry
