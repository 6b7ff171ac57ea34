// A backend with several servers: which one connections go to, as checks say that servers go down and come back.
#include "control/service/server_health.h"
#include "gateway/server_choice.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using control::ServerHealth;
using control::ServerState;
using gateway::ServerChoice;

// A check that takes 100 ms, when the next is due.
bool check(ServerHealth& health, bool success) {
  const Instant begin = health.next_deadline();
  health.begin(begin);
  EXPECT_EQ(health.next_deadline(), Instant::never()) << "one at a time";
  return health.on_result(begin + Duration::ms(100), success);
}

TEST(ServerHealth, TheFirstCheckDecides) {
  for (const bool success : {true, false}) {
    ServerHealth health({}, Instant::from_ns(5));
    EXPECT_EQ(health.state(), ServerState::kUnknown);
    EXPECT_TRUE(check(health, success));
    EXPECT_EQ(health.state(), success ? ServerState::kUp : ServerState::kDown);
  }
}

TEST(ServerHealth, FallsAndRisesAfterSoManyInARow) {
  ServerHealth health({.interval = Duration::seconds(2), .fall = 3, .rise = 2}, Instant::from_ns(0));
  EXPECT_TRUE(check(health, true));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, true)) << "two are not three, and it starts anew";
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, false));
  EXPECT_EQ(health.state(), ServerState::kUp);
  EXPECT_TRUE(check(health, false));
  EXPECT_EQ(health.state(), ServerState::kDown);
  EXPECT_FALSE(check(health, true));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, true));
  EXPECT_TRUE(check(health, true));
  EXPECT_EQ(health.state(), ServerState::kUp);
  EXPECT_EQ(health.checks(), 11u);
  EXPECT_EQ(health.failures(), 6u);
}

TEST(ServerHealth, ChecksBeginAtTheIntervalOrAtOnceAfterOneThatTookLonger) {
  ServerHealth health({.interval = Duration::seconds(2)}, Instant::from_ns(0));
  health.begin(Instant::from_ns(0));
  (void)health.on_result(Instant::from_ns(0) + Duration::ms(300), true);
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(2));
  health.begin(health.next_deadline());
  (void)health.on_result(Instant::from_ns(0) + Duration::seconds(7), false);
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(7));
}

TEST(ServerHealth, OtherParametersCountFromTheNextCheckOn) {
  ServerHealth health({.interval = Duration::seconds(60), .fall = 9, .rise = 2}, Instant::from_ns(0));
  EXPECT_TRUE(check(health, true));
  EXPECT_FALSE(check(health, false));
  health.reconfigure({.interval = Duration::seconds(2), .fall = 2, .rise = 1});
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(62)) << "the last began after a minute";
  EXPECT_TRUE(check(health, false)) << "the second in a row";
  EXPECT_TRUE(check(health, true));
  health.begin(health.next_deadline());
  health.reconfigure({.interval = Duration::seconds(1)});
  EXPECT_EQ(health.next_deadline(), Instant::never()) << "one is under way";
}

TEST(ServerChoice, IsTheFirstThatIsNotDown) {
  ServerChoice servers({0, 1, 2});
  EXPECT_EQ(servers.pick(), 0u);
  EXPECT_FALSE(servers.any_up());
  servers.set(0, ServerState::kDown);
  EXPECT_EQ(servers.pick(), 1u) << "not checked yet is not down";
  servers.set(1, ServerState::kDown);
  servers.set(2, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 2u);
  servers.set(2, ServerState::kDown);
  EXPECT_EQ(servers.pick(), 0u) << "all are down: the first is tried";
  EXPECT_FALSE(servers.any_up());
  servers.set(1, ServerState::kUp);
  servers.set(7, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 1u);
  servers.set(0, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 0u) << "the preferred one is back";
}

WorldOptions two_servers() {
  WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.backend_servers = 2;
  options.backend_checked = true;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 3000;
  options.load.window = 8;
  options.load.reconnect = true;
  return options;
}

void say(World& world, uint32_t server, ServerState state) {
  world.server->gateway.on_core_message(
      world.now,
      {.kind = gateway::CoreMessage::Kind::kServerState, .index = 0, .value = static_cast<uint32_t>(state), .server = server});
}

TEST(FailOver, ClientsOfADeadServerLandOnTheNextAndNothingIsLost) {
  World world(two_servers());
  SimBackend& backend = world.server->backend;
  const gateway::BackendStats& stats = world.server->gateway.stats().backends[0];
  say(world, 0, ServerState::kUp);
  say(world, 1, ServerState::kUp);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(backend.open_count(0), 1u);
  EXPECT_EQ(stats.server_links[0], 1u);

  // The server dies. Until its checks have said so the client's connections end at once, and it comes again.
  backend.refusing_servers = 1;
  backend.close_all(world.now);
  world.run_for(Duration::ms(500));
  EXPECT_EQ(backend.open_count(), 0u);
  EXPECT_GT(stats.open_failures, 0u);
  EXPECT_EQ(stats.up, 1u) << "for the checks to say, not for a client";

  say(world, 0, ServerState::kDown);
  const uint64_t before = world.peer->driver.stats().calls;
  ASSERT_TRUE(world.run_calls(before + 50));
  EXPECT_EQ(backend.open_count(1), 1u);
  EXPECT_EQ(stats.server_links[0], 0u);
  EXPECT_EQ(stats.server_links[1], 1u);
  EXPECT_EQ(stats.up, 1u);

  // It is back: who is on the other stays there, who comes goes to it.
  backend.refusing_servers = 0;
  say(world, 0, ServerState::kUp);
  const uint64_t since = world.peer->driver.stats().calls;
  world.run_for(Duration::ms(100));
  EXPECT_GT(world.peer->driver.stats().calls, since + 100);
  EXPECT_EQ(backend.open_count(1), 1u);
  EXPECT_EQ(world.server->gateway.preferred_server(0), 0u);
  backend.close_all(world.now);
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 50));
  EXPECT_EQ(backend.open_count(0), 1u);
  EXPECT_EQ(backend.open_count(1), 0u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
  EXPECT_EQ(stats.server_links[0], 0u);
}

TEST(FailOver, WhileAServerIsUpByItsChecksAFailedConnectionRejectsNobody) {
  World world(two_servers());
  say(world, 0, ServerState::kUp);
  world.server->backend.refuses = true;
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(2), [](World& w) { return w.peer->driver.stats().lost >= 3; }));
  EXPECT_EQ(world.peer->driver.stats().refused, 0u);

  say(world, 0, ServerState::kDown);
  ASSERT_TRUE(world.run_until(Duration::seconds(2), [](World& w) { return w.peer->driver.stats().refused > 0; }));
  world.run_for(Duration::ms(1200));
  const uint64_t failures = world.server->gateway.stats().backends[0].open_failures;
  world.run_for(Duration::ms(800));
  EXPECT_LE(world.server->gateway.stats().backends[0].open_failures, failures + 1) << "one client tries in a second";
}

TEST(FailOver, WithoutASingleServerTheBackendIsDownAndTheFirstIsTriedAllTheSame) {
  World world(two_servers());
  const gateway::BackendStats& stats = world.server->gateway.stats().backends[0];
  EXPECT_FALSE(stats.is_judged());
  say(world, 0, ServerState::kDown);
  say(world, 1, ServerState::kDown);
  EXPECT_EQ(stats.up, 0u);
  EXPECT_TRUE(stats.is_judged());
  world.start();
  ASSERT_TRUE(world.run_calls(10));
  EXPECT_EQ(world.server->backend.open_count(0), 1u);
  EXPECT_EQ(stats.up, 0u);
}

}  // namespace
}  // namespace cw::sim
