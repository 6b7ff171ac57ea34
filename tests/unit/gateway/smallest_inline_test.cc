// The smallest inline threshold that RFC 8166 3.3.3 allows, from end to end: each end takes messages of 1024 bytes.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/rc_info.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

constexpr uint32_t kSmallest = 1024;

class SmallestInline : public ::testing::Test {
 protected:
  static WorldOptions options() {
    WorldOptions options;
    options.gateway_inline_bytes = kSmallest;
    options.load.inline_bytes = kSmallest;
    return options;
  }
  void SetUp() override {
    world.start();
    ASSERT_TRUE(world.run_calls(1));
    ASSERT_TRUE(world.finish());
    client = test::rc_queue_pair(world.peer->client, client::ClientId(0));
    ASSERT_NE(client, nullptr);
    gateway = world.server->node.endpoint().find(client->info().remote_qpn);
    ASSERT_NE(gateway, nullptr);
  }
  // A SEND of so many bytes: version 1, RDMA_MSG, no chunks, and no RPC message that anybody knows.
  void send(rc::RcQp& from, BufferPool& pool, uint32_t bytes) {
    std::vector<uint8_t> message(bytes);
    message[7] = 1;
    Chain chain;
    ASSERT_TRUE(chain.append_copy(pool, message));
    ASSERT_TRUE(from.post_send({.payload = std::move(chain)}).ok());
    world.run_for(Duration::ms(5));
  }

  World world{options()};
  rc::RcQp* client = nullptr;
  rc::RcQp* gateway = nullptr;
};

// Proves RPCRDMA-3.3.3-6: with the smallest thresholds that can be set.
TEST_F(SmallestInline, TheGatewayReceives1024Bytes) {
  const uint64_t before = world.server->gateway.rpcrdma_stats().messages_in[static_cast<size_t>(rpcrdma::MessageKind::kMsg)];
  send(*client, world.peer->packets, kSmallest);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().messages_in[static_cast<size_t>(rpcrdma::MessageKind::kMsg)], before + 1);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
}

// Proves RPCRDMA-3.3.3-6.
TEST_F(SmallestInline, TheClientReceives1024Bytes) {
  const uint64_t before = world.peer->client.rpcrdma_stats().unknown_xid;
  send(*gateway, world.server->packets, kSmallest);
  EXPECT_EQ(world.peer->client.rpcrdma_stats().unknown_xid, before + 1) << "read, and found to answer no call";
  EXPECT_EQ(world.server->gateway.stats().connections_open, 1u);
}

// So that the two tests above are about a receive of that length, and not about a longer one.
TEST_F(SmallestInline, OneByteMoreIsTooLong) {
  send(*client, world.peer->packets, kSmallest + 1);
  EXPECT_EQ(world.server->gateway.stats().connections_open, 0u);
}

}  // namespace
}  // namespace cw::sim
