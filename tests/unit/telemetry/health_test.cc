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

}  // namespace
}  // namespace cw::telemetry
