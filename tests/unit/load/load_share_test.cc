// A load on several cores: what each of them does, and the sum of what they counted.
#include <gtest/gtest.h>

#include <memory>

#include "apps/load/load_settings.h"

namespace cw::load {
namespace {

LoadPlan plan_of(const LoadSettings& settings) {
  std::vector<SettingProblem> problems;
  LoadPlan plan = plan_load(settings, problems);
  EXPECT_TRUE(problems.empty());
  return plan;
}

TEST(LoadShare, GivesEveryConnectionToOneCore) {
  LoadSettings settings;
  settings.connections = "11";
  const LoadPlan plan = plan_of(settings);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const LoadPlan share = share_of(plan, i, 4);
    EXPECT_EQ(share.connections_max, i < 3 ? 3u : 2u);
    EXPECT_FALSE(share.open_loop);
    sum += share.connections_max;
  }
  EXPECT_EQ(sum, 11u);
}

TEST(LoadShare, SplitsRatesProfilesAndChurn) {
  LoadSettings settings;
  settings.connections = "8, 10s:16";
  settings.rate = "1k, 10s:20k";
  settings.churn = "6";
  settings.queue = 100;
  const LoadPlan share = share_of(plan_of(settings), 1, 2);
  ASSERT_TRUE(share.connections && share.open_loop);
  EXPECT_EQ(share.connections_max, 8u);
  EXPECT_DOUBLE_EQ(share.connections->at(Duration()), 4);
  EXPECT_DOUBLE_EQ(share.connections->at(Duration::seconds(10)), 8);
  EXPECT_DOUBLE_EQ(share.open_loop->rate.at(Duration()), 500);
  EXPECT_DOUBLE_EQ(share.open_loop->rate.at(Duration::seconds(20)), 10'000);
  EXPECT_EQ(share.open_loop->queue_max, 50u);
  EXPECT_DOUBLE_EQ(share.churn_per_second, 3);
}

TEST(LoadShare, PutsTheThreadsNumberWhereItBelongs) {
  EXPECT_EQ(text_for_thread("net_memif{},socket=/run/cw{}.sock", 12), "net_memif12,socket=/run/cw12.sock");
  EXPECT_EQ(text_for_thread("10.9.0.1", 3), "10.9.0.1");
  EXPECT_EQ(text_for_thread("", 0), "");
}

TEST(LoadShare, CountsOfSeveralCoresAddUp) {
  const auto one = std::make_unique<LoadStats>();
  const auto other = std::make_unique<LoadStats>();
  one->calls = 3;
  other->calls = 4;
  other->wrong = 1;
  one->entries[0].calls = 3;
  other->entries[0].calls = 2;
  other->entries[1].calls = 2;
  one->entries[0].latency.record(Duration::us(10));
  other->entries[0].latency.record(Duration::us(30));
  other->service.record(Duration::us(5));
  other->connect.record(Duration::ms(1));
  one->merge(*other);
  EXPECT_EQ(one->calls, 7u);
  EXPECT_EQ(one->wrong, 1u);
  EXPECT_EQ(one->entries[0].calls, 5u);
  EXPECT_EQ(one->entries[1].calls, 2u);
  EXPECT_EQ(one->latency().count(), 2u);
  EXPECT_EQ(one->service.count(), 1u);
  EXPECT_EQ(one->connect.count(), 1u);
}

}  // namespace
}  // namespace cw::load
