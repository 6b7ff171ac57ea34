// A client endpoint and a server endpoint with the bench program behind it, back to back over a FakeLink. The test says when what
// moves.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "tests/support/express.h"
#include "tests/support/fake_queue_pair.h"

namespace cw::rpcrdma {

struct LoopbackOptions {
  ServerOptions server;
  ClientOptions client;
  uint32_t client_inline_bytes = 1024;  // threshold of calls
  uint32_t server_inline_bytes = 1024;  // threshold of replies
  bool remote_invalidation = false;
  uint32_t mtu = 1024;
  uint32_t send_queue_depth = 128;
  uint32_t slots = 64;
  uint32_t buffers = 4096;
  uint32_t views = 4096;
};

class Loopback {
 public:
  static constexpr verbs::ProtectionDomain kDomain{77};

  explicit Loopback(const LoopbackOptions& options, uint64_t seed = 1)
      : random(seed),
        server_pool(options.buffers, 2048, options.views),
        client_pool(options.buffers, 2048, options.views),
        memory(64, random),
        server_qp(options.send_queue_depth),
        client_qp(options.send_queue_depth),
        link({.qp = client_qp,
              .memory = &memory,
              .domain = kDomain,
              .pool = &client_pool,
              .mtu = options.mtu,
              .receive_bytes = options.server_inline_bytes},
             {.qp = server_qp,
              .memory = nullptr,
              .domain = {},
              .pool = &server_pool,
              .mtu = options.mtu,
              .receive_bytes = options.client_inline_bytes}),
        shared(std::make_unique<ServerShared>(options.slots, server_pool)),
        server(std::make_unique<ServerEndpoint>(*shared, server_qp, options.server,
                                                InlineThresholds{.send_bytes = options.server_inline_bytes,
                                                                 .receive_bytes = options.client_inline_bytes,
                                                                 .remote_invalidation = options.remote_invalidation})),
        client(std::make_unique<ClientEndpoint>(client_qp, memory, kDomain, client_pool, options.client,
                                                InlineThresholds{.send_bytes = options.client_inline_bytes,
                                                                 .receive_bytes = options.server_inline_bytes,
                                                                 .remote_invalidation = options.remote_invalidation},
                                                0xffff'fff0, client_stats)) {
    EXPECT_TRUE(programs.add(bench));
    shared->express = cw::test::takes_express_paths();
    server->start();
    client->start();
  }

  // The invariants that hold between any two events.
  void check() const {
    ASSERT_TRUE(server->is_consistent());
    ASSERT_LE(server->calls_in_flight(), server->credits_granted());
    if (!server->failed()) {
      // What the client may still send is backed by receives (RPCRDMA-3.3.1-15).
      ASSERT_GE(server_qp.receives() + client->calls_in_flight(), server->credits_granted());
      ASSERT_GT(shared->stats.credits_granted, 0u);
      ASSERT_EQ(shared->stats.credits_in_use, server->calls_in_flight());
    }
    ASSERT_LE(client->calls_in_flight(), client->credits());
    ASSERT_EQ(link.stats().receiver_not_ready, 0u);
    ASSERT_EQ(link.stats().length_errors, 0u);
  }

  // Answers what waits, one call; false when nothing does.
  bool serve_one() {
    Call call;
    if (!server->poll_call(now, call)) {
      return false;
    }
    Chain reply;
    EXPECT_TRUE(programs.dispatch(*call.context, call.message, server_pool, reply));
    call.message.clear();
    server->reply(now, call.id, std::move(reply));
    return true;
  }
  // Everything until nothing moves.
  void run() {
    bool moved = true;
    while (moved) {
      moved = link.step(0) || link.step(1);
      server->on_completions(now);
      moved = serve_one() || moved;
      client->on_completions(now);
      moved = moved || server_qp.has_completions() || client_qp.has_completions();
      check();
      if (::testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
  // The one outcome that is there; a default one with user_data ~0 when there is none.
  ClientReply take_reply() {
    ClientReply reply;
    reply.user_data = ~uint64_t{0};
    static_cast<void>(client->poll_reply(reply));
    return reply;
  }
  // Ends both endpoints; afterwards no Buffer may be out and no key be valid.
  void finish() {
    client.reset();
    server.reset();
    EXPECT_EQ(shared->stats.credits_granted, 0u);
    EXPECT_EQ(shared->stats.credits_in_use, 0u);
    EXPECT_EQ(shared->calls->in_use(), 0u);
    EXPECT_EQ(memory.region_count(), 0u);
    server_qp.break_with(verbs::WcStatus::kWorkRequestFlushed);
    client_qp.break_with(verbs::WcStatus::kWorkRequestFlushed);
    verbs::Completion completion;
    while (server_qp.poll_completion(completion) || client_qp.poll_completion(completion)) {
      completion.payload.clear();
    }
    EXPECT_EQ(server_pool.in_use(), 0u);
    EXPECT_EQ(client_pool.in_use(), 0u);
  }

  SeededRandom random;
  HeapBufferPool server_pool;
  HeapBufferPool client_pool;
  verbs::MemoryTable memory;
  test::FakeQueuePair server_qp;
  test::FakeQueuePair client_qp;
  test::FakeLink link;
  BenchProgram bench;
  ProgramRegistry programs;
  RpcRdmaStats client_stats;
  std::unique_ptr<ServerShared> shared;
  std::unique_ptr<ServerEndpoint> server;
  std::unique_ptr<ClientEndpoint> client;
  Instant now = Instant::from_ns(1'000'000);
};

}  // namespace cw::rpcrdma
