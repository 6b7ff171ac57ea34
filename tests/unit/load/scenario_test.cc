#include "apps/load/scenario.h"

#include <gtest/gtest.h>

namespace cw::load {
namespace {

std::string first_problem(std::string_view text) {
  const Scenario scenario = parse_scenario(text, "x.toml");
  return scenario.problems.empty() ? "" : control::to_string(scenario.problems.front());
}

TEST(Scenario, SetsWhatItSaysAndLeavesTheRest) {
  const Scenario scenario = parse_scenario(R"(# Shows this.
# Watch that.
[scenario]
title = "Some"
[load]
mix = "null:1, echo/1k:3"
connections = "2, 5s:8"
rate = "1k, 10s:5k"
arrivals = "constant"
churn = "2.5"
reconnect = true
[faults]
loss = 5
direction = "out"
)",
                                           "x.toml");
  ASSERT_TRUE(scenario.ok()) << control::to_string(scenario.problems.front());
  EXPECT_EQ(scenario.description, "Shows this. Watch that.");
  const LoadSettings& settings = scenario.settings;
  EXPECT_EQ(settings.title, "Some");
  EXPECT_EQ(settings.window, 16u);
  EXPECT_EQ(settings.arrivals, Arrivals::kConstant);
  EXPECT_TRUE(settings.reconnect);
  EXPECT_EQ(settings.faults.loss_permille, 5u);
  EXPECT_EQ(settings.faults.direction, FaultDirection::kOut);
  std::vector<SettingProblem> problems;
  const LoadPlan plan = plan_load(settings, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(plan.connections_max, 8u);
  EXPECT_TRUE(plan.connections.has_value());
  EXPECT_EQ(plan.churn_per_second, 2.5);
  ASSERT_TRUE(plan.open_loop.has_value());
  EXPECT_EQ(plan.open_loop->rate.max(), 5000);
}

TEST(Scenario, RefusesWhatItDoesNotKnowWithLineAndSuggestion) {
  EXPECT_EQ(first_problem("[load]\nwindows = 3\n"), "x.toml:2:1: load.windows: unknown key; did you mean 'window'?");
  EXPECT_EQ(first_problem("[laod]\n"), "x.toml:1:2: laod: unknown section; did you mean 'load'?");
  EXPECT_EQ(first_problem("[load]\nwindow = 0\n"), "x.toml:2:10: load.window: 0 is out of range; use 1 to 1024");
  EXPECT_EQ(first_problem("[load]\nwindow = \n").substr(0, 9), "x.toml:2:");
}

TEST(Scenario, RefusesWhatMakesNoSenseWithItsLine) {
  EXPECT_EQ(first_problem("[load]\n\nmix = \"nul\"\n").find("x.toml:3:7: load.mix: 'nul' is no kind of call"), 0u);
  EXPECT_EQ(first_problem("[load]\nrate = \"fast\"\n").find("x.toml:2:8: load.rate: 'fast'"), 0u);
  EXPECT_EQ(first_problem("[load]\nconnections = \"20k\"\n").find("x.toml:2:15: load.connections: 20000 connections: use 1 to"),
            0u);
  EXPECT_NE(first_problem("[load]\nmix = \"echo/4m\"\nconnections = \"1000\"\n").find("GiB of memory"), std::string::npos);
  EXPECT_NE(first_problem("[load]\nmix = \"read/4m\"\n[nfs]\nfile_size = \"1m\"\n").find("x.toml:4:13: nfs.file_size"),
            std::string::npos);
}

TEST(Scenario, ThoseOfTheTreeAreRightAndExplained) {
  const std::vector<std::string> files = scenario_files(CAUSEWAY_SOURCE_ROOT "/deploy/load");
  EXPECT_GE(files.size(), 6u);
  for (const std::string& file : files) {
    const Scenario scenario = load_scenario(file);
    EXPECT_TRUE(scenario.ok()) << control::to_string(scenario.problems.front());
    EXPECT_FALSE(scenario.settings.title.empty()) << file;
    EXPECT_NE(scenario.description.find("Shows"), std::string::npos) << file;
    EXPECT_NE(scenario.description.find("Watch"), std::string::npos) << file;
  }
}

}  // namespace
}  // namespace cw::load
