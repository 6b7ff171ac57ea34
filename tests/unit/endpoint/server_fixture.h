// A server endpoint over a recording queue pair: the test plays client and transport, word by word.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "tests/support/express.h"
#include "tests/support/fake_queue_pair.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {

class ServerFixture : public ::testing::Test {
 protected:
  void make(uint32_t send_queue_depth = 128, uint32_t slots = 32, uint32_t buffers = 512, uint32_t views = 256) {
    // From the top down: each refers to those below it.
    server.reset();
    held.clear();
    qp.reset();
    shared.reset();
    pool = std::make_unique<HeapBufferPool>(buffers, 2048, views);
    qp = std::make_unique<test::FakeQueuePair>(send_queue_depth);
    shared = std::make_unique<ServerShared>(slots, *pool);
    shared->express = cw::test::takes_express_paths();
    server = std::make_unique<ServerEndpoint>(*shared, *qp, options, thresholds);
    server->start();
  }
  void SetUp() override {
    options.credits = 8;
    make();
  }
  void TearDown() override {
    server.reset();
    EXPECT_EQ(stats().credits_granted, 0u);
    EXPECT_EQ(stats().credits_in_use, 0u);
    EXPECT_EQ(stats().reverse_credits_granted, 0u);
    EXPECT_EQ(stats().reverse_credits_in_use, 0u);
    EXPECT_EQ(shared->calls->in_use(), 0u);
    held.clear();
    qp.reset();
    EXPECT_EQ(pool->in_use(), 0u) << "a Buffer has leaked";
  }

  RpcRdmaStats& stats() { return shared->stats; }
  uint64_t malformed(HeaderError error) { return stats().malformed[static_cast<size_t>(error)]; }
  uint64_t messages_in(MessageKind kind) { return stats().messages_in[static_cast<size_t>(kind)]; }

  // The client sends; `piece` bytes per packet.
  void send(const Words& words, size_t piece = 1024) {
    ASSERT_TRUE(qp->deliver(chain_of(*pool, words.bytes(), piece)));
    server->on_completions(now);
    EXPECT_TRUE(server->is_consistent());
  }
  // Takes the next call; its message stays in `held`.
  std::optional<CallId> take() {
    Call call;
    if (!server->poll_call(now, call)) {
      return std::nullopt;
    }
    held = std::move(call.message);
    return call.id;
  }
  void answer(CallId id, const Words& words, size_t piece = 2048) {
    server->reply(now, id, chain_of(*pool, words.bytes(), piece));
    EXPECT_TRUE(server->is_consistent());
  }
  // Words of the one SEND that is next; it ends well.
  std::vector<uint32_t> sent() {
    if (qp->posted().empty() || qp->posted().front().kind != test::WorkKind::kSend) {
      ADD_FAILURE() << "no SEND";
      return {};
    }
    std::vector<uint32_t> words = words_of(qp->posted().front().payload);
    qp->finish();
    server->on_completions(now);
    return words;
  }
  // The message was answered with ERR_CHUNK: xid, version 1, the grant, RDMA_ERROR, ERR_CHUNK (RPCRDMA-4.5-6 to -9,
  // RPCRDMA-4.5.2-1).
  void expect_chunk_error(const Words& message) {
    const uint64_t before = stats().errors_out_chunk;
    send(message);
    EXPECT_EQ(sent(), (std::vector<uint32_t>{load_be32(message.bytes().data()), 1, options.credits, 4, 2}));
    EXPECT_EQ(stats().errors_out_chunk, before + 1);
    expect_idle();
  }
  // Nothing is left of any call, and all receives are posted again.
  void expect_idle() {
    EXPECT_TRUE(qp->posted().empty());
    EXPECT_EQ(server->calls_in_flight(), 0u);
    EXPECT_EQ(qp->receives(), options.credits + server->reverse_in_flight());
    EXPECT_FALSE(take().has_value());
    EXPECT_FALSE(server->failed());
    EXPECT_EQ(shared->calls->in_use(), 0u);
    EXPECT_EQ(pool->in_use(), held.buffer_count());
  }
  // The message got no answer and left no trace.
  void expect_dropped(const Words& message) {
    send(message);
    expect_idle();
  }
  // The oldest Read brings `data`.
  void finish_read(Bytes data, size_t piece = 1024) {
    ASSERT_EQ(qp->posted().front().kind, test::WorkKind::kRead);
    qp->finish(chain_of(*pool, data, piece));
    server->on_completions(now);
    EXPECT_TRUE(server->is_consistent());
  }

  ServerOptions options;
  InlineThresholds thresholds{.send_bytes = 1024, .receive_bytes = 1024, .remote_invalidation = false};
  std::unique_ptr<HeapBufferPool> pool;
  std::unique_ptr<test::FakeQueuePair> qp;
  std::unique_ptr<ServerShared> shared;
  std::unique_ptr<ServerEndpoint> server;
  Chain held;  // the last call taken
  Instant now = Instant::from_ns(1'000'000);
};

}  // namespace cw::rpcrdma
