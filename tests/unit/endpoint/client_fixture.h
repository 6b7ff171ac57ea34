// A client endpoint over a recording queue pair: the test plays server and transport, word by word.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "tests/support/fake_queue_pair.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {

inline constexpr verbs::ProtectionDomain kDomain{3};
inline constexpr uint32_t kFirstXid = 0xffff'fff0;  // wraps within a test

class ClientFixture : public ::testing::Test {
 protected:
  void make(uint32_t send_queue_depth = 64, uint32_t regions = 40) {
    client.reset();
    qp = std::make_unique<test::FakeQueuePair>(send_queue_depth);
    memory = std::make_unique<verbs::MemoryTable>(regions, random);
    client = std::make_unique<ClientEndpoint>(*qp, *memory, kDomain, pool, options, thresholds, kFirstXid, stats);
    client->start();
  }
  void SetUp() override {
    options.credits_wanted = 8;
    make();
  }
  void TearDown() override {
    client.reset();
    EXPECT_EQ(memory->region_count(), 0u);
    qp.reset();
    reply.message.clear();
    EXPECT_EQ(pool.in_use(), 0u) << "a Buffer has leaked";
  }

  // Submits a NULL call with what `call` holds besides; gives the words that were sent.
  std::vector<uint32_t> submit(ClientCall call = {}) {
    if (call.message.empty()) {
      call.message = chain_of(pool, rpc_call(0).bytes());
    }
    EXPECT_TRUE(client->submit(now, std::move(call)).ok());
    const std::vector<uint32_t> words = words_of(qp->posted().back().payload);
    qp->finish();
    client->on_completions(now);
    return words;
  }
  Status try_submit(ClientCall call = {}) {
    if (call.message.empty() && !call.long_call) {
      call.message = chain_of(pool, rpc_call(0).bytes());
    }
    return client->submit(now, std::move(call));
  }
  void receive(const Words& words, std::optional<verbs::Rkey> invalidated = std::nullopt) {
    ASSERT_TRUE(qp->deliver(chain_of(pool, words.bytes(), 64), invalidated));
    client->on_completions(now);
    EXPECT_EQ(qp->receives(), client->failed() ? qp->receives() : options.credits_wanted);
  }
  // An ECHO of nothing: a call with an eligible result.
  Chain echo_call() { return chain_of(pool, rpc_call(0, 1).add({0}).bytes()); }
  static Words inline_reply(uint32_t xid, uint32_t credit = 8) {
    return Words{xid, 1, credit, 0, 0, 0, 0}.raw(rpc_reply(xid).bytes());
  }
  // The next outcome's status, or nothing.
  std::optional<CallStatus> outcome() {
    if (!client->poll_reply(reply)) {
      return std::nullopt;
    }
    return reply.status;
  }
  // The message was dropped silently: no Send, no outcome, the connection lives.
  void expect_dropped(const Words& words) {
    const uint32_t in_flight = client->calls_in_flight();
    receive(words);
    EXPECT_EQ(outcome(), std::nullopt);
    EXPECT_EQ(client->calls_in_flight(), in_flight);
    EXPECT_TRUE(qp->posted().empty());
    EXPECT_FALSE(client->failed());
  }

  SeededRandom random{11};
  HeapBufferPool pool{256, 2048, 64};
  ClientOptions options;
  InlineThresholds thresholds{.send_bytes = 1024, .receive_bytes = 1024, .remote_invalidation = false};
  RpcRdmaStats stats;
  std::unique_ptr<test::FakeQueuePair> qp;
  std::unique_ptr<verbs::MemoryTable> memory;
  std::unique_ptr<ClientEndpoint> client;
  ClientReply reply;
  Instant now = Instant::from_ns(5'000'000);
};

}  // namespace cw::rpcrdma
