// A gateway's process with several poll cores: frames are steered to the core that they are for, and the cores' gateways tell
// each other what they have to know of a client whose connections lie on several of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/hosts.h"
#include "gateway/connection_quota.h"
#include "gateway/node/steering.h"

namespace cw::sim {
namespace {

class CoresWorld {
 public:
  CoresWorld(WorldOptions options, uint32_t count)
      : quota(options.connections_max, std::vector<uint32_t>{options.connections_max}), link(7) {
    options.quota = &quota;
    for (uint32_t i = 0; i < count; ++i) {
      options.core = {i, count};
      cores.push_back(std::make_unique<GatewayHost>(options, 100 + i));
    }
    peer = std::make_unique<ClientHost>(options, 2);
  }

  template <typename Done>
  [[nodiscard]] bool run_until(Duration limit, Done&& done) {
    const Instant end = now + limit;
    while (!done()) {
      if (now >= end) {
        return false;
      }
      step();
    }
    return true;
  }
  [[nodiscard]] bool run_calls(uint64_t calls, Duration limit = Duration::seconds(20)) {
    const uint64_t goal = peer->driver.stats().calls + calls;
    return run_until(limit, [&] { return peer->driver.stats().calls >= goal; });
  }
  [[nodiscard]] uint32_t open_on(uint32_t core) const {
    return static_cast<uint32_t>(cores[core]->gateway.stats().connections_open);
  }
  template <typename Count>
  [[nodiscard]] uint64_t sum(Count&& count) const {
    return std::accumulate(cores.begin(), cores.end(), uint64_t{0},
                           [&](uint64_t sum, const auto& core) { return sum + count(core->gateway.stats()); });
  }
  void step() {
    for (auto& core : cores) {
      while (const gateway::CoreMails::Mail* mail = core->gateway.next_core_message()) {
        if (!loses_messages) {
          cores[mail->to]->gateway.on_core_message(now, mail->message);
        }
        core->gateway.pop_core_message();
      }
      core->turn(now);
      transmit(core->node, core->packets, 1);
    }
    peer->node.on_deadline(now);
    (void)peer->driver.turn(now);
    transmit(peer->node, peer->packets, 0);
    Instant next = earlier(earlier(link.next_at(), peer->next_deadline()), now + Duration::ms(1));
    for (auto& core : cores) {
      next = earlier(next, core->next_deadline());
    }
    now = std::max(next, now + Duration::ns(100));
    while (!link.empty() && link.next_at() <= now) {
      const Frame frame = link.take();
      if (frame.to == 1) {
        (void)deliver_frame(now, peer->node, peer->packets, frame.raw);
        continue;
      }
      // Whichever core received it.
      const uint32_t count = static_cast<uint32_t>(cores.size());
      const node::Steering steering({0, count}, count, cores.front()->node.endpoint().qpn_codec());
      GatewayHost& owner = *cores[steering.owner_of(frame.raw)];
      (void)deliver_frame(now, owner.node, owner.packets, frame.raw);
    }
  }

  Instant now = Instant::from_ns(1'000'000'000);
  gateway::LocalQuota quota;
  FaultyLink link;
  std::vector<std::unique_ptr<GatewayHost>> cores;
  std::unique_ptr<ClientHost> peer;
  bool loses_messages = false;  // of one core to another

 private:
  void transmit(node::Node& node, BufferPool& pool, uint32_t to) {
    wire::TxBatch batch(pool);
    bool full = true;
    while (full) {
      node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        link.send(now, to, packet.raw());
      }
      batch.clear();
    }
  }
};

WorldOptions tcp_echo(uint32_t connections) {
  WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 5000;
  options.load.connections = connections;
  options.load.window = 4;
  options.load.reconnect = true;
  options.backend = gateway::BackendKind::kTcp;
  return options;
}

TEST(Cores, AClientsConnectionsSpreadAndAreAllServed) {
  CoresWorld world(tcp_echo(9), 3);
  world.link.faults.loss = 5;
  world.peer->driver.start(world.now);
  ASSERT_TRUE(world.run_calls(3000));
  EXPECT_EQ(world.peer->driver.stats().connected, 9u);
  for (uint32_t core = 0; core < 3; ++core) {
    EXPECT_GE(world.open_on(core), 1u) << "core " << core;
    EXPECT_GT(world.cores[core]->gateway.stats().backends[0].calls, 0u);
  }
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  world.peer->driver.stop();
  ASSERT_TRUE(world.run_until(Duration::seconds(20), [&] { return world.peer->driver.in_flight() == 0; }));
}

// The limit is for all cores together, and a place that one core gives back another can have.
TEST(Cores, PlacesAreSharedExactly) {
  WorldOptions options = tcp_echo(8);
  options.connections_max = 5;
  CoresWorld world(options, 2);
  world.peer->driver.start(world.now);
  ASSERT_TRUE(world.run_calls(500));
  EXPECT_EQ(world.open_on(0) + world.open_on(1), 5u);
  EXPECT_GT(world.sum([](const auto& stats) {
    return stats.connections[static_cast<size_t>(gateway::ConnectionResult::kRefusedLimit)];
  }),
            0u);
  // Those that were refused come again, to whichever core, and take what becomes free.
  for (uint32_t id = 0; id < 8; ++id) {
    if (world.peer->client.endpoint(client::ClientId(id)) != nullptr) {
      world.peer->client.queue_pair(client::ClientId(id))->close();
    }
  }
  ASSERT_TRUE(world.run_until(Duration::seconds(60), [&] {
    return world.sum([](const auto& stats) {
      return stats.connections[static_cast<size_t>(gateway::ConnectionResult::kAccepted)];
    }) >= 10;
  }));
  ASSERT_TRUE(world.run_until(Duration::seconds(30), [&] { return world.open_on(0) + world.open_on(1) == 5; }));
}

// As on one core (Orphans.CallsOfTheNextConnectionWaitForThoseAtTheBackend), though the next connection lies on another one.
TEST(Cores, CallsWaitForThoseThatAnotherCoreHasAtTheBackend) {
  CoresWorld world(tcp_echo(1), 2);
  for (auto& core : world.cores) {
    core->backend.call_delay = Duration::seconds(3);
  }
  world.peer->driver.start(world.now);
  ASSERT_TRUE(world.run_calls(4));
  for (int moved = 0, round = 0; moved < 2 && round < 8; ++round) {
    const uint32_t before = world.open_on(0) == 1 ? 0 : 1;
    const uint64_t at_backend = world.sum([](const auto& stats) { return stats.backends[0].calls; });
    ASSERT_TRUE(world.run_until(
        Duration::seconds(8), [&] { return world.sum([](const auto& stats) { return stats.backends[0].calls; }) > at_backend; }));
    for (uint32_t id = 0; id < 4; ++id) {
      rpcrdma::ClientEndpoint* endpoint = world.peer->client.endpoint(client::ClientId(id));
      if (endpoint != nullptr && !endpoint->failed()) {
        world.peer->client.queue_pair(client::ClientId(id))->close();
      }
    }
    ASSERT_TRUE(world.run_until(Duration::seconds(5), [&] { return world.sum([](const auto& s) { return s.orphans; }) == 1; }));
    const uint64_t calls = world.sum([](const auto& stats) { return stats.backends[0].calls; });
    const uint64_t connected = world.peer->driver.stats().connected;
    bool came_back = false;
    while (world.sum([](const auto& stats) { return stats.orphans; }) == 1) {
      came_back = came_back || world.peer->driver.stats().connected > connected;
      ASSERT_EQ(world.sum([](const auto& stats) { return stats.backends[0].calls; }), calls) << "a call overtook those before it";
      world.step();
    }
    EXPECT_TRUE(came_back) << "before the old calls were done, or this shows nothing";
    ASSERT_TRUE(world.run_calls(4));
    moved += world.open_on(before) == 0 ? 1 : 0;
    if (round == 7) {
      EXPECT_GE(moved, 2) << "the connection never changed its core";
    }
  }
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  EXPECT_EQ(world.sum([](const auto& stats) { return stats.orphaned_expired; }), 0u);
}

// Whichever core asked the backend last: all of them say the same of it.
TEST(Cores, AllKnowWhetherTheBackendTakesConnections) {
  CoresWorld world(tcp_echo(8), 2);
  const auto up_on_both = [&](uint64_t up) {
    return std::ranges::all_of(world.cores, [&](const auto& core) { return core->gateway.stats().backends[0].up == up; });
  };
  world.peer->driver.start(world.now);
  ASSERT_TRUE(world.run_calls(500));
  EXPECT_TRUE(up_on_both(1));
  for (auto& core : world.cores) {
    core->backend.refuses = true;
    core->backend.close_all(world.now);
  }
  EXPECT_TRUE(world.run_until(Duration::seconds(10), [&] { return up_on_both(0); }));
  world.cores[1]->backend.refuses = false;
  EXPECT_TRUE(world.run_until(Duration::seconds(30), [&] { return up_on_both(1); }));
}

// A core that says nothing is not waited for without end.
TEST(Cores, ACoreThatDoesNotAnswerHoldsNobodyForLongerThanABackendWould) {
  CoresWorld world(tcp_echo(1), 2);
  world.loses_messages = true;
  world.peer->driver.start(world.now);
  EXPECT_FALSE(world.run_calls(1, Duration::seconds(9)));
  EXPECT_EQ(world.peer->driver.stats().connected, 1u);
  EXPECT_TRUE(world.run_calls(100, Duration::seconds(2)));
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
}

}  // namespace
}  // namespace cw::sim
