// What tests of whole worlds have in common: how a load went, and that nobody owns anything when all has ended.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "apps/sim/world.h"

namespace cw::sim {

// Everything that is not a right answer: wrong ones, calls that failed, connections refused and lost.
inline uint64_t failures(const load::LoadStats& stats) {
  return std::accumulate(stats.failed.begin(), stats.failed.end(), stats.wrong + stats.refused + stats.lost);
}

// Connections that ended, or were refused, in this way.
inline uint64_t ended(const World& world, gateway::ConnectionResult result) {
  return world.server->gateway.stats().connections[static_cast<size_t>(result)];
}

inline const gateway::BackendStats& stats_of(const World& world, uint32_t backend) {
  return world.server->gateway.stats().backends[backend];
}

// The client leaves; afterwards nobody owns a connection, a queue pair, a Buffer, a key or a credit.
inline void expect_nothing_left(World& world, Duration patience = Duration::seconds(20)) {
  for (uint32_t id = 0; id < 64; ++id) {
    world.peer->client.disconnect(world.now, client::ClientId(id));
  }
  world.run_for(patience);
  const GatewayHost& server = *world.server;
  EXPECT_EQ(server.gateway.stats().connections_open, 0u);
  EXPECT_EQ(world.server->node.endpoint().qp_count(), 0u);
  EXPECT_TRUE(world.server->node.cm().is_consistent());
  EXPECT_EQ(server.packets.in_use(), 0u);
  EXPECT_EQ(server.large.in_use(), 0u);
  EXPECT_EQ(world.peer->packets.in_use(), 0u);
  EXPECT_EQ(world.peer->memory.region_count(), 0u);
  const rpcrdma::RpcRdmaStats& stats = server.gateway.rpcrdma_stats();
  EXPECT_EQ(stats.credits_granted, 0u);
  EXPECT_EQ(stats.credits_in_use, 0u);
  EXPECT_EQ(stats.reverse_credits_granted, 0u);
  EXPECT_EQ(stats.reverse_credits_in_use, 0u);
}

}  // namespace cw::sim
