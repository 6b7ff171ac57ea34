// Rules of RFC 8166 for the responder, one by one, where no other test meets them: credits, framing, direct data placement.
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

using test::WorkKind;

class ServerRules : public ServerFixture {
 protected:
  // An NFSv4 COMPOUND call with the given lists; what it asks for does not matter to the transport.
  CallId compound(const Words& lists) {
    Words message{kXid, 1, 16, 0};
    send(message.raw(lists.bytes()).raw(rpc_call(kXid, 1, 100'003, 4).add({0, 1, 0}).bytes()));
    const auto id = take();
    EXPECT_TRUE(id.has_value());
    held.clear();
    return id.value_or(CallId());
  }
  void expect_garbage(const Words& lists = {0, 0, 0}) {
    EXPECT_FALSE(take().has_value()) << "never processed";
    EXPECT_EQ(sent(), Words({kXid, 1, 8, 0}).raw(lists.bytes()).add({kXid, 1, 0, 0, 0, 4}).words());
    held.clear();
    expect_idle();
  }
};

// Proves RPCRDMA-3.3.1-6: a grant of zero cannot be configured, and each answer grants what is posted, errors too.
TEST_F(ServerRules, TheGrantIsNeverZero) {
  options.credits = 0;
  make();
  EXPECT_EQ(qp->receives(), 1u);
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(sent()[2], 1u);
  send(Words{kXid, 1, 0, 99, 0, 0, 0});
  EXPECT_EQ(sent()[2], 1u);
  send(Words{kXid, 7, 0, 0, 0, 0, 0});
  EXPECT_EQ(sent()[2], 1u);
  held.clear();
  options.credits = 1;
  expect_idle();
}

// Proves RPCRDMA-3.3.1-11: the number does not count calls down or up.
TEST_F(ServerRules, TheGrantIsALimitAndNotACount) {
  std::vector<CallId> ids;
  for (uint32_t i = 0; i < 6; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i)));
    ids.push_back(*take());
  }
  for (uint32_t i = 0; i < 6; ++i) {
    answer(ids[i], rpc_reply(kXid + i));
    EXPECT_EQ(sent()[2], 8u) << 5 - i << " in flight";
  }
  held.clear();
}

// Proves RPCRDMA-3.3.1-17, RPCRDMA-A.1-1: a client gets messages for its Calls and no others, whatever happens to us.
TEST_F(ServerRules, NothingUnsolicitedIsSent) {
  EXPECT_TRUE(qp->history().empty());
  now = now + Duration::seconds(60);
  server->on_deadline(now);
  server->on_completions(now);
  send(inline_call(77, rpc_reply(77)));
  expect_dropped(Words{kXid, 1, 1, 4, 2, 0, 0});
  send(inline_call(kXid, rpc_call(kXid)));
  ASSERT_TRUE(take().has_value());
  now = now + options.call_timeout;
  server->on_deadline(now);
  EXPECT_TRUE(server->failed());
  server->fail();
  EXPECT_TRUE(qp->history().empty());
}

// Proves RPCRDMA-3.2-1: what follows the first RPC message in the stream is no second one.
TEST_F(ServerRules, OneMessageCarriesOneCall) {
  send(inline_call(kXid, Words(rpc_call(kXid)).raw(rpc_call(kXid + 1).bytes())));
  ASSERT_TRUE(take().has_value());
  EXPECT_EQ(held.bytes(), 80u);
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(server->calls_in_flight(), 1u);
}

// Proves RPCRDMA-3.2-4: a record mark is a wrong header, and none is ever sent.
TEST_F(ServerRules, ARecordMarkIsNoHeader) {
  send(Words{0x8000'0044}.raw(inline_call(kXid, rpc_call(kXid)).bytes()));
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(sent(), (std::vector<uint32_t>{0x8000'0044, kXid, 8, 4, 1, 1, 1}));
}

// Proves RPCRDMA-7-2: whatever the version and the body, the XID is found and the answer is the range.
TEST_F(ServerRules, EveryOtherVersionIsAnsweredAlike) {
  SeededRandom random(3);
  for (uint32_t version = 0; version < 256; ++version) {
    for (const uint32_t proc : {0u, 1u, 2u, 3u, 5u}) {
      if (version == 1) {
        continue;
      }
      const uint32_t xid = random.next_u32();
      send(Words{xid, version, random.next_u32(), proc, random.next_u32(), random.next_u32(), random.next_u32()});
      EXPECT_EQ(sent(), (std::vector<uint32_t>{xid, version, 8, 4, 1, 1, 1}));
    }
  }
  expect_idle();
}

// Proves RPCRDMA-4.1.2-13: DONE has no body; none is looked at.
TEST_F(ServerRules, DoneIsDroppedWhateverFollowsIt) {
  expect_dropped(Words{kXid, 1, 1, 3});
  expect_dropped(Words{kXid, 1, 1, 3, 9, 9, 9});
  expect_dropped(Words{kXid, 1, 1, 3, 1, 0xffff'ffff, 1}.zeros(100));
}

// Proves RPCRDMA-6.1-9, RPCRDMA-6.1-10: the argument of NULL, of another program, or another place than an eligible argument's.
TEST_F(ServerRules, CallsThatReduceWhatIsNotEligibleAreNotProcessed) {
  const auto with_chunk = [&](uint32_t position, const Words& payload) {
    send(Words{kXid, 1, 1, 0}.read(position, 1, 4, 0).add({0, 0, 0}).raw(payload.bytes()));
    finish_read(Words{9}.bytes());
  };
  with_chunk(40, rpc_call(kXid));
  expect_garbage();
  with_chunk(48, rpc_call(kXid, 3, 100'003, 3).add({4, 7, 1}));  // LOOKUP's file handle and name
  expect_garbage();
  with_chunk(44, rpc_call(kXid, 1, 100'005, 3).add({4}));
  expect_garbage();
  EXPECT_EQ(stats().ddp_violations, 3u);
  EXPECT_EQ(malformed(HeaderError::kPositionBeyond), 0u);
  with_chunk(44, rpc_call(kXid, 1).add({4}));
  EXPECT_TRUE(take().has_value());
}

// Proves RPCRDMA-6.1-4: a WRITE of NFSv3 with a second chunk, and a byte-for-byte equal call of a procedure that has none, are
// refused and counted; with the one that the binding allows it is taken.
TEST_F(ServerRules, OneWriteHasOneChunk) {
  const auto call = [&](uint32_t procedure, bool second) {
    Words lists;
    if (second) {
      lists.read(48, 1, 8, 0);
    }
    send(Words{kXid, 1, 1, 0}
             .raw(lists.read(second ? 76 : 68, 2, 8, 0).add({0, 0, 0}).bytes())
             .raw(rpc_call(kXid, procedure, 100'003, 3).add({4, 9, 0, 0, 8, 2, 8}).bytes()));
    for (int i = second ? 2 : 1; i > 0; --i) {
      finish_read(std::vector<uint8_t>(8, 0x5a));
    }
  };
  call(7, true);
  expect_garbage();
  call(9, false);
  expect_garbage();
  EXPECT_EQ(stats().ddp_violations, 2u);
  call(7, false);
  EXPECT_TRUE(take().has_value());
  EXPECT_EQ(stats().ddp_violations, 2u);
}

// Proves RPCRDMA-4.5.2-6, RPCRDMA-4.5.2-7: chunk and count disagree, or the Position is a word too small. The header is valid:
// the
// answer is an RPC reply, with the Write chunks unused.
TEST_F(ServerRules, ArgumentsThatDoNotFitTheirChunksAreGarbage) {
  Words lists = Words{1, 44}.segment(1, 4096, 0).add({0, 1, 1}).segment(7, 100, 0).add({0, 0});
  send(Words{kXid, 1, 1, 0}.raw(lists.bytes()).raw(rpc_call(kXid, 1).add({5000}).bytes()));
  finish_read(std::vector<uint8_t>(4096, 0xff));
  expect_garbage(Words{0, 1, 1}.segment(7, 0, 0).add({0, 0}));
  send(Words{kXid, 1, 1, 0}.read(40, 1, 8, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({8}).bytes()));
  finish_read(std::vector<uint8_t>(8, 0xff));
  expect_garbage();
}

// Proves RPCRDMA-8.2.2.3-4, RPCRDMA-8.2.2-1: with integrity no argument may be reduced, and no result is.
TEST_F(ServerRules, ProtectedBodiesAreNeverReduced) {
  const auto protected_call = [](uint32_t service) {
    return Words{kXid, 0, 2, 100'003, 3, 7, 6, 20, 1, 0, 9, service, 0, 0, 0, 8, 1, 2, 0, 0, 4, 2, 4};
  };
  send(Words{kXid, 1, 1, 0}.read(92, 1, 4, 0).add({0, 0, 0}).raw(protected_call(2).bytes()));
  finish_read(Words{9}.bytes());
  expect_garbage();
  EXPECT_EQ(stats().ddp_violations, 1u);
  // READ with integrity and a Write chunk: the data stay where they are.
  send(Words{kXid, 1, 1, 0, 0, 1, 1}.segment(7, 100, 0).add({0, 0}).raw(
      Words{kXid, 0, 2, 100'003, 3, 6, 6, 20, 1, 0, 9, 2, 0, 0, 0, 1, 2}.bytes()));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  const Words reply = rpc_reply(kXid).add({0, 0, 4, 1, 4, 0xdddd'dddd});
  answer(*id, reply);
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 0, 0, 1, 1}).segment(7, 0, 0).add({0, 0}).raw(reply.bytes()).words());
}

// Proves RPCRDMA-4.3.2.2-1, RPCRDMA-4.3.2.1-2: the first READ is not there (its operation is another one), so that the second
// takes
// the chunk; the last chunk comes back unused.
TEST_F(ServerRules, ALaterResultTakesTheChunkThatAnEarlierLeft) {
  const CallId id = compound(Words{0, 1, 1}.segment(0x11, 100, 0).add({1, 1}).segment(0x22, 100, 0).add({0, 0}));
  // PUTFH, ACCESS in place of a READ, READ of 8.
  answer(id, rpc_reply(kXid).add({0, 0, 3, 22, 0, 3, 0, 1, 1, 25, 0, 1, 8, 0xaaaa'aaaa, 0xbbbb'bbbb}));
  ASSERT_EQ(qp->posted().size(), 2u);
  EXPECT_EQ(qp->posted().front().rkey, verbs::Rkey(0x11));
  EXPECT_EQ(words_of(qp->posted().front().payload), (std::vector<uint32_t>{0xaaaa'aaaa, 0xbbbb'bbbb}));
  qp->finish();
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 0, 0, 1, 1})
                        .segment(0x11, 8, 0)
                        .add({1, 1})
                        .segment(0x22, 0, 0)
                        .add({0, 0})
                        .raw(rpc_reply(kXid).add({0, 0, 3, 22, 0, 3, 0, 1, 1, 25, 0, 1, 8}).bytes())
                        .words());
}

// Proves RPCRDMA-3.4.4.4-2, RPCRDMA-3.4.4.4-3, RPCRDMA-6.1-5, RPCRDMA-3.4.2-2: the roundup leaves with the item, what follows
// begins
// on a word; what is not listed stays.
TEST_F(ServerRules, RoundupLeavesTheStreamWithItsItem) {
  for (uint32_t bytes = 1; bytes <= 64; ++bytes) {
    SCOPED_TRACE(bytes);
    const CallId id = compound(Words{0, 1, 1}.segment(0x11, 100, 0).add({0, 0}));
    const std::vector<uint8_t> data(bytes, 0x5a);
    const Words head = rpc_reply(kXid).add({0, 0, 2, 25, 0, 1, bytes});
    const Words tail{10, 0, 4, 0xcafe'f00d};  // GETFH
    answer(id, Words(head).raw(data).zeros((4 - bytes % 4) % 4).raw(tail.bytes()));
    EXPECT_EQ(bytes_of(qp->posted().front().payload), data);
    qp->finish();
    EXPECT_EQ(sent(),
              Words({kXid, 1, 8, 0, 0, 1, 1}).segment(0x11, bytes, 0).add({0, 0}).raw(head.bytes()).raw(tail.bytes()).words());
  }
}

// Proves RPCRDMA-4.3.2.3-2, RPCRDMA-4.3.2.3-3, RPCRDMA-4.3.2.3-4: chunk, empty chunk, chunk: the second result stays inline.
TEST_F(ServerRules, AnEmptyChunkAsksForAnInlineResult) {
  const CallId id = compound(Words{0, 1, 1}.segment(0x11, 8, 0).add({1, 0, 1, 1}).segment(0x33, 8, 0).add({0, 0}));
  answer(id, rpc_reply(kXid).add({0, 0, 3, 25, 0, 0, 4, 1, 25, 0, 0, 3, 0x0203'0400, 25, 0, 1, 4, 3}));
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kWrite, WorkKind::kWrite, WorkKind::kSend}));
  qp->finish();
  qp->finish();
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 0, 0, 1, 1})
                        .segment(0x11, 4, 0)
                        .add({1, 0, 1, 1})
                        .segment(0x33, 4, 0)
                        .add({0, 0})
                        .raw(rpc_reply(kXid).add({0, 0, 3, 25, 0, 0, 4, 25, 0, 0, 3, 0x0203'0400, 25, 0, 1, 4}).bytes())
                        .words());
}

// Proves RPCRDMA-4.3.2.3-5: a result that has to stay in the stream and is too long for a SEND goes through the Reply chunk.
TEST_F(ServerRules, AnInlineResultThatIsTooLongTakesTheReplyChunk) {
  const CallId id = compound(Words{0, 0, 1, 1}.segment(0x77, 4096, 0));
  const Words reply = rpc_reply(kXid).add({0, 0, 1, 25, 0, 1, 2001}).zeros(2004);
  answer(id, reply);
  EXPECT_EQ(bytes_of(qp->posted().front().payload), reply.bytes()) << "with its roundup";
  qp->finish();
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 1, 0, 0, 1, 1}).segment(0x77, static_cast<uint32_t>(reply.size()), 0).words());
}

// Proves RPCRDMA-3.4.5.1-2: no answer leaves while a Read of its call is under way.
TEST_F(ServerRules, TheReplyComesAfterAllReads) {
  send(Words{kXid, 1, 1, 0}.read(44, 1, 4, 0).read(44, 2, 4, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({8}).bytes()));
  finish_read(Words{1}.bytes());
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kRead, WorkKind::kRead}));
  finish_read(Words{2}.bytes());
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid).add({0}));
  EXPECT_EQ(qp->history().back(), WorkKind::kSend);
  EXPECT_EQ(qp->posted().size(), 1u);
}

// Proves RPCRDMA-6.3-3: calls of two programs share a connection, its credits and its thresholds.
TEST_F(ServerRules, ProgramsShareAConnection) {
  for (uint32_t i = 0; i < 8; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i, 0, i % 2 == 0 ? kBenchProgram : 100'003, i % 2 == 0 ? 1 : 3)));
  }
  EXPECT_EQ(server->calls_in_flight(), 8u);
  for (uint32_t i = 0; i < 8; ++i) {
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    answer(*id, rpc_reply(kXid + i).zeros(i % 2 == 0 ? 972 : 976));
    EXPECT_EQ(sent()[3], i % 2 == 0 ? 0u : 4u) << "one threshold for all";
  }
  held.clear();
}

// Proves RPCRDMA-8.2.2.3-3, RPCRDMA-8.2.2.3-2: a protected reply goes through the Reply chunk as it is, roundup that is not zero
// too.
TEST_F(ServerRules, ProtectedRepliesAreCarriedByteForByte) {
  send(Words{kXid, 1, 1, 0, 0, 0, 1, 1}
           .segment(7, 4096, 0)
           .raw(Words{kXid, 0, 2, 100'003, 3, 6, 6, 20, 1, 0, 9, 2, 0, 0, 0, 1, 2}.bytes()));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  const Words reply = rpc_reply(kXid).add({1501}).raw(std::vector<uint8_t>(1501, 0x5a)).raw(std::vector<uint8_t>{7, 8, 9});
  answer(*id, reply);
  EXPECT_EQ(bytes_of(qp->posted().front().payload), reply.bytes());
  qp->finish_all_sends();
}

// Proves RPCRDMA-3.3-2: grant and threshold belong to one connection; a neighbour has its own.
TEST_F(ServerRules, CreditsAndThresholdsAreThoseOfTheConnection) {
  test::FakeQueuePair other_qp;
  ServerOptions other_options = options;
  other_options.credits = 3;
  InlineThresholds larger{.send_bytes = 4096, .receive_bytes = 4096, .remote_invalidation = false};
  auto other = std::make_unique<ServerEndpoint>(*shared, other_qp, other_options, larger);
  other->start();
  EXPECT_EQ(other_qp.receives(), 3u);
  EXPECT_EQ(qp->receives(), 8u);
  ASSERT_TRUE(other_qp.deliver(chain_of(*pool, inline_call(5, rpc_call(5)).bytes())));
  other->on_completions(now);
  Call call;
  ASSERT_TRUE(other->poll_call(now, call));
  other->reply(now, call.id, chain_of(*pool, rpc_reply(5).zeros(2000).bytes()));
  const std::vector<uint32_t> theirs = words_of(other_qp.posted().front().payload);
  EXPECT_EQ(theirs[2], 3u);
  EXPECT_EQ(theirs[3], 0u) << "2000 bytes fit there";
  call.message.clear();
  other_qp.finish_all_sends();
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid).zeros(2000));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2})) << "and not here";
  held.clear();
}

}  // namespace
}  // namespace cw::rpcrdma
