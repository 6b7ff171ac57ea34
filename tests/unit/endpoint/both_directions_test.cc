// What the two directions of a connection share, what they do not, and what a program without a binding gets (RFC 8167 4, 5, 7).
#include "rpcrdma/ulb/arguments.h"
#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/loopback.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kCallbackProgram = 0x4000'0000;  // NFSv4's (RFC 8881 18): no binding of ours lists anything of it
constexpr uint32_t kReverseXid = 0x77;

class BothDirections : public ::testing::Test {
 protected:
  void make() { loop = std::make_unique<Loopback>(options); }
  void TearDown() override {
    loop->finish();
    loop.reset();
  }
  // The oldest SEND of this end (0: the client), word by word; carried to the other end.
  std::vector<uint32_t> carry(uint32_t from) {
    test::FakeQueuePair& qp = from == 0 ? loop->client_qp : loop->server_qp;
    if (qp.posted().empty()) {
      ADD_FAILURE() << "nothing was sent";
      return std::vector<uint32_t>(16);
    }
    const std::vector<uint32_t> words = words_of(qp.posted().front().payload);
    EXPECT_TRUE(loop->link.step(from));
    loop->server->on_completions(loop->now);
    loop->client->on_completions(loop->now);
    return words;
  }
  void submit() {
    ASSERT_TRUE(loop->client->submit(loop->now, {.message = chain_of(loop->client_pool, rpc_call(0).bytes())}).ok());
  }
  void submit_reverse(uint32_t xid) {
    ASSERT_TRUE(loop->server->submit_reverse(loop->now, chain_of(loop->server_pool, rpc_call(xid).bytes())).ok());
  }
  void reply_reverse() {
    ReverseCall call;
    ASSERT_TRUE(loop->client->poll_reverse_call(call));
    loop->client->reply_reverse(loop->now, call.xid, chain_of(loop->client_pool, rpc_reply(call.xid).bytes()));
  }

  LoopbackOptions options;
  std::unique_ptr<Loopback> loop;
};

// Proves RPCRDMA-4.2.3-1: four different numbers, and each is seen in the messages of its own kind and direction only.
TEST_F(BothDirections, ACreditIsARequestInACallAndAGrantInAReply) {
  options.client.credits_wanted = 11;
  options.server.credits = 22;
  options.server.reverse_credits = 33;
  options.client.reverse_credits = 30;
  make();
  loop->server->enable_reverse();
  for (uint32_t round = 0; round < 3; ++round) {
    submit();
    submit_reverse(kReverseXid + round);
    EXPECT_EQ(carry(0)[2], 11u) << "Call of the client";
    EXPECT_EQ(carry(1)[2], 33u) << "Call of the server";
    reply_reverse();
    EXPECT_EQ(carry(0)[2], 30u) << "Reply of the client";
    ASSERT_TRUE(loop->serve_one());
    EXPECT_EQ(carry(1)[2], 22u) << "Reply of the server";
    EXPECT_EQ(loop->client->credits(), 22u);
    EXPECT_EQ(loop->server->reverse_credits_granted(), 30u);
    EXPECT_EQ(loop->take_reply().status, CallStatus::kReplied);
    ReverseOutcome outcome;
    ASSERT_TRUE(loop->server->poll_reverse(outcome));
    EXPECT_EQ(outcome.status, ReverseStatus::kReplied);
  }
}

// Proves RPCRDMA-4-4, BIDI-2.1-1: Calls and Replies leave either end, and its msg_type decides where each goes: the opener's
// Calls are forward ones in the books of both ends, the listener's are reverse ones.
TEST_F(BothDirections, EitherEndSendsCallsAndReplies) {
  options.server.reverse_credits = 4;
  options.client.reverse_credits = 4;
  make();
  loop->server->enable_reverse();
  submit();
  const uint32_t xid = loop->client->last_xid();
  submit_reverse(xid);  // even under the same XID
  EXPECT_EQ(carry(1)[8], 0u) << "a Call of the listener";
  EXPECT_EQ(loop->client->calls_in_flight(), 1u) << "not taken for the answer to the opener's";
  EXPECT_EQ(carry(0)[8], 0u) << "a Call of the opener";
  EXPECT_EQ(loop->server->calls_in_flight(), 1u);
  EXPECT_EQ(loop->server->reverse_in_flight(), 1u) << "nor that for the answer to the listener's";
  reply_reverse();
  EXPECT_EQ(carry(0)[8], 1u) << "a Reply of the opener";
  ASSERT_TRUE(loop->serve_one());
  EXPECT_EQ(carry(1)[8], 1u) << "a Reply of the listener";
  EXPECT_EQ(loop->take_reply().status, CallStatus::kReplied);
  ReverseOutcome outcome;
  ASSERT_TRUE(loop->server->poll_reverse(outcome));
  EXPECT_EQ(outcome.status, ReverseStatus::kReplied);

  const auto msg = static_cast<size_t>(MessageKind::kMsg);
  for (const RpcRdmaStats* end : {&loop->client_stats, &loop->shared->stats}) {
    EXPECT_EQ(end->reverse_calls, 1u);
    EXPECT_EQ(end->reverse_replies, 1u);
    EXPECT_EQ(end->messages_in[msg], 2u);
    EXPECT_EQ(end->messages_out[msg], 2u);
  }
}

// Proves BIDI-4.2-1: two receives of the client, one counted for a forward Reply and one for a reverse Call: whichever comes
// first takes whichever is first, and the other one finds its own.
TEST_F(BothDirections, AnyReceiveTakesMessagesOfEitherDirection) {
  for (const bool reverse_first : {true, false}) {
    options.client.credits_wanted = 1;
    options.client.reverse_credits = 1;
    options.server.reverse_credits = 1;
    make();
    loop->server->enable_reverse();
    EXPECT_EQ(loop->client_qp.receives(), 2u);
    submit();
    (void)carry(0);
    if (reverse_first) {
      submit_reverse(kReverseXid);
      ASSERT_TRUE(loop->serve_one());
    } else {
      ASSERT_TRUE(loop->serve_one());
      submit_reverse(kReverseXid);
    }
    // Both arrive before the client has looked at either.
    EXPECT_TRUE(loop->link.step(1));
    EXPECT_TRUE(loop->link.step(1));
    EXPECT_EQ(loop->client_qp.receives(), 0u);
    EXPECT_EQ(loop->link.stats().receiver_not_ready, 0u);
    loop->client->on_completions(loop->now);
    EXPECT_EQ(loop->client_qp.receives(), 2u);
    EXPECT_EQ(loop->take_reply().status, CallStatus::kReplied);
    reply_reverse();
    (void)carry(0);
    ReverseOutcome outcome;
    ASSERT_TRUE(loop->server->poll_reverse(outcome));
    EXPECT_EQ(outcome.status, ReverseStatus::kReplied);
    outcome.message.clear();
    loop->finish();
  }
  make();
}

// Proves BIDI-4.3.1-1: a client that takes no calls posts one receive for each Call of its own that may be outstanding and none
// more; while it is idle the server sends nothing.
TEST_F(BothDirections, AClientWithoutReverseServicePostsForItsOwnCallsOnly) {
  for (const uint32_t calls : {1u, 7u, 64u}) {
    options.client.credits_wanted = calls;
    options.server.reverse_credits = 16;  // willing, but nobody asked
    make();
    EXPECT_EQ(loop->client_qp.receives(), calls);
    EXPECT_EQ(loop->server->submit_reverse(loop->now, chain_of(loop->server_pool, rpc_call(1).bytes())).error(),
              Error::kBadState);
    for (uint32_t second = 0; second < 600; ++second) {
      loop->now = loop->now + Duration::seconds(1);
      loop->server->on_deadline(loop->now);
      loop->client->on_deadline(loop->now);
    }
    EXPECT_TRUE(loop->server_qp.history().empty());
    submit();
    loop->run();
    EXPECT_EQ(loop->take_reply().status, CallStatus::kReplied);
    EXPECT_EQ(loop->client_qp.receives(), calls);
    loop->finish();
  }
  make();
}

// Proves BIDI-5.3-1: 64 KiB of an eligible argument are out of the stream and in the Read list; the server has them in place,
// and what it answers with is written straight into the client's memory.
TEST_F(BothDirections, AChunkIsTheEligiblePartAndGoesStraightIntoMemory) {
  options.client.segment_bytes_max = 10'000;
  make();
  BenchCall bench{.procedure = BenchProcedure::kEcho, .seed = 5, .bytes = 65'536, .read_chunk = true, .write_chunk = true};
  ClientCall call;
  bench.prepare(loop->client_pool, call);
  const uint64_t inline_bytes = call.message.bytes();
  EXPECT_EQ(inline_bytes, 44u) << "the header and the length: no byte of the item";
  ASSERT_TRUE(loop->client->submit(loop->now, std::move(call)).ok());
  const std::vector<uint32_t> words = words_of(loop->client_qp.posted().front().payload);
  uint64_t listed = 0;
  size_t at = 4;
  for (; words[at] == 1; at += 6) {
    EXPECT_EQ(words[at + 1], kBenchEchoPosition);
    listed += words[at + 3];
  }
  EXPECT_EQ(listed, 65'536u);
  loop->run();
  const ClientReply reply = loop->take_reply();
  EXPECT_TRUE(bench.check(reply));
  EXPECT_EQ(bench.write_memory, bench.data);
  EXPECT_EQ(reply.message.bytes(), kBenchEchoReplyBytes) << "none of it came in the SEND";
}

// An NFSv4.1 callback: CB_COMPOUND with a tag, and an opaque in the place where NFS's own program has eligible data.
Words callback_call(uint32_t program, uint32_t opaque_bytes) {
  return rpc_call(kReverseXid, 1, program, 1).add({opaque_bytes});
}

// Proves BIDI-7-1, BIDI-1-4: what this mechanism carries it carries whole, until a binding names what may be moved. The same
// bytes are eligible in the program that has a binding and in no other, in Calls and in Replies.
TEST_F(BothDirections, AReverseProgramNeedsABindingOfItsOwn) {
  make();
  const auto context_of = [&](uint32_t program) {
    Chain call = chain_of(loop->server_pool, callback_call(program, 8).add({1, 2}).bytes());
    return inspect_call(call);
  };
  const CallContext bound = context_of(kBenchProgram);
  const CallContext unbound = context_of(kCallbackProgram);
  EXPECT_EQ(bound.binding, Binding::kBench);
  EXPECT_EQ(unbound.binding, Binding::kNone);
  Chain reply = chain_of(loop->server_pool, rpc_reply(kReverseXid).add({8, 1, 2}).bytes());
  EXPECT_EQ(find_reducible(bound, reply).count, 1u);
  EXPECT_EQ(find_reducible(unbound, reply).count, 0u);
  reply.clear();
  // A requester may not move its arguments either.
  std::vector<uint8_t> data(8);
  const ReadChunkSource read{.position = 44, .memory = data};
  for (const uint32_t program : {kBenchProgram, kCallbackProgram}) {
    Chain call = chain_of(loop->client_pool, callback_call(program, 8).bytes());
    const Status taken = loop->client->submit(loop->now, {.message = std::move(call), .reads = {&read, 1}});
    EXPECT_EQ(taken.ok(), program == kBenchProgram);
  }
}

// As the other direction's requester the server makes no chunk of it, however long it is: such a call is refused.
TEST_F(BothDirections, ALongReverseCallOfAnUnboundProgramIsRefusedAndNotMoved) {
  options.server.reverse_credits = 2;
  options.client.reverse_credits = 2;
  make();
  loop->server->enable_reverse();
  Chain call = chain_of(loop->server_pool, callback_call(kCallbackProgram, 4000).zeros(4000).bytes(), 2048);
  EXPECT_EQ(loop->server->submit_reverse(loop->now, std::move(call)).error(), Error::kLimit);
  EXPECT_TRUE(loop->server_qp.history().empty());
  call.clear();
}

// Proves RPCRDMA-8.2-1: with RPCSEC_GSS, authentication alone (service 1) keeps what RDMA gains, and integrity and privacy (2, 3)
// cost it: they pass, whole.
TEST_F(BothDirections, SecurityServicesWorkAndTheLastTwoGiveUpPlacement) {
  options.server_inline_bytes = 4096;
  options.client_inline_bytes = 4096;
  for (const uint32_t service : {1u, 2u, 3u}) {
    make();
    // READ of NFSv3 with a Write chunk and a Reply chunk, as a client offers that does not know what will be used.
    std::vector<uint8_t> sink(2000, 0xee);
    std::vector<uint8_t> whole(8000, 0xee);
    const MutableBytes write(sink);
    const Words read3{0, 0, 2, 100'003, 3, 6, 6, 20, 1, 0, 9, service, 0, 0, 0, 8, 1, 2, 0, 0, 2000};
    ASSERT_TRUE(loop->client
                    ->submit(loop->now, {.message = chain_of(loop->client_pool, read3.bytes()),
                                         .writes = {&write, 1},
                                         .reply_memory = service == 1 ? MutableBytes() : MutableBytes(whole)})
                    .ok());
    const uint32_t xid = loop->client->last_xid();
    (void)carry(0);
    Call call;
    ASSERT_TRUE(loop->server->poll_call(loop->now, call));
    // Status, no attributes, count, end of file, 2000 bytes; then enough to need the Reply chunk where nothing is taken out.
    const Words results = rpc_reply(xid).add({0, 0, 2000, 1, 2000}).raw(std::vector<uint8_t>(2000, 0x5a));
    const Words answer = service == 1 ? results : Words(results).zeros(4000);
    call.message.clear();
    loop->server->reply(loop->now, call.id, chain_of(loop->server_pool, answer.bytes(), 2048));
    loop->run();
    ClientReply reply = loop->take_reply();
    EXPECT_EQ(reply.status, CallStatus::kReplied) << service;
    if (service == 1) {
      EXPECT_EQ(sink, std::vector<uint8_t>(2000, 0x5a));
      EXPECT_EQ(reply.write_bytes[0], 2000u);
      EXPECT_EQ(reply.message.bytes(), answer.size() - 2000);
    } else {
      EXPECT_EQ(sink, std::vector<uint8_t>(2000, 0xee)) << "nothing was placed";
      EXPECT_EQ(reply.write_bytes[0], 0u);
      EXPECT_EQ(std::vector<uint8_t>(whole.begin(), whole.begin() + reply.reply_chunk_bytes), answer.bytes());
    }
    EXPECT_EQ(loop->shared->stats.chunks[static_cast<size_t>(ChunkKind::kWrite)].chunks, service == 1 ? 1u : 0u);
    reply.message.clear();
    loop->finish();
  }
  make();
}

// Proves RPCRDMA-8.2.2.3-1: the protected body is one run of bytes, from the intermediate buffer that was sealed to the one that
// is verified: of a Reply that is forged in the chunk, no byte has gone where the consumer reads its data.
TEST_F(BothDirections, AProtectedBodyReachesTheConsumerOnlyThroughTheBufferThatIsVerified) {
  make();
  std::vector<uint8_t> consumer(600, 0xee);
  std::vector<uint8_t> intermediate(4000, 0xee);
  const MutableBytes write(consumer);
  const Words read3{0, 0, 2, 100'003, 3, 6, 6, 20, 1, 0, 9, 2, 0, 0, 0, 8, 1, 2, 0, 0, 600};
  ASSERT_TRUE(loop->client
                  ->submit(loop->now, {.message = chain_of(loop->client_pool, read3.bytes()),
                                       .writes = {&write, 1},
                                       .reply_memory = MutableBytes(intermediate)})
                  .ok());
  const uint32_t xid = loop->client->last_xid();
  (void)carry(0);
  Call call;
  ASSERT_TRUE(loop->server->poll_call(loop->now, call));
  EXPECT_EQ(bytes_of(call.message).size(), read3.size()) << "the request came whole";
  call.message.clear();
  const Words body = rpc_reply(xid).add({1400}).raw(std::vector<uint8_t>(1400, 0x5a)).add({4, 0x0bad'0bad});
  loop->server->reply(loop->now, call.id, chain_of(loop->server_pool, body.bytes(), 2048));
  loop->run();
  const ClientReply reply = loop->take_reply();
  ASSERT_EQ(reply.reply_chunk_bytes, body.size());
  EXPECT_EQ(std::vector<uint8_t>(intermediate.begin(), intermediate.begin() + static_cast<ptrdiff_t>(body.size())), body.bytes());
  EXPECT_EQ(consumer, std::vector<uint8_t>(600, 0xee)) << "which the verifier at its end may still refuse";
}

}  // namespace
}  // namespace cw::rpcrdma
