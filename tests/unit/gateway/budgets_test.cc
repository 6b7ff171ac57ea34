// Budgets of classes of clients: who belongs where, and what happens to those who want more.
#include <algorithm>

#include "gateway/client_classes.h"
#include "tests/unit/gateway/gateway_on_fake.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::BackendEvent;
using gateway::BackendRequest;
using gateway::ClientClassOptions;
using gateway::ConnectionResult;
using gateway::kAlice;
using gateway::kBob;
using verbs::ConnectionId;
using verbs::RejectReason;

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

class Budgets : public gateway::GatewayOnAFakeTransport {
 protected:
  // Alice's class, beside one for all others.
  void start_with(ClientClassOptions clients) {
    clients.prefixes = {{.address = kAlice, .length_bits = 32}};
    options.clients = {{.name = "others", .prefixes = {prefix("0.0.0.0/0")}, .allow = true}, clients};
    start();
  }
  const gateway::ClientClassStats& class_stats(uint32_t number = 1) { return gateway->stats().clients[number]; }
};

TEST_F(Budgets, WhoIsDeniedIsRefusedAndCounted) {
  start_with({.name = "bad", .allow = false});
  expect_refused(ask(kAlice), RejectReason::kRefused, ConnectionResult::kRefusedClientDenied);
  EXPECT_EQ(last_notice().client_class, 1u);
  EXPECT_EQ(class_stats().refused_denied, 1u);
  EXPECT_EQ(class_stats().connections, 0u);
  EXPECT_EQ(transport.held_count(), 0u);
  (void)open(kBob);
  EXPECT_EQ(class_stats(0).connections, 1u);
}

TEST_F(Budgets, ConnectionsBeyondTheLimitOfTheClassAreRefusedUntilOneEnds) {
  start_with({.name = "few", .connections_max = 2});
  const Opened first = open(kAlice);
  const ConnectionId second = ask(kAlice);
  const ConnectionId last = ask(kAlice);  // while there is a place
  confirm(second);
  worker_says(expect_request(BackendRequest::Kind::kOpen), BackendEvent::Kind::kOpened);
  confirm(last);
  expect_disconnected(last, ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(transport.at(ask(kAlice)).rejected, RejectReason::kNoResources);
  EXPECT_EQ(ended(ConnectionResult::kRefusedClientLimit), 2u);
  EXPECT_EQ(class_stats().refused_limit, 2u);
  EXPECT_EQ(class_stats().connections, 2u);
  EXPECT_EQ(ended(ConnectionResult::kRefusedLimit), 0u);
  expect_no_request();
  leave(first);
  EXPECT_EQ(class_stats().connections, 1u);
  (void)open(kAlice);
  EXPECT_EQ(class_stats().connections, 2u);
  gateway->close_all(now);
  EXPECT_EQ(class_stats().connections, 0u);
}

TEST_F(Budgets, CreditsAreTheClassesWhenTheyAreFewer) {
  listener().server.credits = 16;
  options.clients = {{.name = "slow", .prefixes = {{.address = kAlice, .length_bits = 32}}, .credits_max = 4},
                     {.name = "quick", .prefixes = {{.address = kBob, .length_bits = 32}}, .credits_max = 1000}};
  start();
  const Opened slow = open(kAlice);
  const Opened quick = open(kBob);
  EXPECT_EQ(transport.qp(slow.id).receives(), 4u);
  EXPECT_EQ(transport.qp(quick.id).receives(), 16u);
  expect_served(slow, 1, 4);
  expect_served(quick, 1, 16);
  EXPECT_EQ(class_stats(0).credits_granted, 4u);
  EXPECT_EQ(class_stats(1).credits_granted, 16u);
  EXPECT_EQ(gateway->rpcrdma_stats().credits_granted, 20u);
  call(slow.id, 2);
  EXPECT_EQ(class_stats(0).credits_in_use, 1u);
  gateway->close_all(now);
  turn();
  EXPECT_EQ(gateway->rpcrdma_stats().credits_granted, 0u);
  for (const uint32_t number : {0u, 1u}) {
    EXPECT_EQ(class_stats(number).credits_granted, 0u);
    EXPECT_EQ(class_stats(number).credits_in_use, 0u);
  }
}

// With a call that is being pulled, and one that waits.
TEST_F(Budgets, AConnectionThatBreaksGivesItsBytesBack) {
  start_with({.name = "thin", .bytes_in_flight_max = 60'000});
  const Opened opened = open(kAlice);
  call_with_chunk(opened.id, 1, 40'000);
  EXPECT_EQ(class_stats().bytes_in_flight, 40'000u);
  EXPECT_EQ(class_stats().calls_postponed, 0u);
  call_with_chunk(opened.id, 2, 40'000);
  EXPECT_EQ(class_stats().bytes_in_flight, 40'000u);
  EXPECT_EQ(class_stats().calls_postponed, 1u);
  EXPECT_EQ(transport.qp(opened.id).posted().size(), 1u) << "one RDMA Read";
  gateway->close_all(now);
  turn();
  EXPECT_EQ(class_stats().bytes_in_flight, 0u);
  EXPECT_EQ(class_stats().connections, 0u);
}

// Room for 4 GiB, more than any reply may have, and then nobody is there any more: what was not sent is not charged.
TEST_F(Budgets, RoomThatIsOfferedAndNeverFilledCostsTheOthersOfTheClassNothing) {
  options.clients = {{.name = "all", .prefixes = {prefix("10.0.0.0/24")}, .bytes_per_second = 1'000'000}};
  start();
  const Opened alice = open(kAlice);
  const Opened bob = open(kBob);
  rpcrdma::Words message{1, 1, 16, 0, 0, 1, 1};
  message.segment(0x1234, UINT32_MAX, 0).add({0, 0}).raw(rpcrdma::rpc_call(1).bytes());
  ASSERT_TRUE(transport.peer_sends(alice.id, rpcrdma::chain_of(packets, message.bytes())));
  turn();
  expect_forwarded(alice.link, 1);
  transport.peer_leaves(alice.id);
  turn();
  expect_served(bob, 2);
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

// Buffers are reserved for messages of one packet, and this client's take four.
TEST(BudgetsOnAWire, AClientWithASmallerPathMtuGetsTheCreditsThatItsReserveBacks) {
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
TEST(BudgetsOnAWire, CallsBeyondTheBytesOfTheClassWaitAndAllAreAnswered) {
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

// How long `calls` took, in virtual time, with so many under way already.
Duration time_of(World& world, uint64_t calls) {
  const Instant begun = world.now;
  const uint64_t before = world.peer->driver.stats().calls;
  EXPECT_TRUE(world.run_until(Duration::seconds(600), [&](World& w) { return w.peer->driver.stats().calls >= before + calls; }));
  return world.now - begun;
}

TEST(BudgetsOnAWire, CallsOfAClassKeepToItsRate) {
  WorldOptions options = with_class({.name = "slow", .calls_per_second = 2000});
  options.load.connections = 3;
  World world(options);
  world.start();
  (void)time_of(world, 200);
  EXPECT_NEAR(time_of(world, 1000).to_seconds(), 0.5, 0.01);
  EXPECT_GT(stats_of(world).calls_postponed, 900u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

// ECHO of 40,000 bytes, by chunks: 80,000 and the two messages around them. The room that a call offers counts until its reply
// is there, and the reply fills it.
TEST(BudgetsOnAWire, BytesOfAClassKeepToItsRate) {
  WorldOptions options = with_class({.name = "slow", .bytes_per_second = 100'000'000});
  options.load.bytes = 40'000;
  options.load.connections = 2;
  World world(options);
  world.start();
  (void)time_of(world, 50);
  const double seconds = time_of(world, 500).to_seconds();
  EXPECT_NEAR(seconds, 500 * 80'100 / 1e8, 0.02);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

// Inline calls and replies count too: each ECHO of 100 bytes has a call of 144 and a reply of 128.
TEST(BudgetsOnAWire, InlineBytesCount) {
  WorldOptions options = with_class({.name = "slow", .bytes_per_second = 272'000});
  World world(options);
  world.start();
  (void)time_of(world, 100);
  EXPECT_NEAR(time_of(world, 1000).to_seconds(), 1.0, 0.05);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(BudgetsOnAWire, OthersAreNotSlowedByTheRateOfAClass) {
  WorldOptions options = with_class({.name = "slow", .calls_per_second = 10});
  options.clients[1].prefixes = {prefix("10.8.0.0/24")};  // nobody
  World world(options);
  world.start();
  EXPECT_LT(time_of(world, 1000).to_seconds(), 0.1);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

// One that is larger than what the rate allows in a burst goes all the same, and the next one waits for it.
TEST(BudgetsOnAWire, ACallThatCostsMoreThanASecondGoesWhenItIsItsTurn) {
  WorldOptions options = with_class({.name = "slow", .bytes_per_second = 100'000});
  options.load.bytes = 100'000;
  options.load.window = 2;
  World world(options);
  world.start();
  (void)time_of(world, 3);
  EXPECT_NEAR(time_of(world, 5).to_seconds(), 10, 0.5);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

// A byte a second by mistake: those that wait are due in days, and go on when a reload has corrected it.
TEST(BudgetsOnAWire, AReloadCorrectsAMistakenRate) {
  WorldOptions options = with_class({.name = "slow", .bytes_per_second = 1});
  options.load.bytes = 100'000;
  World world(options);
  world.start();
  (void)time_of(world, 1);
  world.run_for(Duration::seconds(5));
  EXPECT_LE(world.peer->driver.stats().calls, 2u);
  for (const uint64_t corrected : {uint64_t{1'000'000}, uint64_t{0}}) {
    options.clients[1].bytes_per_second = corrected;
    gateway::GatewayOptions fresh = sim_gateway_options(options);
    world.server->gateway.reconfigure(fresh);
    EXPECT_LT(time_of(world, 5).to_seconds(), 4);
  }
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

TEST(BudgetsOnAWire, ACallThatIsLargerThanTheBudgetIsServedAlone) {
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

}  // namespace
}  // namespace cw::sim
