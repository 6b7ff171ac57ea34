// Budgets of classes of clients: who belongs where, and what happens to those who want more.
#include <algorithm>

#include "gateway/client_classes.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::ClientClassOptions;
using gateway::ConnectionResult;

control::IpPrefix prefix(const char* text) {
  return *control::parse_prefix(text);
}

TEST(ClientClasses, TheLongestPrefixDecides) {
  const std::vector<ClientClassOptions> classes = {
      {.name = "all", .prefixes = {prefix("0.0.0.0/0"), prefix("::/0")}},
      {.name = "site", .prefixes = {prefix("10.0.0.0/8"), prefix("fd00::/8")}},
      {.name = "host", .prefixes = {prefix("10.9.0.2")}},
  };
  const auto of = [&](const char* text) { return gateway::class_of(classes, *control::parse_ip(text)); };
  EXPECT_EQ(of("192.0.2.1"), 0u);
  EXPECT_EQ(of("10.9.0.3"), 1u);
  EXPECT_EQ(of("10.9.0.2"), 2u);
  EXPECT_EQ(of("fd09::2"), 1u);
  EXPECT_EQ(of("2001:db8::1"), 0u);
  EXPECT_EQ(gateway::class_of(std::span(classes).subspan(1), *control::parse_ip("192.0.2.1")), std::nullopt);
  EXPECT_EQ(gateway::class_of({}, *control::parse_ip("192.0.2.1")), std::nullopt);
}

// The client of these worlds is 10.9.0.2.
WorldOptions with_class(const ClientClassOptions& clients) {
  WorldOptions options;
  options.clients = {{.name = "others", .prefixes = {prefix("0.0.0.0/0")}, .allow = true}, clients};
  options.clients[1].prefixes = {prefix("10.9.0.0/24")};
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 100;
  options.load.window = 8;
  return options;
}

const gateway::ClientClassStats& stats_of(const World& world) {
  return world.server->gateway.stats().clients[1];
}

TEST(Budgets, WhoIsDeniedIsRefusedAndCounted) {
  World world(with_class({.name = "bad", .allow = false}));
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.is_dead(); }));
  EXPECT_EQ(world.peer->driver.last_rejection().reason, verbs::RejectReason::kRefused);
  EXPECT_EQ(ended(world, ConnectionResult::kRefusedClientDenied), 1u);
  EXPECT_EQ(stats_of(world).refused_denied, 1u);
  EXPECT_EQ(stats_of(world).connections, 0u);
  expect_nothing_left(world);
}

TEST(Budgets, ConnectionsBeyondTheLimitOfTheClassAreRefusedUntilOneEnds) {
  WorldOptions options = with_class({.name = "few", .connections_max = 2});
  options.load.connections = 3;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return stats_of(w).refused_limit > 0; }));
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(world.peer->driver.stats().lost, 1u) << "all three asked while there were places, and one came last";
  EXPECT_EQ(stats_of(world).connections, 2u);
  EXPECT_EQ(ended(world, ConnectionResult::kRefusedClientLimit), 1u);
  EXPECT_EQ(ended(world, ConnectionResult::kRefusedLimit), 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
  EXPECT_EQ(stats_of(world).connections, 0u);
}

TEST(Budgets, CreditsAreTheClassesWhenTheyAreFewer) {
  for (const uint32_t credits : {4u, 1000u}) {
    WorldOptions options = with_class({.name = "slow", .credits_max = credits});
    options.credits = 16;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(50));
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().credits_granted, std::min(credits, 16u));
    EXPECT_EQ(stats_of(world).credits_granted, std::min(credits, 16u));
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
    expect_nothing_left(world);
    EXPECT_EQ(stats_of(world).credits_granted, 0u);
    EXPECT_EQ(stats_of(world).credits_in_use, 0u);
  }
}

// Buffers are reserved for messages of one packet, and this client's take four.
TEST(Budgets, AClientWithASmallerPathMtuGetsTheCreditsThatItsReserveBacks) {
  for (const uint32_t path_mtu : {4096u, 1024u, 256u}) {
    WorldOptions options = with_class({.name = "slow", .credits_max = 12});
    options.credits = 32;
    options.path_mtu = path_mtu;
    options.reserved_packet_bytes = 4096;
    options.load.bytes = 2000;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(50));
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().credits_granted, path_mtu == 4096 ? 12u : 32 * path_mtu / 4096) << path_mtu;
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
    expect_nothing_left(world);
  }
}

// ECHO of 40,000 bytes: as many to read, and as many to write.
TEST(Budgets, CallsBeyondTheBytesOfTheClassWaitAndAllAreAnswered) {
  constexpr uint64_t kMax = 200'000;
  WorldOptions options = with_class({.name = "thin", .bytes_in_flight_max = kMax});
  options.load.bytes = 40'000;
  options.load.connections = 3;
  World world(options);
  world.start();
  uint64_t most = 0;
  uint64_t most_credits = 0;
  ASSERT_TRUE(world.run_until(Duration::seconds(60), [&](World& w) {
    most = std::max(most, stats_of(w).bytes_in_flight);
    most_credits = std::max(most_credits, stats_of(w).credits_in_use);
    return w.peer->driver.stats().calls >= 300;
  }));
  EXPECT_LE(most, kMax);
  EXPECT_GT(most, kMax / 2);
  EXPECT_GT(most_credits, 1u);
  EXPECT_LE(most_credits, 3u * options.load.window) << "more than the clients have under way";
  EXPECT_GT(stats_of(world).calls_postponed, 100u);
  const Histogram& rx = world.server->gateway.stage_durations().stages[static_cast<size_t>(rpcrdma::Stage::kRx)];
  EXPECT_GT(rx.count(), 100u) << "that calls wait here does not show";
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
  EXPECT_EQ(stats_of(world).bytes_in_flight, 0u);
  EXPECT_EQ(stats_of(world).credits_in_use, 0u);
}

TEST(Budgets, ACallThatIsLargerThanTheBudgetIsServedAlone) {
  WorldOptions options = with_class({.name = "tiny", .bytes_in_flight_max = 1});
  options.load.bytes = 100'000;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
  EXPECT_EQ(stats_of(world).bytes_in_flight, 0u);
}

// With calls that wait, and calls that are being pulled.
TEST(Budgets, AConnectionThatBreaksGivesItsBytesBack) {
  WorldOptions options = with_class({.name = "thin", .bytes_in_flight_max = 200'000});
  options.load.bytes = 40'000;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(20));
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return stats_of(w).bytes_in_flight > 100'000; }));
  world.server->gateway.close_all(world.now);
  world.run_for(Duration::ms(1));
  EXPECT_EQ(stats_of(world).bytes_in_flight, 0u);
  EXPECT_EQ(stats_of(world).connections, 0u);
}

}  // namespace
}  // namespace cw::sim
