// The calls of a client that comes back wait for those that it had at the backend before.
#include "gateway/replay_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <vector>

#include "apps/sim/link/wire.h"
#include "base/keyed_hash.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using gateway::LinkId;
using gateway::ReplayGuard;

std::vector<uint64_t> released(ReplayGuard& guard) {
  std::vector<uint64_t> links;
  for (LinkId link; guard.poll_released(link);) {
    links.push_back(link.value());
  }
  return links;
}

TEST(ReplayGuard, HoldsAConnectionUntilTheCallsBeforeItAreAnswered) {
  ReplayGuard guard(7);
  ReplayGuard::Client& first = guard.join(sim_ip(false, 2), 0);
  EXPECT_FALSE(guard.hold(first, LinkId(1))) << "nothing is in flight";
  const uint32_t a = guard.begin(first);
  const uint32_t b = guard.begin(first);
  ReplayGuard::Client& again = guard.join(sim_ip(false, 2), 0);
  EXPECT_EQ(&again, &first);
  EXPECT_TRUE(guard.hold(again, LinkId(2)));
  const uint32_t later = guard.begin(first);  // of another connection that is there still: not waited for
  guard.end(first, b);
  EXPECT_TRUE(released(guard).empty());
  guard.end(first, a);
  EXPECT_EQ(released(guard), (std::vector<uint64_t>{2}));
  guard.end(first, later);
  guard.leave(first);
  EXPECT_EQ(guard.client_count(), 1u);
  guard.leave(again);
  EXPECT_EQ(guard.client_count(), 0u);
}

TEST(ReplayGuard, ReleasesInTheOrderInWhichConnectionsCame) {
  ReplayGuard guard(7);
  ReplayGuard::Client& client = guard.join(sim_ip(true, 2), 0);
  const uint32_t a = guard.begin(client);
  EXPECT_TRUE(guard.hold(client, LinkId(2)));
  const uint32_t b = guard.begin(client);
  EXPECT_TRUE(guard.hold(client, LinkId(3)));
  EXPECT_TRUE(guard.hold(client, LinkId(4)));
  EXPECT_TRUE(guard.hold(client, LinkId(5)));
  guard.forget(client, LinkId(4));
  guard.end(client, b);
  EXPECT_TRUE(released(guard).empty()) << "the older one holds all";
  guard.end(client, a);
  EXPECT_EQ(released(guard), (std::vector<uint64_t>{2, 3, 5}));
  EXPECT_FALSE(guard.hold(client, LinkId(6)));
  guard.leave(client);
}

// Made to have the hash of another client's address under the key 0: who does not know the key is another client.
TEST(ReplayGuard, NobodyCanChooseAnAddressThatStandsForAnothers) {
  std::array<uint8_t, 16> victim{0xfd, 0x09};
  victim[15] = 2;
  std::array<uint8_t, 16> attacker{0x20, 0x01, 0x0d, 0xb8, 1, 2, 3, 4};
  store_be64(attacker.data() + 8, load_be64(victim.data() + 8) ^ mix(load_be64(victim.data())) ^ mix(load_be64(attacker.data())));
  const auto address = [](const std::array<uint8_t, 16>& raw) { return IpAddress::v6(raw); };
  ASSERT_EQ(hash_of(0, address(attacker), 3), hash_of(0, address(victim), 3));
  ReplayGuard guard(7);
  ReplayGuard::Client& a = guard.join(address(attacker), 3);
  const uint32_t call = guard.begin(a);
  ReplayGuard::Client& v = guard.join(address(victim), 3);
  EXPECT_NE(&a, &v);
  EXPECT_FALSE(guard.hold(v, LinkId(77)));
  guard.end(a, call);
  guard.leave(a);
  guard.leave(v);
}

TEST(ReplayGuard, OtherClientsAndBackendsDoNotWait) {
  ReplayGuard guard(7);
  ReplayGuard::Client& busy = guard.join(sim_ip(false, 2), 0);
  const uint32_t call = guard.begin(busy);
  ReplayGuard::Client& other = guard.join(sim_ip(false, 3), 0);
  ReplayGuard::Client& elsewhere = guard.join(sim_ip(false, 2), 1);
  EXPECT_FALSE(guard.hold(other, LinkId(2)));
  EXPECT_FALSE(guard.hold(elsewhere, LinkId(3)));
  guard.end(busy, call);
  for (ReplayGuard::Client* client : {&busy, &other, &elsewhere}) {
    guard.leave(*client);
  }
  EXPECT_EQ(guard.client_count(), 0u);
}

WorldOptions tcp_echo() {
  WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 100;
  options.load.window = 4;
  options.load.reconnect = true;
  options.backend = gateway::BackendKind::kTcp;
  return options;
}

// A gateway and clients with addresses of their own.
class Clients {
 public:
  // So many connections of each; one alone comes back when it is broken.
  Clients(WorldOptions options, std::initializer_list<uint32_t> connections) : server(options, 1) {
    for (const uint32_t count : connections) {
      options.load.connections = count;
      options.load.reconnect = count == 1;
      const auto last = static_cast<uint8_t>(2 + clients.size());
      clients.push_back(std::make_unique<ClientHost>(options, last, last));
    }
  }
  template <typename Done>
  bool run_until(Duration limit, Done&& done) {
    const Instant end = now + limit;
    while (now < end && !done()) {
      step();
    }
    return done();
  }
  void run_for(Duration time) {
    (void)run_until(time, [] { return false; });
  }
  // It gives all its connections up.
  void break_all(ClientHost& client) {
    for (uint32_t id = 0; id < client.driver.stats().connected; ++id) {
      client.client.queue_pair(client::ClientId(id))->close();
    }
  }

  Instant now = Instant::from_ns(1'000'000'000);
  GatewayHost server;
  std::vector<std::unique_ptr<ClientHost>> clients;

 private:
  void step() {
    server.turn(now);
    transmit(server.node, server.packets, [this](const std::vector<uint8_t>& raw) {
      for (uint32_t i = 0; i < clients.size(); ++i) {
        if ((raw[0] & 1) != 0 || raw[5] == 2 + i) {
          wire_.push(now, Transit{.to = 1 + i, .raw = raw});
        }
      }
    });
    Instant next = earlier(server.next_deadline(), now + Duration::ms(1));
    for (const auto& client : clients) {
      client->node.on_deadline(now);
      (void)client->driver.turn(now);
      transmit(client->node, client->packets,
               [this](const std::vector<uint8_t>& raw) { wire_.push(now, Transit{.to = 0, .raw = raw}); });
      next = earlier(next, client->next_deadline());
    }
    now = std::max(earlier(next, flight_.next_at()), now + Duration::ns(100));
    for (Arrival frame; flight_.take(now, frame);) {
      node::Node& node = frame.to == 0 ? server.node : clients[frame.to - 1]->node;
      (void)deliver_frame(now, node, frame.to == 0 ? server.packets : clients[frame.to - 1]->packets, frame.raw);
    }
  }
  template <typename Send>
  void transmit(node::Node& node, BufferPool& pool, Send&& send) {
    wire::TxBatch batch(pool);
    for (bool full = true; full; batch.clear()) {
      node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        send(packet.raw());
      }
    }
  }
  Flight flight_;
  Wire wire_{flight_, Duration::us(2)};
};

// As many backend connections are left as can be, 127 by one client and the oldest by another. A third client's makes the first
// one give up what it waits for; the second's next calls go on waiting.
TEST(Orphans, WhoHasLeftMostBackendConnectionsMakesRoom) {
  WorldOptions options = tcp_echo();
  options.load.window = 1;
  options.connections_max = 200;
  options.packet_buffers = 2048;
  Clients world(options, {1, 127, 1});
  ClientHost& honest = *world.clients[0];
  ClientHost& greedy = *world.clients[1];
  ClientHost& third = *world.clients[2];
  const auto& stats = world.server.gateway.stats();
  honest.driver.start(world.now);
  greedy.driver.start(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [&] { return stats.connections_open == 128; }));
  world.run_for(Duration::ms(10));
  world.server.backend.silent_backends = 1;
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&] { return stats.backends[0].calls_in_flight == 128; }));
  world.run_for(Duration::ms(10));
  const uint64_t calls = honest.driver.stats().calls;
  world.break_all(honest);
  const Instant broken = world.now;
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&] { return stats.orphans == 1; }));
  world.break_all(greedy);
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&] { return stats.orphans == 128; }));
  third.driver.start(world.now);
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&] { return stats.backends[0].calls_in_flight == 1; }));
  world.run_for(Duration::ms(10));
  world.server.backend.silent_backends = 0;
  EXPECT_EQ(stats.orphaned_expired, 0u);
  world.break_all(third);
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [&] { return stats.orphaned_expired == 1; }));
  EXPECT_EQ(stats.orphans, 128u);
  const Duration orphan_max = sim_gateway_options(options).orphan_max;
  ASSERT_TRUE(world.run_until(orphan_max, [&] { return honest.driver.stats().calls > calls; }));
  EXPECT_GE(world.now - broken, orphan_max) << "its former call could still be executed";
}

// The client gives its connection up with calls at the backend.
void break_connection(World& world) {
  for (uint32_t id = 0; id < 4; ++id) {
    rpcrdma::ClientEndpoint* endpoint = world.peer->client.endpoint(client::ClientId(id));
    if (endpoint != nullptr && !endpoint->failed()) {
      world.peer->client.queue_pair(client::ClientId(id))->close();
      return;
    }
  }
  FAIL() << "no connection";
}

// A client whose connection broke under WRITEs sent them again and went on; an old copy that the backend executed then undid what
// had been written since (the exerciser over NFSv3 with 1 % loss, where rdma_rxe breaks a connection every few seconds).
TEST(Orphans, CallsOfTheNextConnectionWaitForThoseAtTheBackend) {
  World world(tcp_echo());
  world.server->backend.call_delay = Duration::seconds(3);
  world.start();
  ASSERT_TRUE(world.run_calls(4));
  world.run_for(Duration::ms(20));
  break_connection(world);
  const auto& stats = world.server->gateway.stats();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [&](World&) { return stats.orphans == 1; }));
  EXPECT_EQ(stats.orphaned_calls, 4u);
  EXPECT_EQ(stats.backends[0].calls_in_flight, 0u) << "nobody waits for them";
  const uint64_t calls = stats.backends[0].calls;
  bool connected = false;
  while (stats.orphans == 1) {
    connected = connected || world.peer->driver.stats().connected == 2;
    ASSERT_EQ(stats.backends[0].calls, calls) << "a call overtook those before it";
    world.step();
  }
  EXPECT_TRUE(connected) << "before the old calls were done, or this shows nothing";
  EXPECT_EQ(stats.connections_held, 1u);
  ASSERT_TRUE(world.run_calls(8));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(stats.orphaned_expired, 0u);
  EXPECT_EQ(world.server->backend.open_count(), 1u);
  expect_nothing_left(world);
}

// NFS-Ganesha sends a reply first, and then notes in its duplicate request cache that the call is done. A repetition in between
// was dropped, and its client waited for a time-out, once in every hundred connections that were cut under calls.
TEST(Orphans, ARepetitionComesWhenTheServerHasNotedThatItAnswered) {
  World world(tcp_echo());
  world.server->backend.call_delay = Duration::us(100);
  world.start();
  ASSERT_TRUE(world.run_calls(20));
  world.server->backend.call_delay = Duration::seconds(1);
  const Instant asked = world.now;  // or within a millisecond
  world.run_for(Duration::ms(20));
  const auto& stats = world.server->gateway.stats();
  const uint64_t calls = stats.backends[0].calls;
  break_connection(world);
  ASSERT_TRUE(world.run_until(Duration::ms(500), [&](World&) { return stats.orphans == 1; }));
  while (stats.orphans == 1) {
    ASSERT_EQ(stats.backends[0].calls, calls) << "a repetition was early";
    world.step();
  }
  const Duration settles = gateway::Orphans::kAnswerSettles;
  EXPECT_GE(world.now - asked, world.server->backend.call_delay + settles);
  EXPECT_LT(world.now - asked, world.server->backend.call_delay + settles * 2);
  ASSERT_TRUE(world.run_calls(30));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(stats.orphaned_expired, 0u);
  expect_nothing_left(world);
}

TEST(Orphans, ABackendThatSaysNothingIsWaitedForAWhile) {
  World world(tcp_echo());
  world.server->backend.call_delay = Duration::ms(1);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  world.server->backend.silent = true;
  world.run_for(Duration::ms(50));
  world.server->backend.silent = false;  // what it has taken it never answers
  break_connection(world);
  const auto& stats = world.server->gateway.stats();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [&](World&) { return stats.connections_held == 1; }));
  const uint64_t calls = world.peer->driver.stats().calls;
  world.run_for(Duration::seconds(8));
  EXPECT_EQ(world.peer->driver.stats().calls, calls);
  ASSERT_TRUE(world.run_calls(calls + 50, Duration::seconds(5)));
  EXPECT_EQ(stats.orphaned_expired, 4u);
  EXPECT_EQ(stats.orphans, 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

// With a time-out of calls below the time that orphans are waited for, the calls that waited timed out, again and again, though
// the backend answered by then.
TEST(Orphans, WaitingForThemLeavesLaterCallsTimeEnough) {
  WorldOptions options = tcp_echo();
  options.server_call_timeout = Duration::seconds(2);
  World world(options);
  world.server->backend.call_delay = Duration::ms(1);
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  world.server->backend.silent = true;
  const auto& stats = world.server->gateway.stats();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [&](World&) { return stats.backends[0].call_timeouts == 1; }));
  world.server->backend.silent = false;
  ASSERT_TRUE(world.run_calls(world.peer->driver.stats().calls + 50, Duration::seconds(4)));
  EXPECT_EQ(stats.backends[0].call_timeouts, 1u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

TEST(Orphans, ABackendThatClosesHoldsNobody) {
  World world(tcp_echo());
  world.server->backend.call_delay = Duration::seconds(5);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(1), [](World& w) { return w.server->gateway.stats().backends[0].calls == 1; }));
  break_connection(world);
  const auto& stats = world.server->gateway.stats();
  ASSERT_TRUE(world.run_until(Duration::seconds(2), [&](World&) { return stats.connections_held == 1; }));
  world.server->backend.call_delay = Duration::ms(1);
  world.server->backend.close_all(world.now);
  ASSERT_TRUE(world.run_calls(20, Duration::seconds(10)));
  EXPECT_EQ(stats.orphans, 0u);
  EXPECT_EQ(stats.orphaned_expired, 0u);
  ASSERT_TRUE(world.finish());
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
