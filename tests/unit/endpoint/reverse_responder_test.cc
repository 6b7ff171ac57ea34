// Calls of the server at a client endpoint (RFC 8167): what it takes for one, how it answers, and that its own calls stay apart.
#include "rpcrdma/endpoint/reverse_responder.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "tests/support/fake_queue_pair.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kServerXid = 0x8000'0001;
constexpr uint32_t kReverseCredits = 3;
constexpr uint32_t kForwardCredits = 8;

class ReverseService : public ::testing::Test {
 protected:
  void make(uint32_t send_queue_depth = 64) {
    client.reset();
    qp = std::make_unique<test::FakeQueuePair>(send_queue_depth);
    client = std::make_unique<ClientEndpoint>(*qp, memory, verbs::ProtectionDomain(3), pool, options, thresholds, 1000, stats);
    client->start();
  }
  void SetUp() override {
    options.credits_wanted = kForwardCredits;
    options.reverse_credits = kReverseCredits;
    make();
  }
  void TearDown() override {
    client.reset();
    qp.reset();
    call.message.clear();
    EXPECT_EQ(pool.in_use(), 0u) << "a Buffer has leaked";
  }
  // The server sends; the receive it takes is posted again at once.
  void receive(const Words& words) {
    ASSERT_TRUE(qp->deliver(chain_of(pool, words.bytes(), 64)));
    client->on_completions(now);
    if (!client->failed()) {
      EXPECT_EQ(qp->receives(), kForwardCredits + options.reverse_credits);
    }
  }
  static Words message(uint32_t xid, const Words& payload, uint32_t credit = 16) {
    return Words{xid, 1, credit, 0, 0, 0, 0}.raw(payload.bytes());
  }
  std::optional<uint32_t> poll() {
    if (!client->poll_reverse_call(call)) {
      return std::nullopt;
    }
    return call.xid;
  }
  void answer(uint32_t xid, const Words& reply) { client->reply_reverse(now, xid, chain_of(pool, reply.bytes(), 2048)); }
  std::vector<uint32_t> sent() {
    if (qp->posted().empty()) {
      ADD_FAILURE() << "no SEND";
      return std::vector<uint32_t>(8);
    }
    const std::vector<uint32_t> words = words_of(qp->posted().front().payload);
    qp->finish();
    client->on_completions(now);
    return words;
  }
  // A forward NULL call; gives its XID.
  uint32_t submit() {
    EXPECT_TRUE(client->submit(now, {.message = chain_of(pool, rpc_call(0).bytes())}).ok());
    return sent()[0];
  }
  static std::vector<uint32_t> chunk_error(uint32_t xid) { return {xid, 1, kReverseCredits, 4, 2}; }

  SeededRandom random{5};
  HeapBufferPool pool{256, 2048, 64};
  verbs::MemoryTable memory{40, random};
  ClientOptions options;
  InlineThresholds thresholds{.send_bytes = 1024, .receive_bytes = 2048, .remote_invalidation = false};
  RpcRdmaStats stats;
  std::unique_ptr<test::FakeQueuePair> qp;
  std::unique_ptr<ClientEndpoint> client;
  ReverseCall call;
  Instant now = Instant::from_ns(5'000'000);
};

// Proves BIDI-2-1, BIDI-2-3, BIDI-5.2-1, BIDI-5.2-2, BIDI-5.2-3, BIDI-5.2-4, BIDI-5.3-9
TEST_F(ReverseService, ACallIsServedAndAnsweredUnderItsXid) {
  receive(message(kServerXid, rpc_call(kServerXid)));
  EXPECT_EQ(poll(), kServerXid);
  EXPECT_EQ(words_of(call.message), rpc_call(kServerXid).words());
  EXPECT_EQ(call.context.header.program, kBenchProgram);
  EXPECT_EQ(poll(), std::nullopt);
  answer(kServerXid, rpc_reply(kServerXid));
  EXPECT_EQ(sent(), message(kServerXid, rpc_reply(kServerXid), kReverseCredits).words());
  EXPECT_EQ(client->reverse().in_service(), 0u);
  EXPECT_EQ(stats.reverse_calls, 1u);
  EXPECT_EQ(stats.reverse_replies, 1u);
}

// Proves BIDI-4.3.1-2, BIDI-4.3.1-3, BIDI-4.3-1, BIDI-6-7
TEST_F(ReverseService, ReceivesForBothDirectionsArePostedAtTheStart) {
  EXPECT_EQ(qp->receives(), kForwardCredits + kReverseCredits);
}

// Proves BIDI-2.2-3, BIDI-6-1
TEST_F(ReverseService, IsOffByDefault) {
  options = ClientOptions{};
  options.credits_wanted = kForwardCredits;
  make();
  EXPECT_EQ(qp->receives(), kForwardCredits);
  receive(message(kServerXid, rpc_call(kServerXid)));
  EXPECT_EQ(poll(), std::nullopt);
  EXPECT_TRUE(qp->posted().empty());
  EXPECT_FALSE(client->failed());
}

// Proves BIDI-2.4-1, BIDI-2.4.1-2, BIDI-2.3-2
TEST_F(ReverseService, ACallUnderTheXidOfACallOfOursIsServedBeforeOursIsAnswered) {
  const uint32_t xid = submit();
  receive(message(xid, rpc_call(xid)));
  EXPECT_EQ(poll(), xid);
  answer(xid, rpc_reply(xid));
  EXPECT_EQ(sent(), message(xid, rpc_reply(xid), kReverseCredits).words());
  EXPECT_EQ(client->calls_in_flight(), 1u);
  receive(message(xid, rpc_reply(xid), 4));
  ClientReply reply;
  ASSERT_TRUE(client->poll_reply(reply));
  EXPECT_EQ(reply.status, CallStatus::kReplied);
  EXPECT_EQ(poll(), std::nullopt);
}

// Proves BIDI-2-2, BIDI-2.4-4
TEST_F(ReverseService, AReplyUnderTheXidOfACallInServiceIsDropped) {
  receive(message(kServerXid, rpc_call(kServerXid)));
  receive(message(kServerXid, rpc_reply(kServerXid)));
  EXPECT_EQ(stats.unknown_xid, 1u);
  EXPECT_EQ(client->reverse().in_service(), 1u);
  EXPECT_EQ(poll(), kServerXid);
  EXPECT_EQ(poll(), std::nullopt);
}

// Proves BIDI-4.1-7, BIDI-4.1-8
TEST_F(ReverseService, CreditsInACallAreAWishAndNoGrant) {
  const uint32_t first = submit();
  receive(message(first, rpc_reply(first), 5));
  for (const uint32_t credit : {0u, 1u, 1000u}) {
    receive(message(kServerXid, rpc_call(kServerXid), credit));
    EXPECT_EQ(client->credits(), 5u);
    answer(*poll(), rpc_reply(kServerXid));
    EXPECT_EQ(sent()[2], kReverseCredits);
  }
}

// Proves BIDI-2.4-3, BIDI-4.1-5
TEST_F(ReverseService, CallsMayBeAnsweredInAnyOrder) {
  for (uint32_t xid = 1; xid <= kReverseCredits; ++xid) {
    receive(message(xid, rpc_call(xid)));
    EXPECT_EQ(poll(), xid);
  }
  for (uint32_t xid = kReverseCredits; xid >= 1; --xid) {
    answer(xid, rpc_reply(xid));
    EXPECT_EQ(sent(), message(xid, rpc_reply(xid), kReverseCredits).words());
  }
}

TEST_F(ReverseService, MoreCallsThanGrantedFailTheConnection) {
  for (uint32_t xid = 1; xid <= kReverseCredits; ++xid) {
    receive(message(xid, rpc_call(xid)));
  }
  EXPECT_FALSE(client->failed());
  receive(message(99, rpc_call(99)));
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(stats.credit_violations, 1u);
  EXPECT_EQ(poll(), std::nullopt);
}

// Proves BIDI-5.3-5, BIDI-5.3-8, BIDI-5.3-10, BIDI-4.1-10, BIDI-4.1-13
TEST_F(ReverseService, ACallWithChunksIsAnsweredWithErrChunk) {
  const std::vector<uint8_t> rpc = rpc_call(7).bytes();
  for (const Words& chunked : {
           Words{7, 1, 1, 0}.read(40, 9, 100, 0).add({0, 0, 0}).raw(rpc),                               // Read list
           Words{7, 1, 1, 0, 0, 1, 1}.segment(9, 100, 0).add({0, 0}).raw(rpc),                          // Write list
           Words{7, 1, 1, 0, 0, 0, 1, 1}.segment(9, 100, 0).raw(rpc),                                   // Reply chunk
           Words{7, 1, 1, 0}.read(40, 9, 100, 0).add({0, 1, 1}).segment(9, 4, 0).add({0, 0}).raw(rpc),  // two
           Words{7, 1, 1, 1}.read(0, 9, 100, 0).add({0, 0, 0}),                                         // all in a chunk
       }) {
    receive(chunked);
    EXPECT_EQ(sent(), chunk_error(7));
    EXPECT_EQ(poll(), std::nullopt);
    EXPECT_EQ(client->reverse().in_service(), 0u);
  }
  EXPECT_EQ(stats.errors_out_chunk, 5u);
  // The connection goes on, in both directions.
  receive(message(8, rpc_call(8)));
  EXPECT_EQ(poll(), 8u);
  const uint32_t xid = submit();
  receive(message(xid, rpc_reply(xid)));
  ClientReply reply;
  EXPECT_TRUE(client->poll_reply(reply));
}

// Our own reply with the chunks that we offered is no Call, whatever its XID.
TEST_F(ReverseService, RepliesWithChunksAreNotTakenForCalls) {
  std::vector<uint8_t> room(100);
  MutableBytes write(room);
  ASSERT_TRUE(client->submit(now, {.message = chain_of(pool, rpc_call(0).bytes()), .writes = {&write, 1}}).ok());
  const std::vector<uint32_t> words = sent();
  const uint32_t xid = words[0];
  receive(Words{xid, 1, 4, 0, 0, 1, 1, words[7], 0, words[9], words[10], 0, 0}.raw(rpc_reply(xid).bytes()));
  ClientReply reply;
  ASSERT_TRUE(client->poll_reply(reply));
  EXPECT_EQ(reply.status, CallStatus::kReplied);
  EXPECT_EQ(stats.reverse_calls, 0u);
  EXPECT_TRUE(qp->posted().empty());
}

// Proves BIDI-5.1-2
TEST_F(ReverseService, ACallOfAnotherVersionIsAnsweredWithErrVers) {
  receive(Words{7, 2, 1, 0, 0, 0, 0}.raw(rpc_call(7).bytes()));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{7, 2, kReverseCredits, 4, 1, 1, 1}));
  // Under the XID of a call of ours it may be the answer to that: dropped, as ever.
  const uint32_t xid = submit();
  receive(Words{xid, 2, 1, 0, 0, 0, 0}.raw(rpc_call(xid).bytes()));
  EXPECT_TRUE(qp->posted().empty());
  EXPECT_EQ(stats.bad_replies, 1u);
}

// Proves BIDI-5.1-4
TEST_F(ReverseService, ACallWithTwoXidsIsNotDispatched) {
  receive(message(7, rpc_call(8)));
  EXPECT_EQ(sent(), chunk_error(7));
  EXPECT_EQ(poll(), std::nullopt);
  EXPECT_EQ(stats.xid_mismatch, 1u);
}

// Proves BIDI-4.2-3, BIDI-4.2-4
TEST_F(ReverseService, AReplyLongerThanTheForwardCallThresholdBecomesErrChunk) {
  for (const uint32_t bytes : {1024 - 28 + 4, 1024 - 28}) {
    receive(message(7, rpc_call(7)));
    answer(*poll(), rpc_reply(7).zeros(bytes - 24));
    const std::vector<uint32_t> words = sent();
    EXPECT_EQ(words.size() * 4, bytes > 1024 - 28 ? 20u : 1024u);
  }
}

// Proves BIDI-5.2-4, BIDI-5.2-5: whatever the owner gives, a Reply carries an RPC reply to its Call.
TEST_F(ReverseService, AnAnswerThatIsNoRpcReplyToItsCallBecomesErrChunk) {
  const Words no_type{7, 2, 0, 0, 0, 0};
  const Words cut = rpc_reply(7).cut(kRpcReplyBytesMin - 1);
  for (const Words& none : {rpc_reply(8), rpc_call(7), no_type, cut, rpc_reply(7).cut(4), rpc_reply(7).cut(0)}) {
    receive(message(7, rpc_call(7)));
    answer(*poll(), none);
    EXPECT_EQ(sent(), chunk_error(7));
  }
  EXPECT_EQ(stats.xid_mismatch, 1u);
  EXPECT_EQ(stats.errors_out_chunk, 6u);
  EXPECT_EQ(stats.reverse_replies, 0u);
  // The shortest reply is sent as it is.
  receive(message(7, rpc_call(7)));
  const Words shortest = rpc_reply(7).cut(kRpcReplyBytesMin);
  answer(*poll(), shortest);
  EXPECT_EQ(sent(), message(7, shortest, kReverseCredits).words());
}

// Proves BIDI-2-4
TEST_F(ReverseService, NothingIsSentWithoutACall) {
  answer(7, rpc_reply(7));
  EXPECT_TRUE(qp->posted().empty());
  EXPECT_EQ(stats.late_replies, 1u);
}

TEST_F(ReverseService, AnswersWaitForRoomAndForBuffers) {
  make(1);
  receive(message(1, rpc_call(1)));
  receive(message(2, rpc_call(2)));
  answer(*poll(), rpc_reply(1));
  answer(*poll(), rpc_reply(2));
  EXPECT_EQ(client->next_deadline(), now + ClientEndpoint::kRetryInterval);
  EXPECT_EQ(sent()[0], 1u);
  EXPECT_EQ(sent()[0], 2u);
  EXPECT_TRUE(client->next_deadline().is_never());

  receive(message(3, rpc_call(3)));
  EXPECT_EQ(poll(), 3u);
  Chain reply = chain_of(pool, rpc_reply(3).bytes());
  Chain hog;
  while (Buffer* buffer = pool.allocate_one()) {
    hog.push_back(buffer);
  }
  client->reply_reverse(now, 3, std::move(reply));
  EXPECT_TRUE(qp->posted().empty());
  hog.clear();
  client->on_deadline(client->next_deadline());
  EXPECT_EQ(sent()[0], 3u);
}

// Proves BIDI-4.3.1-4
TEST_F(ReverseService, EverythingEndsWithTheConnection) {
  receive(message(1, rpc_call(1)));
  receive(message(2, rpc_call(2)));
  EXPECT_EQ(poll(), 1u);
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  client->on_completions(now);
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(poll(), std::nullopt);
  answer(1, rpc_reply(1));
  EXPECT_TRUE(qp->posted().empty());
}

// Proves BIDI-7-4
TEST_F(ReverseService, AnUnknownProgramIsRefusedByTheRegistryAndTheConnectionLives) {
  receive(message(7, rpc_call(7, 0, 0x4000'0000)));
  EXPECT_EQ(poll(), 7u);
  ProgramRegistry programs;
  Chain reply;
  ASSERT_TRUE(programs.dispatch(call.context, call.message, pool, reply));
  client->reply_reverse(now, 7, std::move(reply));
  EXPECT_EQ(sent(), message(7, Words{7, 1, 0, 0, 0, 1}, kReverseCredits).words());
}

// Whatever a server sends, nothing but a well-formed Call is served and nothing is sent twice.
TEST_F(ReverseService, RandomMessagesDoNoHarm) {
  for (uint32_t round = 0; round < 20'000; ++round) {
    Words words;
    for (uint32_t i = 0, count = 4 + random.next_below(16); i < count; ++i) {
      words.add({random.next_below(4) != 0 ? random.next_below(5) : random.next_u32()});
    }
    receive(words.cut(words.size() - random.next_below(4)));
    while (poll()) {
      answer(call.xid, rpc_reply(call.xid));
    }
    qp->finish_all_sends();
    client->on_completions(now);
    ASSERT_FALSE(client->failed());
    ASSERT_EQ(client->reverse().in_service(), 0u);
  }
}

}  // namespace
}  // namespace cw::rpcrdma
