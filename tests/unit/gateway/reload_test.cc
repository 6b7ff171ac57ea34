// New options for a gateway that runs: connections keep what they began with, those that come get what is new, and no call fails.
#include <string>
#include <utility>
#include <vector>

#include "gateway/config_ids.h"
#include "gateway/orphans.h"
#include "gateway/server_choice.h"
#include "rpcrdma/backend/bench_program.h"
#include "tests/unit/gateway/gateway_on_fake.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using control::ServerState;
using control::SocketAddress;
using gateway::BackendEvent;
using gateway::BackendRequest;
using gateway::ConnectionResult;
using gateway::GatewayOptions;
using gateway::kAlice;
using gateway::kBob;
using gateway::LinkId;
using gateway::RouteIds;
using gateway::RouteKey;
using gateway::ServerChoice;
using gateway::ServerIds;
using verbs::ConnectionId;
using verbs::RejectReason;
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

class Reload : public gateway::GatewayOnAFakeTransport {
 protected:
  // With these changes.
  template <typename Change>
  void reload(Change&& change) {
    GatewayOptions fresh = options;
    change(fresh);
    EXPECT_TRUE(gateway->reconfigure(fresh));
  }
  // Its backend connection ends, and with it the client's; the client comes again.
  Opened come_again(const Opened& before, uint32_t backend = 0, uint32_t server = 0) {
    worker_says(before.link, BackendEvent::Kind::kClosed);
    EXPECT_EQ(transport.at(before.id).disconnects, 1u);
    return open_at(kAlice, backend, server);
  }
  void expect_goes_on(const Opened& opened, uint32_t xid) {
    expect_served(opened, xid);
    EXPECT_EQ(transport.at(opened.id).disconnects, 0u);
  }
  uint64_t accepted() { return ended(ConnectionResult::kAccepted); }
};

TEST_F(Reload, ConnectionsStayWithTheirServerAndNewOnesGoToTheNew) {
  start();
  const Opened first = open_at(kAlice, 0, 0);
  expect_goes_on(first, 1);
  reload([](GatewayOptions& fresh) { fresh.backends[0].servers = {3, 1}; });
  expect_goes_on(first, 2);
  EXPECT_EQ(accepted(), 1u);
  EXPECT_EQ(backend_stats(0).server_links[0], 1u);
  EXPECT_EQ(the_connection().server, 0u);
  const Opened second = come_again(first, 0, 3);
  EXPECT_EQ(backend_stats(0).server_links[0], 0u);
  EXPECT_EQ(backend_stats(0).server_links[3], 1u);
  EXPECT_EQ(the_connection().server, 3u);
  expect_goes_on(second, 3);
  leave(second);
  EXPECT_EQ(backend_stats(0).server_links[3], 0u);
}

TEST_F(Reload, ALaneThatIsOpenedAgainGoesToTheNewServer) {
  options.backends.push_back(options.backends[0]);
  listener().routes = {{rpcrdma::kBenchProgram, 1}};
  start();
  const Opened opened = open_at(kAlice, 0);
  call(opened.id, 1);
  const LinkId failed = expect_opening(1, 0);
  expect_forwarded(failed, 1);
  worker_says(failed, BackendEvent::Kind::kFailed);
  acknowledge(opened.id);
  EXPECT_EQ(gateway->stats().lane_failures, 1u);
  reload([](GatewayOptions& fresh) { fresh.backends[1].servers = {5}; });
  call(opened.id, 2);
  const LinkId lane = expect_opening(1, 5);
  expect_forwarded(lane, 2);
  worker_says(lane, BackendEvent::Kind::kOpened);
  worker_replies(lane, 2);
  expect_replied(opened.id, 2);
  EXPECT_EQ(backend_stats(1).server_links[5], 1u);
  EXPECT_EQ(backend_stats(1).server_links[0], 0u);
  EXPECT_EQ(accepted(), 1u) << "one connection, whose lane goes elsewhere";
}

TEST_F(Reload, ChecksThatBeginOrEndJudgeTheBackendFromThenOn) {
  start();
  const Opened first = open(kAlice);
  EXPECT_EQ(backend_stats(0).up, 1u);
  reload([](GatewayOptions& fresh) { fresh.backends[0].checked = true; });
  EXPECT_EQ(backend_stats(0).up, 1u) << "until a check says otherwise";
  check_says(0, ServerState::kDown);
  EXPECT_EQ(backend_stats(0).up, 0u);
  EXPECT_EQ(backend_stats(0).checked, 1u);
  reload([](GatewayOptions&) {});
  check_says(0, ServerState::kUnknown);
  EXPECT_EQ(backend_stats(0).checked, 0u);
  (void)come_again(first);
  EXPECT_EQ(backend_stats(0).up, 1u) << "a client got through";
}

TEST_F(Reload, ConnectionsKeepTheirRoutesAndNewOnesHaveTheNew) {
  constexpr uint32_t kOther = 7;  // a program
  options.backends.resize(3, options.backends[0]);
  start();
  const auto counted = [&](uint32_t route) { return gateway->stats().route_calls[route]; };
  const Opened first = open_at(kAlice, 0);
  expect_goes_on(first, 1);
  reload([&](GatewayOptions& fresh) { fresh.listeners[0].routes = {{rpcrdma::kBenchProgram, 1, 1}, {kOther, 2, 2}}; });
  expect_goes_on(first, 2);
  EXPECT_EQ(counted(1), 0u) << "an established connection keeps its routes, and their counters";
  EXPECT_EQ(counted(0), 2u);

  const Opened second = come_again(first, 0);
  call(second.id, 3);
  const LinkId bench = expect_opening(1);
  expect_forwarded(bench, 3);
  call(second.id, 4, kOther);
  const LinkId other = expect_opening(2);
  expect_forwarded(other, 4, kOther);
  EXPECT_EQ(counted(1), 1u);
  EXPECT_EQ(counted(2), 1u);
  // The listener's own backend changes, and a program goes back to it.
  reload([&](GatewayOptions& fresh) {
    fresh.listeners[0].routes = {{kOther, 1, 3}};
    fresh.listeners[0].backend = 2;
    fresh.listeners[0].other_route = 4;
  });
  call(second.id, 5);
  expect_forwarded(bench, 5);
  EXPECT_EQ(counted(4), 0u);
  EXPECT_EQ(the_connection().backend, 0u);
  // Links that owe nothing are closed with their connection.
  for (const LinkId link : {bench, other}) {
    worker_says(link, BackendEvent::Kind::kOpened);
  }
  worker_replies(bench, 3);
  worker_replies(other, 4);
  worker_replies(bench, 5);
  turn(gateway::Orphans::kAnswerSettles);
  gateway->close_all(now);
  for (uint32_t backend = 0; backend < 3; ++backend) {
    EXPECT_EQ(backend_stats(backend).calls_in_flight, 0u);
    EXPECT_EQ(backend_stats(backend).links, 0u);
    EXPECT_EQ(expect_request(BackendRequest::Kind::kClose), backend == 0 ? second.link : backend == 1 ? bench : other);
  }

  const Opened third = open_at(kAlice, 2);
  expect_goes_on(third, 6);
  call(third.id, 7, kOther);
  expect_forwarded(expect_opening(1), 7, kOther);
  EXPECT_EQ(the_connection().backend, 2u);
  EXPECT_EQ(counted(4), 1u);
  EXPECT_EQ(counted(3), 1u);
}

// One that is removed, while a lane to it is open and another is not yet, and comes back; and one that comes.
TEST_F(Reload, ConnectionsStayWithABackendThatIsRemoved) {
  start();
  const auto remove = [&](uint32_t removed, uint32_t wanted) {
    reload([&](GatewayOptions& fresh) {
      fresh.backends.resize(2, fresh.backends[0]);
      fresh.backends[removed].removed = true;
      fresh.listeners[0].backend = wanted;
      fresh.listeners[0].routes = {{7, wanted, 1}};
    });
  };
  const Opened first = open_at(kAlice, 0);
  EXPECT_EQ(backend_stats(0).up, 1u);
  remove(0, 1);
  expect_goes_on(first, 1);
  EXPECT_EQ(backend_stats(0).server_links[0], 1u);
  EXPECT_FALSE(backend_stats(0).is_judged()) << "nobody asks for it any more";
  const Opened second = come_again(first, 1);
  EXPECT_EQ(the_connection().backend, 1u);
  EXPECT_EQ(backend_stats(0).links, 0u);
  EXPECT_EQ(backend_stats(1).up, 1u) << "a client got through";
  // Back, and the other one goes.
  remove(1, 0);
  expect_goes_on(second, 2);
  EXPECT_FALSE(backend_stats(0).is_judged());
  worker_says(second.link, BackendEvent::Kind::kClosed);
  const ConnectionId in_vain = ask(kAlice);
  confirm(in_vain);
  worker_says(expect_opening(0), BackendEvent::Kind::kFailed);
  EXPECT_TRUE(backend_stats(0).is_judged());
  EXPECT_EQ(backend_stats(0).up, 0u);
  EXPECT_EQ(transport.at(ask(kAlice)).rejected, RejectReason::kRefused) << "it is down";
  remove(0, 1);
  EXPECT_FALSE(backend_stats(0).is_judged()) << "what it was before counts no longer";
  const Opened third = open_at(kAlice, 1);
  expect_goes_on(third, 3);
  EXPECT_EQ(the_connection().backend, 1u);
}

// One comes at the port of one that goes; then nobody listens; then the first is back.
TEST_F(Reload, ConnectionsOfAListenerThatIsRemovedGoOn) {
  start();
  const auto remove = [&](std::vector<bool> removed) {
    reload([&](GatewayOptions& fresh) {
      fresh.listeners.resize(removed.size(), fresh.listeners[0]);
      for (size_t i = 0; i < removed.size(); ++i) {
        fresh.listeners[i].removed = removed[i];
      }
    });
  };
  const Opened first = open(kAlice);
  remove({true, false});
  expect_goes_on(first, 1);
  EXPECT_EQ(the_connection().listener, 0u);
  EXPECT_EQ(transport.ports().size(), 1u);
  const Opened second = come_again(first);
  EXPECT_EQ(the_connection().listener, 1u);
  remove({true, true});
  expect_goes_on(second, 2);
  EXPECT_TRUE(transport.ports().empty());
  worker_says(second.link, BackendEvent::Kind::kClosed);
  EXPECT_EQ(transport.at(ask(kAlice)).rejected, RejectReason::kNoListener);
  EXPECT_EQ(open_count(), 0u);
  remove({false, true});
  const Opened third = open(kAlice);
  EXPECT_EQ(the_connection().listener, 0u);
  expect_goes_on(third, 3);
}

TEST_F(Reload, APlaceOfAListenerThatWasRemovedIsGivenBack) {
  start();
  const auto remove = [&](bool removed) {
    reload([&](GatewayOptions& fresh) {
      fresh.listeners.push_back(fresh.listeners[0]);
      fresh.listeners[0].connections_max = 1;
      fresh.listeners[0].removed = removed;
      fresh.listeners[1].removed = !removed;
    });
  };
  const Opened first = open(kAlice);
  remove(true);
  const Opened second = come_again(first);
  EXPECT_EQ(the_connection().listener, 1u);
  remove(false);
  (void)come_again(second);
  EXPECT_EQ(the_connection().listener, 0u) << "the one place that it has was free";
  EXPECT_EQ(transport.at(ask(kBob)).rejected, RejectReason::kNoResources) << "there is one";
}

TEST_F(Reload, AChecksWordOnABackendThatACoreDoesNotHaveYetIsDropped) {
  start();
  check_says(0, ServerState::kUp, gateway::kBackendIdsMax - 1);
  EXPECT_EQ(backend_stats(gateway::kBackendIdsMax - 1).up, 0u);
  expect_goes_on(open(kAlice), 1);
}

TEST_F(Reload, CreditsAndInlineSizesAreForNewConnections) {
  // A client that would take 8192 bytes, and is told what we take.
  const auto come = [&] {
    const ConnectionId id =
        transport.peer_asks(kAlice, gateway::kFakePort, std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 7, 7});
    turn();
    return id;
  };
  start();
  const Opened first = open(kAlice);
  EXPECT_EQ(transport.qp(first.id).receives(), 8u);
  reload([](GatewayOptions& fresh) {
    fresh.listeners[0].server.credits = 5;
    fresh.listeners[0].inline_bytes = 2048;
  });
  expect_goes_on(first, 1);
  EXPECT_EQ(the_connection().credits_granted, 8u);
  worker_says(first.link, BackendEvent::Kind::kClosed);
  const ConnectionId id = come();
  EXPECT_EQ(transport.at(id).private_data, (std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 1, 1}));
  EXPECT_EQ(transport.at(id).options.receive_bytes_max, 2048u);
  confirm(id);
  const Opened second{id, expect_opening(0)};
  worker_says(second.link, BackendEvent::Kind::kOpened);
  EXPECT_EQ(transport.qp(id).receives(), 5u);
  EXPECT_EQ(the_connection().credits_granted, 5u);
  EXPECT_EQ(the_connection().thresholds.receive_bytes, 2048u);
  expect_served(second, 2, 5);
}

// What we have said of ourselves and what we go by are the same, whenever the reload comes.
TEST_F(Reload, WhileTheBackendConnectionIsMadeBothSidesAgree) {
  start();
  const ConnectionId id =
      transport.peer_asks(kAlice, gateway::kFakePort, std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3});
  turn();
  EXPECT_EQ(transport.at(id).private_data, (std::vector<uint8_t>{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}));
  confirm(id);
  const Opened opened{id, expect_opening(0)};
  ASSERT_EQ(the_connection().state, gateway::ConnectionState::kOpeningBackend);
  reload([](GatewayOptions& fresh) {
    fresh.backends.push_back(fresh.backends[0]);
    fresh.listeners[0].inline_bytes = 1024;
    fresh.listeners[0].routes = {{rpcrdma::kBenchProgram, 1}};
  });
  worker_says(opened.link, BackendEvent::Kind::kOpened);
  EXPECT_EQ(the_connection().thresholds, (rpcrdma::InlineThresholds{4096, 4096, true}));
  EXPECT_EQ(transport.at(id).options.receive_bytes_max, 4096u);
  expect_goes_on(opened, 1);
}

TEST(BackendIds, NeverMeanAnotherBackend) {
  gateway::BackendIds numbers;
  EXPECT_EQ(numbers.number({"one", control::BackendType::kTcp}), 0u);
  EXPECT_EQ(numbers.number({"two", control::BackendType::kTcp}), 1u);
  EXPECT_EQ(numbers.find({"one", control::BackendType::kBuiltin}), std::nullopt) << "of that name, but another one";
  EXPECT_EQ(numbers.number({"one", control::BackendType::kTcp}), 0u) << "it is back";
}

TEST(LocalQuota, PlacesOfAListenerMayBecomeFewerThanAreTaken) {
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

TEST(ClientIds, NeverMeanAnotherClass) {
  gateway::ClientIds numbers;
  EXPECT_EQ(numbers.number(std::vector<std::string>{"one", "two"}), (Numbers{0, 1}));
  EXPECT_EQ(numbers.number("three"), 2u);
  EXPECT_EQ(numbers.number("two"), 1u) << "it is back";
  EXPECT_EQ(numbers.find("three"), 2u);
  EXPECT_EQ(numbers.find("four"), std::nullopt);
}

TEST_F(Reload, ALowerBudgetHoldsForConnectionsThatThereAre) {
  options.clients = {{.name = "all", .prefixes = {*control::parse_prefix("0.0.0.0/0")}, .bytes_in_flight_max = 1u << 30}};
  start();
  const Opened opened = open(kAlice);
  call_with_chunk(opened.id, 1, 1000);
  call_with_chunk(opened.id, 2, 1000);
  EXPECT_EQ(gateway->stats().clients[0].bytes_in_flight, 2000u);
  EXPECT_EQ(gateway->stats().clients[0].calls_postponed, 0u);
  reload([](GatewayOptions& fresh) { fresh.clients[0].bytes_in_flight_max = 1; });
  call_with_chunk(opened.id, 3, 1000);
  EXPECT_EQ(gateway->stats().clients[0].bytes_in_flight, 2000u);
  EXPECT_EQ(gateway->stats().clients[0].calls_postponed, 1u);
  EXPECT_EQ(transport.at(opened.id).disconnects, 0u);
  EXPECT_EQ(accepted(), 1u);
}

// A class that comes, goes and comes back under its old number; another one in its place.
TEST_F(Reload, ConnectionsCountInTheClassThatTheyBeganIn) {
  start();
  const auto counted = [&](uint32_t number) { return gateway->stats().clients[number].connections; };
  const std::vector<control::IpPrefix> everybody = {*control::parse_prefix("0.0.0.0/0")};
  const gateway::ClientClassOptions first{.name = "first", .prefixes = everybody, .connections_max = 1, .bytes_in_flight_max = 1};
  const auto classes = [&](std::vector<gateway::ClientClassOptions> clients) {
    reload([&](GatewayOptions& fresh) { fresh.clients = std::move(clients); });
  };
  const Opened before = open(kAlice);
  classes({first});
  expect_goes_on(before, 1);
  EXPECT_EQ(the_connection().client_class, std::nullopt) << "it was there before";
  const Opened in_first = come_again(before);
  EXPECT_EQ(the_connection().client_class, 0u);
  EXPECT_EQ(counted(0), 1u);
  classes({{}, {.name = "second", .prefixes = everybody}});
  expect_goes_on(in_first, 2);
  EXPECT_EQ(the_connection().client_class, 0u);
  EXPECT_EQ(counted(0), 1u) << "it counts where it began";
  call_with_chunk(in_first.id, 3, 1000);
  call_with_chunk(in_first.id, 4, 1000);
  EXPECT_EQ(gateway->stats().clients[0].calls_postponed, 1u) << "in its budget, too";
  const Opened in_second = come_again(in_first);
  EXPECT_EQ(the_connection().client_class, 1u);
  EXPECT_EQ(counted(0), 0u);
  EXPECT_EQ(counted(1), 1u);
  classes({first, {}});
  expect_goes_on(in_second, 5);
  EXPECT_EQ(the_connection().client_class, 1u);
  const Opened back = come_again(in_second);
  EXPECT_EQ(the_connection().client_class, 0u) << "its place was given back";
  classes({{.name = "first", .prefixes = everybody, .allow = false}, {}});
  expect_goes_on(back, 6);
  EXPECT_EQ(counted(0), 1u) << "who is there stays";
  leave(back);
  EXPECT_EQ(counted(0) + counted(1), 0u);
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

// What credits take of the buffers, the data of calls has no longer; a call is always served.
TEST(ReloadOnAWire, ASmallerShareOfTheBuffersHoldsForConnectionsThatThereAre) {
  WorldOptions options = echo();
  options.load.bytes = 64 * 1024;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().read_stalls, 0u);
  GatewayOptions fresh = sim_gateway_options(options);
  fresh.pull_buffers_max = 1;
  world.server->gateway.reconfigure(fresh);
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 50));
  EXPECT_GT(world.server->gateway.rpcrdma_stats().read_stalls, 0u);
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
