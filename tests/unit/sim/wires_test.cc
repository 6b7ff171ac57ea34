// Runs over iWARP, and over both wires at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "apps/sim/isolation.h"
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

// Three kinds of hostile peers together ask for more connections than all may have, and a client comes back between them.
TEST(SimWires, AClientComesBackBetweenFloods) {
  const Scenario scenario = draw_scenario(41664, Wires::kBoth);
  ASSERT_EQ(scenario.hostiles.size(), 3u);
  const RunResult result = run(scenario);
  EXPECT_TRUE(result.passed()) << (result.passed() ? "" : result.failures.front().what);
}

TEST(SimWires, EachWireHasAClientWhereBothAre) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = draw_scenario(seed, Wires::kBoth);
    const auto over_iwarp = std::ranges::count(scenario.clients, true, &ClientPlan::iwarp);
    EXPECT_GT(over_iwarp, 0) << seed;
    EXPECT_LT(over_iwarp, static_cast<ptrdiff_t>(scenario.clients.size())) << seed;
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

// A hostile that is kept away by a mistake of the simulation harms nobody either.
TEST(SimWires, HostilesOfIwarpDoWhatTheyAreFor) {
  struct Trace {
    HostileKind kind;
    const char* event;
    uint64_t at_least;
    uint32_t amount = 0;  // 0: that of the table
  };
  for (const Trace& trace :
       std::initializer_list<Trace>{{HostileKind::kHalfRequests, "iwarp.accepted", 480},
                                    {HostileKind::kHalfFpdus, "iwarp.end.fpdu_timeout", 50},
                                    {HostileKind::kClosedWindow, "iwarp.blocked_write", 16},
                                    {HostileKind::kSilentReads, "rpc.chunk.read", 50},
                                    {HostileKind::kHugeIwarpCalls, "rpc.chunk.read", 50},
                                    {HostileKind::kHugeIwarpReplies, "rpc.chunk.write", 50},
                                    {HostileKind::kTerminates, "iwarp.end.terminated", 20},
                                    {HostileKind::kGarbageBytes, "iwarp.end.violation", 20},
                                    {HostileKind::kConnectFlood, "iwarp.drop.prefix_half_open", 50},
                                    {HostileKind::kNeverReady, "gateway.connection.failed_handshake", 90, 2000}}) {
    Coverage coverage;
    Scenario scenario = isolation_of(trace.kind);
    scenario.phase_one = Duration::ms(600);
    scenario.faults.clear();
    scenario.hostiles[0].until = scenario.phase_one;
    scenario.hostiles[0].amount = trace.amount == 0 ? scenario.hostiles[0].amount : trace.amount;
    const RunResult result = run(scenario, &coverage);
    EXPECT_TRUE(result.passed()) << to_string(trace.kind);
    EXPECT_GE(coverage.count_of(trace.event), trace.at_least) << to_string(trace.kind);
  }
}

// The gateway's last words to its workers were not heard when nothing on the wire took any time: the end came in between.
TEST(SimWires, TheEndWaitsForWhatWorkersAreToHear) {
  for (const uint64_t seed : {3289u, 6439u}) {
    EXPECT_TRUE(run(draw_scenario(seed, Wires::kIwarp)).passed()) << seed;
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
