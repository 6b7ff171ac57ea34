// Runs over iWARP, and over both wires at once.
#include <gtest/gtest.h>

#include "apps/sim/runner.h"
#include "apps/sim/scenario.h"
#include "apps/sim/sweep.h"

namespace cw::sim {
namespace {

TEST(SimWires, RunsRepeatToTheByte) {
  for (const Wires wires : {Wires::kIwarp, Wires::kBoth}) {
    const Scenario scenario = draw_scenario(12, wires);
    const RunResult first = run(scenario);
    const RunResult second = run(scenario);
    EXPECT_TRUE(first.passed());
    EXPECT_GT(first.segments, 0u);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.segments, second.segments);
  }
}

TEST(SimWires, EachWireHasAClientWhereBothAre) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = draw_scenario(seed, Wires::kBoth);
    const auto over_iwarp = std::ranges::count(scenario.clients, true, &ClientPlan::iwarp);
    EXPECT_GT(over_iwarp, 0) << seed;
    EXPECT_LT(over_iwarp, static_cast<ptrdiff_t>(scenario.clients.size())) << seed;
    EXPECT_TRUE(scenario.hostiles.empty());
  }
}

TEST(SimWires, CablesOfStreamsHaveTheFaultsOfStreams) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    for (const Fault& fault : draw_scenario(seed, Wires::kIwarp).faults) {
      EXPECT_FALSE(is_link_fault(fault.kind)) << seed;
    }
    for (const Fault& fault : draw_scenario(seed).faults) {
      EXPECT_FALSE(is_stream_fault(fault.kind)) << seed;
    }
  }
}

TEST(SimWires, ASweepMeetsWhatStreamsGoThrough) {
  SweepProgress progress;
  const SweepReport report = sweep(1, 150, 1, progress, {}, Wires::kBoth);
  EXPECT_TRUE(report.failures.empty());
  for (const char* event : {"iwarp.established", "iwarp.blocked_write", "iwarp.segment_copied", "iwarp.end.peer_closed",
                            "iwarp.end.tcp_reset", "iwarp.end.closed", "iwarp.drop.lost_in_setup"}) {
    EXPECT_GT(report.coverage.count_of(event), 0u) << event;
  }
}

}  // namespace
}  // namespace cw::sim
