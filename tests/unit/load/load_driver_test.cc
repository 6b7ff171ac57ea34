// The load driver between real stacks on a simulated clock: when calls go, what their latency is, which connections there are.
#include "apps/load/load_driver.h"

#include <gtest/gtest.h>

#include "apps/sim/world.h"

namespace cw::load {
namespace {

sim::WorldOptions closed(uint32_t connections = 2, uint32_t window = 8) {
  sim::WorldOptions options;
  options.load.operation = BenchProcedure::kEcho;
  options.load.bytes = 64;
  options.load.connections = connections;
  options.load.window = window;
  return options;
}

sim::WorldOptions open_loop(double rate, Arrivals arrivals, uint32_t connections = 2, uint32_t window = 8) {
  sim::WorldOptions options = closed(connections, window);
  options.load.open_loop = OpenLoopOptions{.rate = Profile(rate), .arrivals = arrivals, .queue_max = 1000};
  return options;
}

// A closed loop on a link without delay makes hundreds of thousands of calls a second.
constexpr Duration kSlowLink = Duration::ms(1);

// Connected, at time 0 of the load.
void begin(sim::World& world) {
  world.start();
  ASSERT_TRUE(
      world.run_until(Duration::seconds(5), [](sim::World& w) { return w.peer->driver.connected() == w.peer->driver.wanted(); }));
  world.peer->driver.reset_stats();
  world.peer->driver.begin(world.now);
}

TEST(OpenLoopLoad, KeepsItsRateAndWaitsForBegin) {
  sim::World world(open_loop(2'000, Arrivals::kConstant));
  world.start();
  world.run_for(Duration::ms(100));
  EXPECT_EQ(world.peer->driver.connected(), 2u);
  EXPECT_EQ(world.peer->driver.stats().calls, 0u);
  world.peer->driver.begin(world.now);
  world.run_for(Duration::seconds(2));
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_NEAR(static_cast<double>(stats.calls), 4'000, 2);
  EXPECT_EQ(stats.overflowed, 0u);
  EXPECT_LT(stats.latency().percentile(0.999), Duration::ms(1));
}

// The point of it: the server answers nothing for 200 ms. A closed loop with one call in flight has one slow call and says that
// nearly all were fast; here every call that was due meanwhile has waited, as its user would have.
TEST(OpenLoopLoad, AStalledServerShowsInThePercentiles) {
  sim::World world(open_loop(1'000, Arrivals::kConstant, 1, 1));
  begin(world);
  world.run_for(Duration::ms(400));
  world.link.faults.delay = Duration::ms(200);
  world.run_for(Duration::ms(2));
  world.link.faults.delay = Duration::us(2);
  world.run_for(Duration::ms(598));
  const LoadStats& stats = world.peer->driver.stats();
  // 200 of 1000 calls were due while nothing came: they waited 100 ms on average.
  const FineHistogram latency = stats.latency();
  EXPECT_NEAR(static_cast<double>(latency.count()), 1'000, 5);
  EXPECT_NEAR(static_cast<double>(latency.count_up_to(Duration::ms(1))), 800, 40);
  EXPECT_NEAR(latency.percentile(0.9).to_seconds(), 0.1, 0.015);
  EXPECT_NEAR(latency.percentile(0.999).to_seconds(), 0.2, 0.01);
  // From sending on, only the ones on the way were slow: what coordinated omission would have shown.
  EXPECT_LT(stats.service.percentile(0.99), Duration::ms(1));
}

TEST(OpenLoopLoad, CountsWhatItsQueueCannotHold) {
  sim::WorldOptions options = open_loop(10'000, Arrivals::kPoisson, 1, 1);
  options.load.open_loop->queue_max = 100;
  sim::World world(options);
  begin(world);
  world.link.faults.delay = Duration::ms(1);  // at most 500 calls a second
  world.run_for(Duration::seconds(1));
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_NEAR(static_cast<double>(stats.arrived), 10'000, 500);
  EXPECT_GE(world.peer->driver.queued(), 95u);
  EXPECT_LE(world.peer->driver.queued(), 100u);
  EXPECT_EQ(stats.arrived, stats.calls + stats.overflowed + world.peer->driver.queued() + world.peer->driver.in_flight());
  EXPECT_GT(stats.overflowed, 5'000u);
}

TEST(OpenLoopLoad, UsesAllConnectionsInTurn) {
  sim::World world(open_loop(1'000, Arrivals::kConstant, 4, 1));
  begin(world);
  world.link.faults.delay = Duration::us(1'500);  // three calls at a time have to be on their way
  world.run_for(Duration::seconds(1));
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_NEAR(static_cast<double>(stats.calls), 1'000, 20);
  EXPECT_LT(stats.latency().percentile(0.99), Duration::ms(4)) << "none waits while another connection is free";
}

TEST(LoadDriver, DrawsItsCallsFromAMix) {
  sim::WorldOptions options = closed();
  std::string problem;
  options.load.mix.emplace();
  ASSERT_TRUE(options.load.mix->parse("null:50,echo/512:30,source/64k:15,sink/100000:5", problem)) << problem;
  sim::World world(options);
  begin(world);
  ASSERT_TRUE(world.run_calls(4'000));
  ASSERT_TRUE(world.finish());
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_EQ(stats.wrong, 0u);
  EXPECT_EQ(stats.all_failed(), 0u);
  const double calls = static_cast<double>(stats.calls);
  EXPECT_NEAR(static_cast<double>(stats.entries[0].calls) / calls, 0.50, 0.04);
  EXPECT_NEAR(static_cast<double>(stats.entries[1].calls) / calls, 0.30, 0.04);
  EXPECT_NEAR(static_cast<double>(stats.entries[2].calls) / calls, 0.15, 0.03);
  EXPECT_NEAR(static_cast<double>(stats.entries[3].calls) / calls, 0.05, 0.02);
  EXPECT_EQ(stats.bytes, stats.entries[1].calls * 1024 + stats.entries[2].calls * 65536 + stats.entries[3].calls * 100'000);
  EXPECT_EQ(stats.latency().count(), stats.calls);
}

TEST(LoadDriver, ClosesAndOpensConnectionsAtTheRateOfItsChurn) {
  sim::WorldOptions options = closed(4, 4);
  options.load.churn_per_second = 50;
  sim::World world(options);
  world.link.faults.delay = kSlowLink;
  begin(world);
  world.run_for(Duration::seconds(2));
  ASSERT_TRUE(world.finish());
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_NEAR(static_cast<double>(stats.closed), 100, 3);
  EXPECT_NEAR(static_cast<double>(stats.connect.count()), 100, 5);
  EXPECT_GT(stats.connect.percentile(0.5), Duration());
  EXPECT_GT(stats.calls, 1'000u);
  EXPECT_EQ(stats.all_failed() + stats.wrong + stats.lost + stats.refused, 0u);
}

TEST(LoadDriver, FollowsAProfileOfConnections) {
  sim::WorldOptions options = closed(8, 2);
  std::string problem;
  options.load.connection_profile.emplace();
  ASSERT_TRUE(options.load.connection_profile->parse("2, 1s:8, 2s=3", problem)) << problem;
  sim::World world(options);
  world.link.faults.delay = kSlowLink;
  begin(world);
  EXPECT_EQ(world.peer->driver.connected(), 2u);
  world.run_for(Duration::ms(500));
  EXPECT_EQ(world.peer->driver.connected(), 5u);
  world.run_for(Duration::ms(600));
  EXPECT_EQ(world.peer->driver.connected(), 8u);
  world.run_for(Duration::seconds(1));
  EXPECT_EQ(world.peer->driver.connected(), 3u);
  const uint64_t calls = world.peer->driver.stats().calls;
  world.run_for(Duration::ms(100));
  EXPECT_GT(world.peer->driver.stats().calls, calls);
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_EQ(stats.all_failed() + stats.wrong + stats.lost + stats.refused, 0u);
}

TEST(LoadDriver, ACallThatIsSentAgainHasNotFailed) {
  sim::WorldOptions options = closed(2, 8);
  options.load.reconnect = true;
  sim::World world(options);
  begin(world);
  ASSERT_TRUE(world.run_calls(100));
  world.restart_gateway();
  ASSERT_TRUE(world.run_calls(1'000));
  ASSERT_TRUE(world.finish());
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_EQ(stats.lost, 2u);
  EXPECT_EQ(stats.interrupted, 16u);
  EXPECT_EQ(stats.resent, 16u);
  EXPECT_EQ(world.peer->driver.waiting_to_resend(), 0u);
  EXPECT_EQ(stats.all_failed(), 0u);
  // They count from the first time.
  EXPECT_NEAR(static_cast<double>(stats.latency().count() - stats.latency().count_up_to(Duration::ms(200))), 16, 1);
}

TEST(LoadDriver, WithoutReconnectTheyHave) {
  sim::World world(closed(2, 8));
  begin(world);
  ASSERT_TRUE(world.run_calls(100));
  world.restart_gateway();
  ASSERT_TRUE(world.run_until(Duration::seconds(60), [](sim::World& w) { return w.peer->driver.is_dead(); }));
  const LoadStats& stats = world.peer->driver.stats();
  EXPECT_EQ(stats.failed[static_cast<size_t>(rpcrdma::CallStatus::kConnectionLost)], 16u);
  EXPECT_EQ(stats.entries[0].failed, 16u);
  EXPECT_EQ(stats.interrupted, 0u);
}

}  // namespace
}  // namespace cw::load
