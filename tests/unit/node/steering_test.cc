// A gateway of several cores, each with a stack of its own: frames reach any of them, as the device deals them, and the owner
// gets them. Rings and threads are the data plane's; here it is about who owns what.
#include "gateway/node/steering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "apps/sim/hosts.h"

namespace cw::node::test {
namespace {

using Frame = std::vector<uint8_t>;

class CoresWorld {
 public:
  // The first `roce_cores` take new clients; 0: all do.
  CoresWorld(sim::WorldOptions options, uint32_t cores, uint32_t roce_cores = 0) : deal_(options.seed) {
    for (uint32_t i = 0; i < cores; ++i) {
      options.core = {.index = i, .count = cores};
      gateways.push_back(std::make_unique<sim::GatewayHost>(options, options.seed * 100 + i));
      steerings.emplace_back(options.core, roce_cores == 0 ? cores : roce_cores, gateways.back()->node.endpoint().qpn_codec());
    }
    options.core = {};
    client = std::make_unique<sim::ClientHost>(options, options.seed * 100 + 99);
    client->driver.start(now);
  }

  void step() {
    now = now + Duration::us(5);
    (void)client->driver.turn(now);
    client->node.on_deadline(now);
    for (const Frame& frame : transmit(client->node, client->packets)) {
      const uint32_t reached = deal_.next_below(static_cast<uint32_t>(gateways.size()));
      const uint32_t owner = steerings[reached].owner_of(frame);
      ASSERT_LT(owner, gateways.size());
      handed_over += owner != reached ? 1 : 0;
      sim::GatewayHost& gateway = *gateways[owner];
      ASSERT_TRUE(sim::deliver_frame(now, gateway.node, gateway.packets, frame));
      frames.push_back(frame);
    }
    for (const auto& gateway : gateways) {
      gateway->turn(now);
      for (const Frame& frame : transmit(gateway->node, gateway->packets)) {
        ASSERT_TRUE(sim::deliver_frame(now, client->node, client->packets, frame));
      }
    }
  }
  bool run_calls(uint64_t calls) {
    for (uint32_t steps = 0; steps < 200'000 && client->driver.stats().calls < calls; ++steps) {
      step();
    }
    return client->driver.stats().calls >= calls;
  }

  Instant now = Instant::from_ns(1'000'000'000);
  std::vector<std::unique_ptr<sim::GatewayHost>> gateways;
  std::vector<Steering> steerings;
  std::unique_ptr<sim::ClientHost> client;
  std::vector<Frame> frames;  // of the client
  uint64_t handed_over = 0;

 private:
  std::vector<Frame> transmit(Node& node, BufferPool& pool) const {
    std::vector<Frame> sent;
    wire::TxBatch batch(pool);
    for (bool full = true; full;) {
      node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        sent.push_back(packet.raw());
        release_buffers(packet.head);
      }
      batch.reset();
    }
    return sent;
  }

  SeededRandom deal_;
};

sim::WorldOptions load_of(uint32_t connections, bool ipv6, uint16_t vlan) {
  sim::WorldOptions options;
  options.seed = 7;
  options.ipv6 = ipv6;
  options.vlan = vlan;
  options.load.connections = connections;
  options.load.window = 4;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 3000;
  return options;
}

TEST(Steering, CallsAreAnsweredWhicheverCoreAFrameReaches) {
  for (const auto& [cores, ipv6, vlan] :
       {std::tuple{2u, false, uint16_t{0}}, {3u, true, uint16_t{0}}, {4u, false, uint16_t{5}}}) {
    CoresWorld world(load_of(24, ipv6, vlan), cores);
    ASSERT_TRUE(world.run_calls(2000)) << cores;
    const load::LoadStats& stats = world.client->driver.stats();
    EXPECT_EQ(stats.wrong + stats.lost + stats.refused, 0u);
    EXPECT_EQ(stats.connected, 24u);
    EXPECT_GT(world.handed_over, 500u);
    for (const auto& gateway : world.gateways) {
      // The client's queue pairs are numbered at random: no more than a rough share is promised.
      EXPECT_GT(gateway->gateway.stats().connections_open, 0u) << cores;
      for (const uint64_t discards : gateway->node.endpoint().stats().discards) {
        EXPECT_EQ(discards, 0u);
      }
    }
  }
}

TEST(Steering, NewClientsGoToTheCoresThatTakeThem) {
  CoresWorld world(load_of(24, false, 0), 3, 2);
  ASSERT_TRUE(world.run_calls(500));
  EXPECT_EQ(world.client->driver.stats().connected, 24u);
  EXPECT_GT(world.gateways[0]->gateway.stats().connections_open, 0u);
  EXPECT_GT(world.gateways[1]->gateway.stats().connections_open, 0u);
  EXPECT_EQ(world.gateways[2]->gateway.stats().connections_open, 0u);
}

TEST(Steering, EveryFrameHasOneOwnerAsFarAsItsHeadersReach) {
  CoresWorld world(load_of(8, false, 0), 3);
  ASSERT_TRUE(world.run_calls(100));
  for (const Frame& frame : world.frames) {
    const uint32_t owner = world.steerings[0].owner_of(frame);
    for (const Steering& other : world.steerings) {
      EXPECT_EQ(other.owner_of(frame), owner);
    }
    for (size_t bytes = 0; bytes < std::min<size_t>(frame.size(), 140); ++bytes) {
      const Frame cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes));  // of its own, for the sanitizer
      EXPECT_LT(world.steerings[0].owner_of(cut), 3u);
    }
  }
}

TEST(Steering, WhatIsNotRoceBelongsToCoreZero) {
  const Steering steering({.index = 1, .count = 4}, 4, rc::QpnCodec(1, 2, 8));
  Frame arp(60);
  arp[12] = 0x08;
  arp[13] = 0x06;
  EXPECT_EQ(steering.owner_of(arp), 0u);
  EXPECT_EQ(steering.owner_of({}), 0u);
}

TEST(Steering, AQueuePairNumberOfACoreThatIsNotThereGoesToCoreZero) {
  const rc::QpnCodec codec(99, 2, 8);
  const Steering steering({.index = 0, .count = 3}, 3, codec);
  wire::Path path;
  path.local = sim::sim_ip(false, 2);
  path.remote = sim::sim_ip(false, 1);
  path.local_mac = sim::sim_mac(2);
  path.remote_mac = sim::sim_mac(1);
  const wire::PathHeader header(path);
  for (uint32_t core = 0; core < 4; ++core) {
    Frame frame(header.bytes() + wire::Bth::kSize);
    header.write(frame.data(), wire::Bth::kSize, 0);
    wire::Bth bth;
    bth.destination = *codec.encode({.core = core, .slot = 5, .generation = 9});
    bth.write(std::span<uint8_t, wire::Bth::kSize>(frame.data() + header.bytes(), wire::Bth::kSize));
    EXPECT_EQ(steering.owner_of(frame), core < 3 ? core : 0u);
  }
}

}  // namespace
}  // namespace cw::node::test
