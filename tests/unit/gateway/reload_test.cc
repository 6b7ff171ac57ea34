// New options for a gateway that runs: connections keep what they began with, those that come get what is new, and no call fails.
#include <string>
#include <utility>
#include <vector>

#include "gateway/config_ids.h"
#include "gateway/server_choice.h"
#include "rpcrdma/backend/bench_program.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using control::ServerState;
using control::SocketAddress;
using gateway::ConnectionResult;
using gateway::GatewayOptions;
using gateway::RouteIds;
using gateway::RouteKey;
using gateway::ServerChoice;
using gateway::ServerIds;
using Numbers = std::vector<uint32_t>;

SocketAddress server(uint16_t port) {
  return {IpAddress::v4(0x7f00'0001), port};
}

TEST(ServerIds, NeverMeanAnotherServer) {
  ServerIds numbers;
  EXPECT_EQ(numbers.number(std::vector{server(1), server(2)}), (Numbers{0, 1}));
  EXPECT_EQ(numbers.number(std::vector{server(3), server(2)}), (Numbers{2, 1}));
  EXPECT_EQ(numbers.number(std::vector{server(1)}), Numbers{0}) << "it is back";
  ASSERT_EQ(numbers.values().size(), 3u);
  EXPECT_EQ(numbers.values()[2], server(3));
}

TEST(ServerIds, AreBounded) {
  ServerIds numbers;
  for (uint16_t port = 1; port < gateway::kBackendServersMax; ++port) {
    (void)numbers.number(std::vector{server(port)});
  }
  EXPECT_TRUE(numbers.has_room_for(std::vector{server(1), server(99)}));
  EXPECT_FALSE(numbers.has_room_for(std::vector{server(98), server(99)}));
}

TEST(RouteIds, NeverMeanAnotherWay) {
  RouteIds numbers;
  EXPECT_EQ(numbers.number({0, 7, 1}), 0u);
  EXPECT_EQ(numbers.number({0, std::nullopt, 1}), 1u);
  EXPECT_EQ(numbers.number({0, 7, 2}), 2u) << "the program goes elsewhere";
  EXPECT_EQ(numbers.number({1, 7, 1}), 3u) << "of another listener";
  EXPECT_EQ(numbers.number({0, 7, 1}), 0u) << "it is back";
  ASSERT_EQ(numbers.values().size(), 4u);
  EXPECT_EQ(numbers.values()[2], (RouteKey{0, 7, 2}));
}

TEST(RouteIds, AreBounded) {
  RouteIds numbers;
  for (uint32_t program = 1; program < gateway::kRouteIdsMax; ++program) {
    (void)numbers.number({0, program, 0});
  }
  EXPECT_TRUE(numbers.has_room_for(std::vector<RouteKey>{{0, 1, 0}, {0, 0, 0}}));
  EXPECT_FALSE(numbers.has_room_for(std::vector<RouteKey>{{0, 1, 1}, {0, 0, 0}}));
}

TEST(ServerChoice, OfOtherServersKeepsWhatIsKnown) {
  ServerChoice servers({0, 1});
  servers.set(0, ServerState::kDown);
  servers.set(1, ServerState::kUp);
  Numbers fresh{2, 0, 1};
  servers.exchange(fresh);
  EXPECT_EQ(fresh, (Numbers{0, 1}));
  EXPECT_EQ(servers.pick(), 2u) << "nothing is known of it yet";
  servers.set(2, ServerState::kDown);
  EXPECT_EQ(servers.pick(), 1u) << "server 0 is known to be down";
  fresh = {0};
  servers.exchange(fresh);
  EXPECT_FALSE(servers.any_up());
  fresh = {1, 0};
  servers.exchange(fresh);
  EXPECT_FALSE(servers.any_up()) << "what was known of a server that went is forgotten";
  EXPECT_EQ(servers.pick(), 1u);
}

WorldOptions echo() {
  WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 3000;
  options.load.window = 8;
  options.load.reconnect = true;
  return options;
}

uint64_t accepted(const World& world) {
  return world.server->gateway.stats().connections[static_cast<size_t>(ConnectionResult::kAccepted)];
}
[[nodiscard]] bool run_more(World& world, uint64_t calls) {
  return world.run_calls(world.peer->driver.stats().calls + calls);
}
gateway::ConnectionInfo the_connection(const World& world) {
  std::vector<gateway::ConnectionInfo> rows(4);
  EXPECT_EQ(world.server->gateway.describe(world.now, rows), 1u);
  return rows[0];
}
// The client's connection ends, and it comes again.
void come_again(World& world) {
  world.server->backend.close_all(world.now);
  ASSERT_TRUE(run_more(world, 50));
}

TEST(Reload, ConnectionsStayWithTheirServerAndNewOnesGoToTheNew) {
  World world(echo());
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  GatewayOptions fresh = sim_gateway_options(echo());
  fresh.backends[0].servers = {3, 1};
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(run_more(world, 100));
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(accepted(world), 1u);
  EXPECT_EQ(stats_of(world, 0).server_links[0], 1u);
  EXPECT_EQ(world.server->backend.open_count(0), 1u);
  come_again(world);
  EXPECT_EQ(world.server->backend.open_count(0), 0u) << "a server that went takes nobody";
  EXPECT_EQ(world.server->backend.open_count(3), 1u);
  EXPECT_EQ(stats_of(world, 0).server_links[0], 0u);
  EXPECT_EQ(stats_of(world, 0).server_links[3], 1u);
  EXPECT_EQ(the_connection(world).server, 3u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
  EXPECT_EQ(stats_of(world, 0).server_links[3], 0u);
}

TEST(Reload, ALaneThatIsOpenedAgainGoesToTheNewServer) {
  WorldOptions options = echo();
  options.backends = 2;
  options.routes = {{rpcrdma::kBenchProgram, 1}};
  World world(options);
  world.server->backend.refusing_backends = 2;
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.server->gateway.stats().lane_failures > 0; }));
  GatewayOptions fresh = sim_gateway_options(options);
  fresh.backends[1].servers = {5};
  world.server->gateway.reconfigure(fresh);
  world.server->backend.refusing_backends = 0;
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return stats_of(w, 1).replies > 50; }));
  EXPECT_EQ(stats_of(world, 1).server_links[5], 1u);
  EXPECT_EQ(stats_of(world, 1).server_links[0], 0u);
  EXPECT_EQ(accepted(world), 1u) << "one connection, whose lane goes elsewhere";
}

TEST(Reload, ChecksThatBeginOrEndJudgeTheBackendFromThenOn) {
  World world(echo());
  world.start();
  ASSERT_TRUE(world.run_calls(10));
  EXPECT_EQ(stats_of(world, 0).up, 1u);
  GatewayOptions checked = sim_gateway_options(echo());
  checked.backends[0].checked = true;
  world.server->gateway.reconfigure(checked);
  EXPECT_EQ(stats_of(world, 0).up, 1u) << "until a check says otherwise";
  const auto say = [&](ServerState state) {
    world.server->gateway.on_core_message(
        world.now, {.kind = gateway::CoreMessage::Kind::kServerState, .value = static_cast<uint32_t>(state)});
  };
  say(ServerState::kDown);
  EXPECT_EQ(stats_of(world, 0).up, 0u);
  GatewayOptions unchecked = sim_gateway_options(echo());
  world.server->gateway.reconfigure(unchecked);
  say(ServerState::kUnknown);
  EXPECT_EQ(stats_of(world, 0).checked, 0u);
  come_again(world);
  EXPECT_EQ(stats_of(world, 0).up, 1u) << "a client got through";
}

TEST(Reload, ConnectionsKeepTheirRoutesAndNewOnesHaveTheNew) {
  WorldOptions options = echo();
  options.backends = 3;
  World world(options);
  world.start();
  const auto calls_of = [&](uint32_t backend) { return world.server->backend.calls_of(backend, rpcrdma::kBenchProgram); };
  const auto counted = [&](uint32_t route) { return world.server->gateway.stats().route_calls[route]; };
  const auto reroute = [&](std::vector<gateway::RouteOptions> routes, uint32_t backend, uint32_t other) {
    GatewayOptions fresh = sim_gateway_options(options);
    fresh.listeners[0].routes = std::move(routes);
    fresh.listeners[0].backend = backend;
    fresh.listeners[0].other_route = other;
    world.server->gateway.reconfigure(fresh);
  };
  ASSERT_TRUE(world.run_calls(50));
  reroute({{rpcrdma::kBenchProgram, 1, 1}, {7, 2, 2}}, 0, 0);
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_EQ(calls_of(1), 0u) << "an established connection keeps its routes";
  EXPECT_EQ(counted(1), 0u) << "and their counters";
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  come_again(world);
  EXPECT_GT(calls_of(1), 40u);
  const uint64_t before = calls_of(0);
  // The listener's own backend changes, and a program goes back to it.
  reroute({{7, 1, 3}}, 2, 4);
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_EQ(calls_of(2) + counted(4), 0u);
  EXPECT_EQ(the_connection(world).backend, 0u);
  come_again(world);
  EXPECT_GT(calls_of(2), 40u);
  EXPECT_EQ(calls_of(0), before);
  EXPECT_EQ(the_connection(world).backend, 2u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
  EXPECT_EQ(counted(0), stats_of(world, 0).calls);
  EXPECT_EQ(counted(1), stats_of(world, 1).calls);
  EXPECT_EQ(counted(4), stats_of(world, 2).calls);
  for (uint32_t backend = 0; backend < 3; ++backend) {
    EXPECT_EQ(stats_of(world, backend).links, 0u);
    EXPECT_EQ(stats_of(world, backend).calls_in_flight, 0u);
  }
}

TEST(BackendIds, NeverMeanAnotherBackend) {
  gateway::BackendIds numbers;
  EXPECT_EQ(numbers.number({"one", control::BackendType::kTcp}), 0u);
  EXPECT_EQ(numbers.number({"two", control::BackendType::kTcp}), 1u);
  EXPECT_EQ(numbers.find({"one", control::BackendType::kBuiltin}), std::nullopt) << "of that name, but another one";
  EXPECT_EQ(numbers.number({"one", control::BackendType::kTcp}), 0u) << "it is back";
}

// One that is removed, while a lane to it is open and another is not yet, and comes back; and one that comes.
TEST(Reload, ConnectionsStayWithABackendThatIsRemoved) {
  World world(echo());
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  const auto calls_of = [&](uint32_t backend) { return world.server->backend.calls_of(backend, rpcrdma::kBenchProgram); };
  const auto reload = [&](uint32_t backends, uint32_t removed, uint32_t wanted, uint32_t route_to) {
    GatewayOptions fresh = sim_gateway_options(echo());
    fresh.backends.resize(backends, fresh.backends[0]);
    fresh.backends[removed].removed = true;
    fresh.listeners[0].backend = wanted;
    fresh.listeners[0].routes = {{7, route_to, 1}};
    world.server->gateway.reconfigure(fresh);
  };
  const auto goes_on = [&] {
    const uint64_t failures_before = failures(world.peer->driver.stats());
    ASSERT_TRUE(run_more(world, 50));
    EXPECT_EQ(failures(world.peer->driver.stats()), failures_before);
  };
  EXPECT_EQ(stats_of(world, 0).up, 1u);
  reload(2, 0, 1, 1);
  goes_on();
  EXPECT_EQ(calls_of(1), 0u);
  EXPECT_EQ(stats_of(world, 0).server_links[0], 1u);
  EXPECT_FALSE(stats_of(world, 0).is_judged()) << "nobody asks for it any more";
  come_again(world);
  EXPECT_EQ(the_connection(world).backend, 1u);
  EXPECT_EQ(stats_of(world, 0).links, 0u);
  EXPECT_EQ(stats_of(world, 1).up, 1u) << "a client got through";
  const uint64_t before = calls_of(0);
  // Back, and the other one goes.
  world.server->backend.refusing_backends = 1;
  reload(2, 1, 0, 0);
  goes_on();
  EXPECT_EQ(calls_of(0), before);
  EXPECT_FALSE(stats_of(world, 0).is_judged());
  world.server->backend.close_all(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return stats_of(w, 0).open_failures > 0; }));
  EXPECT_TRUE(stats_of(world, 0).is_judged());
  EXPECT_EQ(stats_of(world, 0).up, 0u);
  reload(2, 0, 1, 1);
  EXPECT_FALSE(stats_of(world, 0).is_judged()) << "what it was before counts no longer";
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_EQ(the_connection(world).backend, 1u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
}

// One comes at the port of one that goes; then nobody listens; then the first is back.
TEST(Reload, ConnectionsOfAListenerThatIsRemovedGoOn) {
  World world(echo());
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  const auto reload = [&](std::vector<bool> removed) {
    GatewayOptions fresh = sim_gateway_options(echo());
    fresh.listeners.resize(removed.size(), fresh.listeners[0]);
    for (size_t i = 0; i < removed.size(); ++i) {
      fresh.listeners[i].removed = removed[i];
    }
    world.server->gateway.reconfigure(fresh);
  };
  const auto goes_on = [&] {
    const uint64_t failures_before = failures(world.peer->driver.stats());
    ASSERT_TRUE(run_more(world, 50));
    EXPECT_EQ(failures(world.peer->driver.stats()), failures_before);
  };
  reload({true, false});
  goes_on();
  EXPECT_EQ(the_connection(world).listener, 0u);
  come_again(world);
  EXPECT_EQ(the_connection(world).listener, 1u);
  reload({true, true});
  goes_on();
  const uint64_t before = accepted(world);
  world.server->backend.close_all(world.now);
  world.run_for(Duration::seconds(2));
  EXPECT_EQ(accepted(world), before) << "nobody listens";
  EXPECT_EQ(world.server->gateway.stats().connections_open, 0u);
  reload({false, true});
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_EQ(the_connection(world).listener, 0u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
}

TEST(Reload, APlaceOfAListenerThatWasRemovedIsGivenBack) {
  WorldOptions options = echo();
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(10));
  const auto reload = [&](bool removed) {
    GatewayOptions fresh = sim_gateway_options(options);
    fresh.listeners.push_back(fresh.listeners[0]);
    fresh.listeners[0].connections_max = 1;
    fresh.listeners[0].removed = removed;
    fresh.listeners[1].removed = !removed;
    world.server->gateway.reconfigure(fresh);
  };
  reload(true);
  come_again(world);
  EXPECT_EQ(the_connection(world).listener, 1u);
  reload(false);
  come_again(world);
  EXPECT_EQ(the_connection(world).listener, 0u) << "the one place that it has was free";
}

TEST(Reload, AChecksWordOnABackendThatACoreDoesNotHaveYetIsDropped) {
  World world(echo());
  world.start();
  world.server->gateway.on_core_message(world.now, {.kind = gateway::CoreMessage::Kind::kServerState,
                                                    .index = gateway::kBackendIdsMax - 1,
                                                    .value = static_cast<uint32_t>(ServerState::kUp)});
  ASSERT_TRUE(world.run_calls(10));
}

TEST(Reload, CreditsAndInlineSizesAreForNewConnections) {
  World world(echo());
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(the_connection(world).credits_granted, 64u);
  GatewayOptions fresh = sim_gateway_options(echo());
  fresh.listeners[0].server.credits = 5;
  fresh.listeners[0].inline_bytes = 2048;
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_EQ(the_connection(world).credits_granted, 64u);
  EXPECT_EQ(the_connection(world).thresholds.receive_bytes, 4096u);
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  come_again(world);
  EXPECT_EQ(the_connection(world).credits_granted, 5u);
  EXPECT_EQ(the_connection(world).thresholds.receive_bytes, 2048u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
}

// What we have said of ourselves and what we go by are the same, whenever the reload comes.
TEST(Reload, WhileTheBackendConnectionIsMadeBothSidesAgree) {
  World world(echo());
  world.server->backend.open_delay = Duration::ms(300);
  world.start();
  world.run_for(Duration::ms(100));
  ASSERT_EQ(the_connection(world).state, gateway::ConnectionState::kOpeningBackend);
  GatewayOptions fresh = sim_gateway_options(echo());
  fresh.listeners[0].inline_bytes = 1024;
  fresh.listeners[0].routes = {{rpcrdma::kBenchProgram, 0}};
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(the_connection(world).thresholds.receive_bytes, 4096u);
  EXPECT_EQ(world.peer->client.endpoint(client::ClientId(0))->thresholds().send_bytes, 4096u);
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
}

TEST(Reload, PlacesOfAListenerMayBecomeFewerThanAreTaken) {
  gateway::LocalQuota places(8, Numbers{3, 3});
  EXPECT_TRUE(places.take(0) && places.take(0));
  places.set_max(0, 1);
  EXPECT_FALSE(places.take(0));
  EXPECT_TRUE(places.take(1)) << "of the other listener";
  places.give_back(0);
  EXPECT_FALSE(places.take(0)) << "the one that there may be is out";
  places.give_back(0);
  EXPECT_TRUE(places.take(0));
  places.set_max(0, UINT32_MAX);
  EXPECT_TRUE(places.take(0));
}

TEST(Reload, ALowerBudgetHoldsForConnectionsThatThereAre) {
  WorldOptions options = echo();
  options.load.bytes = 64 * 1024;
  options.clients = {{.name = "all", .prefixes = {*control::parse_prefix("0.0.0.0/0")}, .bytes_in_flight_max = 1u << 30}};
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(world.server->gateway.stats().clients[0].calls_postponed, 0u);
  GatewayOptions fresh = sim_gateway_options(options);
  fresh.clients[0].bytes_in_flight_max = 1;
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_GT(world.server->gateway.stats().clients[0].calls_postponed, 0u);
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(accepted(world), 1u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(ClientIds, NeverMeanAnotherClass) {
  gateway::ClientIds numbers;
  EXPECT_EQ(numbers.number(std::vector<std::string>{"one", "two"}), (Numbers{0, 1}));
  EXPECT_EQ(numbers.number("three"), 2u);
  EXPECT_EQ(numbers.number("two"), 1u) << "it is back";
  EXPECT_EQ(numbers.find("three"), 2u);
  EXPECT_EQ(numbers.find("four"), std::nullopt);
}

// A class that comes, goes and comes back under its old number; another one in its place.
TEST(Reload, ConnectionsCountInTheClassThatTheyBeganIn) {
  WorldOptions options = echo();
  options.load.bytes = 64 * 1024;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  const auto counted = [&](uint32_t number) { return world.server->gateway.stats().clients[number].connections; };
  const auto reload = [&](std::vector<gateway::ClientClassOptions> clients) {
    GatewayOptions fresh = sim_gateway_options(options);
    fresh.clients = std::move(clients);
    const uint64_t failures_before = failures(world.peer->driver.stats());
    world.server->gateway.reconfigure(fresh);
    ASSERT_TRUE(run_more(world, 50));
    EXPECT_EQ(failures(world.peer->driver.stats()), failures_before);
  };
  const std::vector<control::IpPrefix> everybody = {*control::parse_prefix("0.0.0.0/0")};
  const gateway::ClientClassOptions first{.name = "first", .prefixes = everybody, .connections_max = 1, .bytes_in_flight_max = 1};
  reload({first});
  EXPECT_EQ(the_connection(world).client_class, std::nullopt) << "it was there before";
  come_again(world);
  EXPECT_EQ(the_connection(world).client_class, 0u);
  EXPECT_EQ(counted(0), 1u);
  reload({{}, {.name = "second", .prefixes = everybody}});
  EXPECT_EQ(the_connection(world).client_class, 0u);
  EXPECT_EQ(counted(0), 1u) << "it counts where it began";
  const uint64_t postponed = world.server->gateway.stats().clients[0].calls_postponed;
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_GT(world.server->gateway.stats().clients[0].calls_postponed, postponed) << "in its budget, too";
  come_again(world);
  EXPECT_EQ(the_connection(world).client_class, 1u);
  EXPECT_EQ(counted(0), 0u);
  EXPECT_EQ(counted(1), 1u);
  reload({first, {}});
  EXPECT_EQ(the_connection(world).client_class, 1u);
  come_again(world);
  EXPECT_EQ(the_connection(world).client_class, 0u) << "its place was given back";
  reload({{.name = "first", .prefixes = everybody, .allow = false}, {}});
  EXPECT_EQ(counted(0), 1u) << "who is there stays";
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
  EXPECT_EQ(counted(0) + counted(1), 0u);
}

// What credits take of the buffers, the data of calls has no longer; a call is always served.
TEST(Reload, ASmallerShareOfTheBuffersHoldsForConnectionsThatThereAre) {
  WorldOptions options = echo();
  options.load.bytes = 64 * 1024;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().read_stalls, 0u);
  GatewayOptions fresh = sim_gateway_options(options);
  fresh.pull_buffers_max = 1;
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(run_more(world, 50));
  EXPECT_GT(world.server->gateway.rpcrdma_stats().read_stalls, 0u);
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
