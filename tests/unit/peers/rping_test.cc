#include "tests/peers/rping.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/unit/peers/peer_world.h"

namespace cw::peers {
namespace {

struct RpingRun {
  uint32_t bytes = 64;
  uint32_t count = 20;
  uint32_t connections = 1;
  PeerWorldOptions world;
  sim::LinkFaults faults;
};

void run_rping(const RpingRun& run) {
  SCOPED_TRACE(run.bytes);
  PeerWorld world(run.world);
  world.link.faults = run.faults;
  BufferPool& pool = world.server().packets;
  ASSERT_TRUE(world.server().host.serve(kRpingPort, run.connections, [&] { return std::make_unique<RpingServer>(pool); }).ok());
  for (uint32_t i = 0; i < run.connections; ++i) {
    const RpingClient::Options options{run.bytes, run.count, verbs::ProtectionDomain(i + 1)};
    world.client().host.open(world.now, PeerWorldHost::address(1), kRpingPort,
                             std::make_unique<RpingClient>(options, world.client().memory, world.client().packets));
  }
  ASSERT_TRUE(world.run());
  for (uint32_t i = 0; i < run.connections; ++i) {
    EXPECT_EQ(world.client().host.peer(i).outcome(), Outcome::kDone) << world.client().host.peer(i).failure();
    EXPECT_EQ(world.server().host.peer(i).outcome(), Outcome::kDone) << world.server().host.peer(i).failure();
    EXPECT_EQ(dynamic_cast<RpingServer&>(world.server().host.peer(i)).pings(), run.count);
  }
}

TEST(Rping, ComesBackUnchangedInEverySize) {
  for (const uint32_t bytes : {1u, 2u, 64u, 1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 8192u, 65535u, 65536u}) {
    run_rping({.bytes = bytes});
  }
}

TEST(Rping, ComesBackUnchangedInSmallPackets) {
  for (const uint32_t bytes : {255u, 256u, 257u, 65536u}) {
    run_rping({.bytes = bytes, .world = {.path_mtu = 256}});
  }
}

TEST(Rping, ComesBackUnchangedOverABadLink) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    run_rping({.bytes = 20000,
               .count = 40,
               .world = {.seed = seed, .path_mtu = 1024},
               .faults = {.loss = 20, .duplicate = 20, .reorder = 20, .corrupt = 5}});
  }
}

TEST(Rping, ServesManyClientsAtOnce) {
  run_rping({.bytes = 5000, .count = 50, .connections = 16, .faults = {.loss = 10}});
}

TEST(Rping, ClientFailsWhenTheServerFallsSilent) {
  PeerWorld world({});
  ASSERT_TRUE(
      world.server().host.serve(kRpingPort, 1, [&] { return std::make_unique<RpingServer>(world.server().packets); }).ok());
  world.client().host.open(world.now, PeerWorldHost::address(1), kRpingPort,
                           std::make_unique<RpingClient>(RpingClient::Options{64, 1'000'000, verbs::ProtectionDomain(1)},
                                                         world.client().memory, world.client().packets));
  auto& client = dynamic_cast<RpingClient&>(world.client().host.peer(0));
  for (int i = 0; i < 100'000 && client.pings() < 5; ++i) {
    world.step();
  }
  ASSERT_EQ(client.pings(), 5u);
  world.silence();
  EXPECT_TRUE(world.run());
  EXPECT_EQ(client.outcome(), Outcome::kFailed);
  EXPECT_EQ(world.server().host.peer(0).outcome(), Outcome::kFailed);
}

TEST(Rping, ClientFailsWhenNobodyListens) {
  PeerWorld world({});
  world.client().host.open(world.now, PeerWorldHost::address(1), kRpingPort,
                           std::make_unique<RpingClient>(RpingClient::Options{64, 1, verbs::ProtectionDomain(1)},
                                                         world.client().memory, world.client().packets));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.client().host.peer(0).outcome(), Outcome::kFailed);
  EXPECT_EQ(world.client().node.endpoint().qp_count(), 0u);
}

TEST(Rping, LeavesNoQueuePairAndNoMemoryBehind) {
  PeerWorld world({});
  ASSERT_TRUE(
      world.server().host.serve(kRpingPort, 1, [&] { return std::make_unique<RpingServer>(world.server().packets); }).ok());
  world.client().host.open(world.now, PeerWorldHost::address(1), kRpingPort,
                           std::make_unique<RpingClient>(RpingClient::Options{64, 3, verbs::ProtectionDomain(1)},
                                                         world.client().memory, world.client().packets));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.client().host.peer(0).outcome(), Outcome::kDone);
  EXPECT_EQ(world.server().node.endpoint().qp_count(), 0u);
  EXPECT_EQ(world.client().node.endpoint().qp_count(), 0u);
  EXPECT_EQ(world.server().packets.in_use(), 0u);
  EXPECT_EQ(world.client().packets.in_use(), 0u);
}

TEST(RpingMessage, GoesThroughItsBytes) {
  std::array<uint8_t, RpingMessage::kSize> raw{};
  RpingMessage{0x0102030405060708, verbs::Rkey(0x090a0b0c), 0x0d0e0f10}.write(raw);
  for (uint8_t i = 0; i < raw.size(); ++i) {
    EXPECT_EQ(raw[i], i + 1);
  }
  const auto message = RpingMessage::parse(raw);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->address, 0x0102030405060708u);
  EXPECT_EQ(message->rkey.value(), 0x090a0b0cu);
  EXPECT_EQ(message->size, 0x0d0e0f10u);
}

TEST(RpingMessage, RefusesEveryOtherLength) {
  const std::array<uint8_t, 32> raw{};
  for (size_t size = 0; size <= raw.size(); ++size) {
    EXPECT_EQ(RpingMessage::parse(Bytes(raw).first(size)).ok(), size == RpingMessage::kSize);
  }
}

}  // namespace
}  // namespace cw::peers
