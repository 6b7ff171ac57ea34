// Calls to the client (RFC 8167) by a server endpoint: what is on the wire, what it believes of what comes back, and that neither
// direction disturbs the other.
#include "rpcrdma/endpoint/reverse_caller.h"

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kReverseXid = 0x8000'0001;
constexpr uint32_t kWanted = 4;

class ReverseCalls : public ServerFixture {
 protected:
  void SetUp() override {
    options.credits = 8;
    options.reverse_credits = kWanted;
    make();
    server->enable_reverse();
  }
  Status submit(uint32_t xid) { return submit(rpc_call(xid)); }
  Status submit(const Words& call) {
    const Status taken = server->submit_reverse(now, chain_of(*pool, call.bytes(), 2048));
    EXPECT_TRUE(server->is_consistent());
    return taken;
  }
  // Submits and takes the SEND off the queue pair.
  std::vector<uint32_t> call(uint32_t xid) {
    EXPECT_TRUE(submit(xid).ok());
    return sent();
  }
  static Words reply(uint32_t xid, uint32_t credit) { return Words{xid, 1, credit, 0, 0, 0, 0}.raw(rpc_reply(xid).bytes()); }
  // The next outcome; its message stays in `outcome`.
  std::optional<ReverseStatus> ended() {
    if (!server->poll_reverse(outcome)) {
      return std::nullopt;
    }
    return outcome.status;
  }
  // Answers the first call, so that `credits` are there.
  void grant(uint32_t credits) {
    ASSERT_EQ(call(1)[0], 1u);
    send(reply(1, credits));
    ASSERT_EQ(ended(), ReverseStatus::kReplied);
    outcome.message.clear();
  }
  void TearDown() override {
    outcome.message.clear();
    ServerFixture::TearDown();
  }
  uint32_t granted() const { return server->reverse_credits_granted(); }
  uint32_t in_flight() const { return server->reverse_in_flight(); }
  ReverseOutcome outcome;
};

// Proves BIDI-1-1, BIDI-5-1, BIDI-5.1-2, BIDI-5.1-3, BIDI-5.1-4, BIDI-5.1-5, BIDI-5.3-4, RPCRDMA-7.1-4
TEST_F(ReverseCalls, ACallIsAnOrdinaryInlineMessageWithTheCreditsWanted) {
  // The decoder that reads forward calls reads it: the same XDR, version 1, and all of it behind the header is the call.
  ASSERT_TRUE(submit(kReverseXid + 1).ok());
  const std::vector<uint8_t> raw = bytes_of(qp->posted().front().payload);
  const auto fixed = FixedHeader::parse(raw);
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->version, kRpcRdmaVersion);
  ChunkList chunks;
  const auto decoded = decode_chunks(raw, ChunkLimits{}, chunks);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(chunks.read_count + chunks.write_count + (chunks.has_reply ? 1 : 0), 0u);
  EXPECT_EQ(Words().raw(Bytes(raw).subspan(decoded->header_bytes)).words(), rpc_call(kReverseXid + 1).words());
  make();
  server->enable_reverse();
  EXPECT_EQ(call(kReverseXid), Words({kReverseXid, 1, kWanted, 0, 0, 0, 0}).raw(rpc_call(kReverseXid).bytes()).words());
  EXPECT_EQ(stats().reverse_calls, 1u);
}

// Proves BIDI-2-2, BIDI-2-3, BIDI-2.2-1, BIDI-2.4-4, BIDI-4.1-10
TEST_F(ReverseCalls, TheReplyEndsTheCallOfItsXid) {
  (void)call(kReverseXid);
  EXPECT_EQ(in_flight(), 1u);
  send(reply(kReverseXid, 1));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
  EXPECT_EQ(outcome.xid, kReverseXid);
  EXPECT_EQ(words_of(outcome.message), rpc_reply(kReverseXid).words());
  EXPECT_EQ(ended(), std::nullopt);
  EXPECT_EQ(in_flight(), 0u);
  EXPECT_EQ(stats().reverse_replies, 1u);
  EXPECT_EQ(qp->receives(), options.credits);
}

// Proves BIDI-2.2-3, BIDI-6-5, BIDI-6-6, BIDI-6-8, RPCRDMA-7.1-2
TEST_F(ReverseCalls, NothingIsSentBeforeTheDirectionIsEnabled) {
  make();
  EXPECT_FALSE(server->reverse_enabled());
  EXPECT_EQ(submit(kReverseXid).error(), Error::kBadState);
  EXPECT_TRUE(qp->posted().empty());
  EXPECT_EQ(granted(), 0u);
  server->enable_reverse();
  server->enable_reverse();  // again: nothing new
  EXPECT_EQ(granted(), 1u);
  EXPECT_EQ(stats().reverse_credits_granted, 1u);
  EXPECT_EQ(call(kReverseXid)[0], kReverseXid);
}

// Proves BIDI-6-1, BIDI-2.3-1
TEST_F(ReverseCalls, WithoutCreditsToAskForThereIsNoReverseDirection) {
  options.reverse_credits = 0;
  make();
  server->enable_reverse();
  EXPECT_FALSE(server->reverse_enabled());
  EXPECT_EQ(submit(kReverseXid).error(), Error::kBadState);
  EXPECT_EQ(qp->receives(), options.credits);
}

// Proves BIDI-4.1-1, BIDI-4.1-9, BIDI-5.4-8
TEST_F(ReverseCalls, OneCallUntilTheFirstReplyThenAsManyAsGranted) {
  for (uint32_t xid = 1; xid <= 6; ++xid) {
    ASSERT_TRUE(submit(xid).ok());
  }
  EXPECT_EQ(in_flight(), 1u);
  EXPECT_EQ(sent()[0], 1u);
  send(reply(1, 3));
  EXPECT_EQ(granted(), 3u);
  EXPECT_EQ(in_flight(), 3u);
  EXPECT_EQ(sent()[0], 2u);
  EXPECT_EQ(sent()[0], 3u);
  EXPECT_EQ(sent()[0], 4u);
  // Down again: two in flight already, so that the next waits until one of them is answered.
  send(reply(2, 2));
  EXPECT_EQ(in_flight(), 2u);
  EXPECT_TRUE(qp->posted().empty());
  send(reply(3, 2));
  EXPECT_EQ(sent()[0], 5u);
  EXPECT_EQ(stats().reverse_credits_granted, 2u);
  EXPECT_EQ(stats().reverse_credits_in_use, 2u);
}

// Proves BIDI-4.1-5
TEST_F(ReverseCalls, GrantsOfNoneOrOfMoreThanAskedForAreClamped) {
  grant(1000);
  EXPECT_EQ(granted(), kWanted);
  (void)call(2);
  send(reply(2, 0));
  EXPECT_EQ(granted(), 1u);
}

// Proves BIDI-4.1-2, BIDI-4.1-4, BIDI-4.1-6, BIDI-4.1-7, BIDI-4.1-8
TEST_F(ReverseCalls, TheTwoLedgersKnowNothingOfEachOther) {
  grant(3);
  // A forward Call that asks for 1000 credits: no grant for us, and the answer grants what it always does.
  send(Words{kXid, 1, 1000, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
  EXPECT_EQ(granted(), 3u);
  answer(*take(), rpc_reply(kXid));
  EXPECT_EQ(sent()[2], options.credits);
  EXPECT_EQ(server->credits_granted(), options.credits);
  EXPECT_EQ(granted(), 3u);
}

// Proves BIDI-2.4-1, BIDI-2.4.1-1, BIDI-2.4.1-2, BIDI-2-1
TEST_F(ReverseCalls, TheSameXidMayBeInUseInBothDirections) {
  (void)call(kXid);
  send(inline_call(kXid, rpc_call(kXid)));  // a Call under the XID of ours: it is theirs
  const auto forward = take();
  ASSERT_TRUE(forward.has_value());
  EXPECT_EQ(ended(), std::nullopt);
  EXPECT_EQ(in_flight(), 1u);
  send(reply(kXid, 2));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
  answer(*forward, rpc_reply(kXid));
  EXPECT_EQ(sent(), Words({kXid, 1, options.credits, 0, 0, 0, 0}).raw(rpc_reply(kXid).bytes()).words());
}

// Proves BIDI-4.1-3, BIDI-2.3-2, BIDI-2.3-3, BIDI-1-2
TEST_F(ReverseCalls, ForwardCallsThatFillTheGrantAndTheTableBlockNothing) {
  make(128, 4);  // slots for half of the calls
  server->enable_reverse();
  for (uint32_t i = 0; i < options.credits; ++i) {
    send(inline_call(100 + i, rpc_call(100 + i)));
  }
  EXPECT_EQ(server->calls_in_flight(), options.credits);
  (void)call(kReverseXid);
  EXPECT_EQ(qp->receives(), 1u) << "the one posted for the Reply";
  send(reply(kReverseXid, 1));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
  EXPECT_FALSE(server->failed());
}

// Proves BIDI-4.3.2-1, BIDI-4.3.2-2, BIDI-4-2
TEST_F(ReverseCalls, EachCallHasAReceivePostedForItsReply) {
  EXPECT_EQ(qp->receives(), options.credits);
  grant(4);
  for (uint32_t xid = 2; xid <= 5; ++xid) {
    ASSERT_TRUE(submit(xid).ok());
  }
  EXPECT_EQ(qp->receives(), options.credits + 4);
  qp->finish_all_sends();
  // The client uses its whole grant and sends its four Replies at once.
  for (uint32_t i = 0; i < options.credits; ++i) {
    send(inline_call(100 + i, rpc_call(100 + i)));
  }
  for (uint32_t xid = 2; xid <= 5; ++xid) {
    send(reply(xid, 4));
    EXPECT_EQ(ended(), ReverseStatus::kReplied);
  }
  EXPECT_EQ(qp->receives(), 0u);
  EXPECT_FALSE(server->failed());
}

// Proves BIDI-4.2-2, BIDI-4.2-4, BIDI-5.3-6, BIDI-5.3-7
TEST_F(ReverseCalls, ACallLongerThanTheThresholdIsRefusedWithoutASend) {
  const auto call_of = [](uint32_t bytes) { return rpc_call(kReverseXid).zeros(bytes - 40); };
  EXPECT_EQ(submit(call_of(1024 - 28 + 4)).error(), Error::kLimit);
  EXPECT_TRUE(qp->posted().empty());
  ASSERT_TRUE(submit(call_of(1024 - 28)).ok());
  EXPECT_EQ(sent().size() * 4, 1024u);
}

// Proves BIDI-8-1, BIDI-8-2
TEST_F(ReverseCalls, CredentialsAreNobodysBusinessHere) {
  // Forward calls with AUTH_NONE, reverse ones with AUTH_SYS and RPCSEC_GSS: their bytes pass.
  send(inline_call(kXid, rpc_call(kXid)));
  EXPECT_TRUE(take().has_value());
  for (const uint32_t flavor : {1u, 6u}) {
    const Words call{flavor, 0, 2, 0x4000'0000, 1, 1, flavor, 8, 0xdead, 0xbeef, flavor, 4, 0xcafe, 1, 2, 3};
    ASSERT_TRUE(submit(call).ok());
    EXPECT_EQ(sent(), Words({flavor, 1, kWanted, 0, 0, 0, 0}).raw(call.bytes()).words());
    const Words answer{flavor, 1, 0, flavor, 4, 0xfeed, 0};
    send(Words{flavor, 1, 1, 0, 0, 0, 0}.raw(answer.bytes()));
    EXPECT_EQ(ended(), ReverseStatus::kReplied);
    EXPECT_EQ(words_of(outcome.message), answer.words());
  }
}

TEST_F(ReverseCalls, ALongCallThatDoesNotFitTheHeadersBufferTravelsInItsOwn) {
  thresholds.send_bytes = 8192;
  make();
  server->enable_reverse();
  const Words long_call = rpc_call(kReverseXid).zeros(5000);
  ASSERT_TRUE(submit(long_call).ok());
  EXPECT_EQ(qp->posted().front().payload.buffer_count(), 4u);
  EXPECT_EQ(sent(), Words({kReverseXid, 1, kWanted, 0, 0, 0, 0}).raw(long_call.bytes()).words());
}

// Proves BIDI-5.1-1
TEST_F(ReverseCalls, WhatIsNoCallAndWhatIsInFlightAlreadyIsRefused) {
  EXPECT_EQ(submit(Words{kReverseXid}).error(), Error::kBadValue);
  EXPECT_EQ(submit(rpc_reply(kReverseXid)).error(), Error::kBadValue);
  ASSERT_TRUE(submit(1).ok());
  ASSERT_TRUE(submit(2).ok());                     // waits
  EXPECT_EQ(submit(1).error(), Error::kBadValue);  // in flight
  EXPECT_EQ(submit(2).error(), Error::kBadValue);
}

TEST_F(ReverseCalls, SoManyMayWaitAndNoMore) {
  ASSERT_TRUE(submit(1).ok());
  for (uint32_t i = 0; i < ReverseCaller::kWaitingMax; ++i) {
    ASSERT_TRUE(submit(100 + i).ok());
  }
  EXPECT_EQ(submit(99).error(), Error::kNoResources);
  // Outcomes that nobody polls are bounded too.
  for (uint32_t round = 0; round < 200; ++round) {
    (void)submit(1000 + round);
    if (in_flight() > 0 && !qp->posted().empty()) {
      send(reply(sent()[0], 1));
    }
  }
  EXPECT_FALSE(server->failed());
}

// Proves BIDI-2.4-4, BIDI-5.2-4
TEST_F(ReverseCalls, AReplyThatFitsNoCallChangesNothing) {
  grant(2);
  (void)call(kReverseXid);
  const auto expect_ignored = [&](const Words& words) {
    send(words);
    EXPECT_EQ(ended(), std::nullopt);
    EXPECT_EQ(in_flight(), 1u);
    EXPECT_EQ(granted(), 2u);
    EXPECT_EQ(qp->receives(), options.credits + 1);
    EXPECT_FALSE(server->failed());
  };
  expect_ignored(reply(77, 4));                                                                  // nobody's XID
  expect_ignored(Words{kReverseXid, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(kReverseXid + 1).bytes()));  // two XIDs
  expect_ignored(Words{kReverseXid + 1, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(kReverseXid).bytes()));
  send(reply(kReverseXid, 2));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
}

// Proves BIDI-4.1-11
TEST_F(ReverseCalls, CreditsOfUnknownDirectionAreNotUsed) {
  grant(2);
  (void)call(kReverseXid);
  for (const uint32_t credit : {0u, 9999u}) {
    send(Words{kReverseXid, 1, credit, 0, 0, 0, 0, kReverseXid}.raw(Words{1}.cut(3).bytes()));  // cut off in msg_type
    answer(*take(), rpc_reply(kReverseXid));  // for all this end can tell it is a call; its program refuses it
    EXPECT_EQ(sent()[2], options.credits);
    send(Words{kReverseXid, 1, credit, 1, 0, 0, 0});  // RDMA_NOMSG without a chunk
    EXPECT_EQ(sent()[4], 2u);                         // ERR_CHUNK
    EXPECT_EQ(granted(), 2u);
    EXPECT_EQ(in_flight(), 1u);
  }
}

// No chunk was offered: a Reply cannot have used one.
TEST_F(ReverseCalls, AReplyWithChunksIsDropped) {
  (void)call(kReverseXid);
  send(Words{kReverseXid, 1, 4, 0, 0, 1, 1}.segment(7, 100, 0).add({0, 0}).raw(rpc_reply(kReverseXid).bytes()));
  EXPECT_EQ(ended(), std::nullopt);
  EXPECT_EQ(stats().reverse_dropped, 1u);
  EXPECT_EQ(granted(), 1u);
}

// Proves BIDI-5.3-11
TEST_F(ReverseCalls, AnRdmaErrorEndsItsCallForGood) {
  for (const Words& error : {Words{1, 1, 1, 4, 2}, Words{2, 1, 1, 4, 1, 1, 1}}) {
    const uint32_t xid = load_be32(error.bytes().data());
    (void)call(xid);
    send(error);
    EXPECT_EQ(ended(), ReverseStatus::kRefused);
    EXPECT_EQ(outcome.xid, xid);
    EXPECT_TRUE(qp->posted().empty());
    EXPECT_EQ(qp->receives(), options.credits);
  }
  EXPECT_EQ(stats().errors_in_chunk, 1u);
  EXPECT_EQ(stats().errors_in_version, 1u);
}

// Proves BIDI-4.1-12, RPCRDMA-4.2.4-15
TEST_F(ReverseCalls, AnRdmaErrorCountsOnlyForACallOfOurs) {
  grant(2);
  (void)call(kXid);
  send(inline_call(kXid, rpc_call(kXid)));  // the same XID forward
  const auto forward = take();
  ASSERT_TRUE(forward.has_value());
  for (const Words& nobodys : {Words{99, 1, 1, 4, 2}, Words{kXid + 1, 1, 1, 4, 2}, Words{99, 1, 1, 4, 1, 1, 1}}) {
    send(nobodys);
    EXPECT_EQ(granted(), 2u);
    EXPECT_EQ(ended(), std::nullopt);
    EXPECT_EQ(in_flight(), 1u);
    EXPECT_TRUE(qp->posted().empty()) << "an error is not answered";
  }
  send(Words{kXid, 1, 3, 4, 2});
  EXPECT_EQ(ended(), ReverseStatus::kRefused);
  EXPECT_EQ(granted(), 3u);
  EXPECT_EQ(server->calls_in_flight(), 1u);
  answer(*forward, rpc_reply(kXid));
  EXPECT_EQ(sent()[0], kXid);
}

// Proves BIDI-5.4-4, BIDI-5.4-5
TEST_F(ReverseCalls, ACallThatFindsNoCreditExpires) {
  (void)call(1);
  ASSERT_TRUE(submit(2).ok());
  EXPECT_EQ(server->next_deadline(), now + options.reverse_patience);
  now = now + options.reverse_patience;
  server->on_deadline(now);
  EXPECT_EQ(ended(), ReverseStatus::kExpired);
  EXPECT_EQ(outcome.xid, 2u);
  EXPECT_TRUE(server->next_deadline().is_never());
  // What was sent keeps its credit: its Reply may come yet.
  EXPECT_EQ(in_flight(), 1u);
  send(reply(1, 1));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
}

TEST_F(ReverseCalls, ACallWaitsForRoomInTheSendQueue) {
  make(1);
  server->enable_reverse();
  send(inline_call(kXid, rpc_call(kXid)));
  answer(*take(), rpc_reply(kXid));
  ASSERT_TRUE(submit(kReverseXid).ok());
  EXPECT_EQ(in_flight(), 0u);
  EXPECT_EQ(sent()[0], kXid);
  EXPECT_EQ(sent()[0], kReverseXid);
}

TEST_F(ReverseCalls, ACallWaitsForABuffer) {
  make(128, 32, 4);
  server->enable_reverse();
  ASSERT_TRUE(submit(kReverseXid).ok());
  EXPECT_EQ(sent()[0], kReverseXid);
  send(reply(kReverseXid, 2));
  EXPECT_EQ(ended(), ReverseStatus::kReplied);
  outcome.message.clear();
  Chain hog = chain_of(*pool, Words{1, 2, 3}.bytes(), 4);
  Chain call = chain_of(*pool, rpc_call(2).bytes());
  ASSERT_TRUE(server->submit_reverse(now, std::move(call)).ok());
  EXPECT_EQ(in_flight(), 0u);
  EXPECT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
  hog.clear();
  server->on_deadline(server->next_deadline());
  EXPECT_EQ(sent()[0], 2u);
}

// Proves BIDI-4.3.2-3, BIDI-5.4-3, BIDI-6-3
TEST_F(ReverseCalls, EverythingEndsWithTheConnection) {
  grant(2);
  (void)call(2);
  (void)call(3);
  ASSERT_TRUE(submit(4).ok());
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(ended(), std::nullopt);
  EXPECT_EQ(in_flight(), 0u);
  EXPECT_EQ(granted(), 0u);
  EXPECT_EQ(submit(5).error(), Error::kBadState);
  EXPECT_TRUE(server->next_deadline().is_never());
}

// A client that sends a Call into the receive that stands for a Reply has exceeded its grant like any other.
TEST_F(ReverseCalls, TheReceiveOfAReplyIsNoCreditForCalls) {
  options.credits = 1;
  make();
  server->enable_reverse();
  (void)call(kReverseXid);
  send(inline_call(kXid, rpc_call(kXid)));
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(stats().credit_violations, 1u);
}

}  // namespace
}  // namespace cw::rpcrdma
