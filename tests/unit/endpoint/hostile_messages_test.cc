// Bad RPC-over-RDMA messages at the endpoints: lists R and B of tests/requirements/hostile.md, and what went wrong in svcrdma and
// xprtrdma. Each test is named after its row. Headers alone are met in tests/unit/rpcrdma/hostile_header_test.cc.
#include <algorithm>

#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/client_fixture.h"
#include "tests/unit/endpoint/loopback.h"
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

using test::WorkKind;

constexpr uint32_t kExtremes[] = {0, 1, 2, 3, 0x7fff'ffff, 0x8000'0000, 0xffff'fffe, 0xffff'ffff};

class HostileMessages : public ServerFixture {
 protected:
  // A call with these lists and this payload behind them.
  static Words with_lists(const Words& lists, const Words& payload, uint32_t proc = 0) {
    return Words{kXid, 1, 1, proc}.raw(lists.bytes()).raw(payload.bytes());
  }
  static Words echo() { return rpc_call(kXid, 1).add({0}); }
  // A good call is answered: nothing that came before has left anything behind.
  void expect_healthy() {
    send(inline_call(kXid, rpc_call(kXid)));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid));
    EXPECT_EQ(sent(), Words({kXid, 1, options.credits, 0, 0, 0, 0}).raw(rpc_reply(kXid).bytes()).words());
    expect_idle();
  }
  [[nodiscard]] uint64_t reads_and_writes() const {
    return static_cast<uint64_t>(
        std::count_if(qp->history().begin(), qp->history().end(), [](WorkKind kind) { return kind != WorkKind::kSend; }));
  }
};

TEST_F(HostileMessages, R1_EveryLengthBelowTheSmallestHeaderIsDropped) {
  const Words whole = inline_call(kXid, rpc_call(kXid));
  for (size_t bytes = 1; bytes < 28; ++bytes) {
    expect_dropped(Words(whole).cut(bytes));
    EXPECT_EQ(stats().short_messages, bytes);
  }
  // Long enough for the header, and too short for the call behind it.
  for (size_t bytes = 28; bytes < 32; ++bytes) {
    expect_chunk_error(Words(whole).cut(bytes));
  }
  expect_healthy();
}

// A call whose reply places an item in a Write chunk: what a slot remembers at its fullest.
class UsedSlot : public HostileMessages {
 protected:
  void SetUp() override {
    HostileMessages::SetUp();
    make(128, 1);  // one slot: the next message gets the same
    Words lists{0, 1, 1};
    lists.segment(0x11, 4096, 0x1000).add({0, 0});
    send(Words{kXid, 1, 16, 0}.raw(lists.bytes()).raw(rpc_call(kXid, 2).add({0, 0, 0}).bytes()));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid).add({0, 0x5555'5555, 1000}).zeros(1000));
    ASSERT_EQ(qp->posted().size(), 2u);
    qp->finish_all_sends();
    server->on_completions(now);
    expect_idle();
  }
};

TEST_F(UsedSlot, AMessageOfAnotherVersionIsRefusedAsInAFreshOne) {
  send(Words{kXid + 1, 2, 1, 0, 0, 0, 0}.raw(rpc_call(kXid + 1).bytes()));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid + 1, 2, options.credits, 4, 1, 1, 1}));
  expect_idle();
  expect_healthy();
}

TEST_F(UsedSlot, AHeaderThatCannotBeReadIsRefusedAsInAFreshOne) {
  expect_chunk_error(Words{kXid + 1, 1, 1, 0, 2, 0, 0}.raw(rpc_call(kXid + 1).bytes()));
  expect_healthy();
}

TEST_F(UsedSlot, AMessageOfAnUnknownProcedureIsRefusedAsInAFreshOne) {
  expect_chunk_error(Words{kXid + 1, 1, 1, 9, 0, 0, 0}.raw(rpc_call(kXid + 1).bytes()));
  expect_healthy();
}

TEST_F(UsedSlot, ABackendReplyThatIsNoneIsRefusedAsInAFreshOne) {
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  held.clear();
  answer(*id, Words{kXid + 1, 1});
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid + 1, 1, options.credits, 4, 2}));
  expect_idle();
  expect_healthy();
}

TEST_F(HostileMessages, R2_OtherVersionsAreAnsweredWithTheRangeOfOurs) {
  for (const uint32_t version : kExtremes) {
    if (version != 1) {
      send(Words{kXid, version, 1, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
      EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, version, options.credits, 4, 1, 1, 1}));
      expect_idle();
    }
  }
  expect_healthy();
}

TEST_F(HostileMessages, R3_WhateverCreditIsAskedForTheGrantIsOurs) {
  for (const uint32_t credit : kExtremes) {
    send(Words{kXid, 1, credit, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid));
    EXPECT_EQ(sent()[2], options.credits);
    expect_idle();
  }
}

TEST_F(HostileMessages, R4_MsgpDoneAndUnknownProceduresGetTheirDue) {
  for (const uint32_t proc : {2u, 5u, 6u, 0x7fff'ffffu, 0xffff'ffffu}) {
    expect_chunk_error(Words{kXid, 1, 1, proc, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
  }
  for (const uint32_t proc : {3u, 4u}) {
    expect_dropped(Words{kXid, 1, 1, proc, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
  }
  expect_healthy();
}

TEST_F(HostileMessages, R5_ReadListsThatLieAreRefusedBeforeAnythingIsRead) {
  const auto list = [](std::initializer_list<std::array<uint64_t, 3>> entries) {  // position, length, offset
    Words words;
    for (const auto& [position, length, offset] : entries) {
      words.read(static_cast<uint32_t>(position), 7, static_cast<uint32_t>(length), offset);
    }
    return words.add({0, 0, 0});
  };
  constexpr uint64_t kTop = UINT64_MAX;
  const Words refused[] = {
      list({{42, 4, 0}}),
      list({{41, 4, 0}}),
      list({{43, 4, 0}}),  // no multiple of 4
      list({{52, 4, 0}}),
      list({{0xffff'fffc, 4, 0}}),  // beyond the inline part
      list({{40, 64, 0}, {44, 64, 0}}),
      list({{44, 64, 0}, {40, 64, 0}}),  // one within the other
      list({{44, UINT32_MAX, 0}}),
      list({{44, 0x8000'0000, 0}}),
      list({{44, 4u << 20, 0}, {44, 1, 0}}),     // just over the budget
      list({{44, 0xffff'ffff, 0}, {44, 2, 0}}),  // the sum wraps 32 bits
      list({{44, 8, kTop - 6}}),
      list({{44, 2, kTop}}),  // the region wraps 64 bits
  };
  for (const Words& lists : refused) {
    expect_chunk_error(with_lists(lists, rpc_call(kXid, 1).add({64})));
  }
  Words many;
  for (uint32_t i = 0; i < 1025; ++i) {
    many.read(44, 7, 1, i);
  }
  expect_chunk_error(with_lists(many.add({0, 0, 0}), rpc_call(kXid, 1).add({1025})));
  EXPECT_EQ(reads_and_writes(), 0u);
  // Of length zero, and out of order, are legal: they are taken, in the order of the stream.
  const Words legal = Words().read(44, 1, 0, 0).read(44, 2, 8, 0).read(44, 3, 0, 0).add({0, 0, 0});
  send(with_lists(legal, rpc_call(kXid, 1).add({8})));
  finish_read(Words{5, 6}.bytes());
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(words_of(held), rpc_call(kXid, 1).add({8, 5, 6}).words());
  answer(*id, rpc_reply(kXid));
  (void)sent();
  held.clear();
  expect_healthy();
}

TEST_F(HostileMessages, R6_WriteListsThatLieAreRefusedAndOddOnesAreReturnedUnused) {
  for (const uint32_t count : {65u, 0x1000'0000u, 0x1000'0001u, 0xffff'ffffu}) {
    expect_chunk_error(with_lists(Words{0, 1, count}.segment(7, 100, 0).add({0, 0}), echo()));
  }
  const Words whole = with_lists(Words{0, 1, 3}.segment(1, 8, 0).segment(2, 8, 0).segment(3, 8, 0).add({0, 0}), Words());
  for (size_t bytes = 28; bytes < whole.size(); ++bytes) {
    expect_chunk_error(Words(whole).cut(bytes));
  }
  // Without segments, with segments of nothing, and several of them: none is used, all come back.
  const Words odd = Words{0, 1, 0, 1, 1}.segment(5, 0, 0).add({1, 2}).segment(6, 8, 0).segment(7, 8, 64).add({0, 0});
  send(with_lists(odd, rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(sent(),
            Words({kXid, 1, 8, 0})
                .raw(Words{0, 1, 0, 1, 1}.segment(5, 0, 0).add({1, 2}).segment(6, 0, 0).segment(7, 0, 64).add({0, 0}).bytes())
                .raw(rpc_reply(kXid).bytes())
                .words());
  // Shorter than the result by a byte: an error, and not one byte of it is written.
  send(with_lists(Words{0, 1, 2}.segment(6, 8, 0).segment(7, 7, 64).add({0, 0}), echo()));
  const auto second = take();
  ASSERT_TRUE(second.has_value());
  answer(*second, rpc_reply(kXid).add({16, 1, 2, 3, 4}));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
  EXPECT_EQ(reads_and_writes(), 0u);
  held.clear();
  expect_healthy();
}

TEST_F(HostileMessages, R7_AReplyThatFindsNoRoomIsAnErrorAndNothingIsWritten) {
  const Words no_room[] = {
      Words{0, 0, 0},                                                   // no Reply chunk
      Words{0, 0, 1, 0},                                                // of no segments
      Words{0, 0, 1, 1}.segment(7, 0, 0),                               // of nothing
      Words{0, 0, 1, 1}.segment(7, 2023, 0),                            // a byte short
      Words{0, 0, 1, 2}.segment(7, 1023, 0).segment(8, 1000, 0x10000),  // in two, a byte short
  };
  for (const Words& lists : no_room) {
    send(with_lists(lists, rpc_call(kXid)));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid).zeros(2000));
    EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
    expect_idle();
  }
  EXPECT_EQ(reads_and_writes(), 0u);
  send(with_lists(Words{0, 0, 1, 1}.segment(7, 2024, 0), rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  held.clear();
  answer(*id, rpc_reply(kXid).zeros(2000));
  EXPECT_EQ(qp->posted().front().payload.bytes(), 2024u);
  qp->finish();
  (void)sent();
  expect_healthy();
}

TEST_F(HostileMessages, R8_PositionZeroAndInlineBodiesDoNotMix) {
  const Words position_zero = Words().read(0, 7, 64, 0).add({0, 0, 0});
  expect_chunk_error(with_lists(position_zero, rpc_call(kXid)));
  expect_chunk_error(with_lists(Words{0, 0, 0}, Words(), 1));
  expect_chunk_error(with_lists(Words().read(44, 7, 64, 0).add({0, 0, 0}), Words(), 1));
  EXPECT_EQ(reads_and_writes(), 0u);
  // A chunk that belongs exactly between two segments of the Position-Zero chunk: 44 bytes, 8 of data, and a rest of nothing;
  // then with four bytes behind it.
  for (const uint32_t rest : {0u, 4u}) {
    Words lists = Words().read(0, 1, 44, 0).read(0, 2, rest, 0).read(44, 3, 8, 0).add({0, 0, 0});
    send(with_lists(lists, Words(), 1));
    finish_read(rpc_call(kXid, 1).add({8}).bytes());
    if (rest > 0) {
      finish_read(Words{0x9999'9999}.bytes());
    }
    finish_read(Words{5, 6}.bytes());
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    Words expected = rpc_call(kXid, 1).add({8, 5, 6});
    EXPECT_EQ(words_of(held), (rest > 0 ? expected.add({0x9999'9999}) : expected).words());
    answer(*id, rpc_reply(kXid));
    (void)sent();
    held.clear();
  }
  expect_healthy();
}

TEST(HostileLoopback, R9_AKeyOfAnotherConnectionOpensNothing) {
  // The same key in two chunks of a call is its own matter; that of another protection domain is refused by the client's host.
  for (const bool write : {false, true}) {
    Loopback loop({});
    std::vector<uint8_t> secret(64, 0x77);
    const auto region = loop.memory.register_region(verbs::ProtectionDomain(78), secret,
                                                    write ? verbs::RemoteAccess::kWrite : verbs::RemoteAccess::kRead);
    ASSERT_TRUE(region.ok());
    const uint64_t address = loop.memory.address_of(*region);
    const Words lists = write ? Words{0, 1, 1}.segment(region->value(), 64, address).add({0, 0})
                              : Words().read(44, region->value(), 64, address).add({0, 0, 0});
    const Words call = Words{1, 1, 1, 0}
                           .raw(lists.bytes())
                           .raw(write ? rpc_call(1, 2).add({64, 0, 0}).bytes() : rpc_call(1, 1).add({64}).bytes());
    ASSERT_TRUE(loop.client_qp.post_send({.payload = chain_of(loop.client_pool, call.bytes())}).ok());
    for (int i = 0; i < 8; ++i) {
      (void)loop.link.step(0);
      loop.server->on_completions(loop.now);
      (void)loop.serve_one();
      (void)loop.link.step(1);
    }
    loop.server->on_completions(loop.now);
    EXPECT_EQ(loop.link.stats().access_errors, 1u);
    EXPECT_TRUE(loop.server->failed());
    EXPECT_EQ(secret, std::vector<uint8_t>(64, 0x77));
    EXPECT_TRUE(loop.memory.invalidate(verbs::ProtectionDomain(78), *region));
    loop.finish();
  }
}

TEST(HostileLoopback, R10_PayloadsOfAnyLengthPassWithAndWithoutChunks) {
  for (uint32_t bytes = 1; bytes <= 9; ++bytes) {
    for (uint32_t chunks = 0; chunks < 8; ++chunks) {
      SCOPED_TRACE(bytes * 10 + chunks);
      Loopback loop({});
      BenchCall bench{.procedure = BenchProcedure::kEcho, .seed = bytes, .bytes = bytes};
      bench.read_chunk = (chunks & 1) != 0;
      bench.write_chunk = (chunks & 2) != 0;
      bench.long_call = (chunks & 4) != 0;
      ClientCall call;
      bench.prepare(loop.client_pool, call);
      ASSERT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
      loop.run();
      {
        const ClientReply reply = loop.take_reply();
        EXPECT_EQ(reply.status, CallStatus::kReplied);
        EXPECT_TRUE(bench.check(reply));
      }
      loop.finish();
    }
  }
}

TEST_F(HostileMessages, R11_AChunkWithoutSegmentsHasNoKeyToInvalidate) {
  thresholds.remote_invalidation = true;
  make();
  const std::pair<Words, std::optional<uint32_t>> cases[] = {
      {Words{0, 1, 0, 0, 0}, std::nullopt},
      {Words{0, 0, 1, 0}, std::nullopt},
      {Words{0, 1, 0, 1, 0, 0, 1, 0}, std::nullopt},
      {Words{0, 1, 0, 0, 1, 1}.segment(0x33, 100, 0), 0x33},
      {Words{0, 1, 0, 1, 1}.segment(0x44, 0, 0).add({0, 0}), 0x44},
  };
  for (const auto& [lists, key] : cases) {
    send(with_lists(lists, rpc_call(kXid)));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid));
    ASSERT_FALSE(qp->posted().empty());
    EXPECT_EQ(qp->posted().front().invalidate, key ? std::optional(verbs::Rkey(*key)) : std::nullopt);
    (void)sent();
    expect_idle();
  }
}

TEST_F(HostileMessages, R12_AReplyThatNobodyAskedForIsDropped) {
  options.reverse_credits = 4;
  make();
  expect_dropped(Words{kXid, 1, 99, 0, 0, 0, 0}.raw(rpc_reply(kXid).bytes()));
  EXPECT_EQ(stats().reverse_dropped, 1u);
  server->enable_reverse();
  ASSERT_TRUE(server->submit_reverse(now, chain_of(*pool, rpc_call(kXid).bytes())).ok());
  (void)sent();
  // Under another XID; a Call under ours; then the Reply, and the Reply again.
  send(Words{kXid + 1, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(kXid + 1).bytes()));
  EXPECT_EQ(server->reverse_in_flight(), 1u);
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(server->reverse_in_flight(), 1u);
  send(Words{kXid, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(kXid).bytes()));
  send(Words{kXid, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(kXid).bytes()));
  EXPECT_EQ(stats().reverse_dropped, 3u);
  ReverseOutcome outcome;
  EXPECT_TRUE(server->poll_reverse(outcome));
  outcome.message.clear();
  EXPECT_FALSE(server->poll_reverse(outcome));
  held.clear();
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(sent()[0], kXid);
  expect_healthy();
}

TEST_F(HostileMessages, R13_ErrorsOfAClientAreDroppedUnanswered) {
  const Words error{kXid, 1, 1, 4, 2, 0, 0};
  for (size_t bytes = 1; bytes <= error.size(); ++bytes) {
    expect_dropped(Words(error).cut(bytes));
  }
  for (const uint32_t word : kExtremes) {
    expect_dropped(Words{kXid, word, 1, 4, word, word, word});
  }
  EXPECT_EQ(stats().errors_in_chunk + stats().errors_in_version, 0u);
  expect_healthy();
}

TEST_F(HostileMessages, R14_AnXidInFlightTwiceWithOtherChunksIsTwoCalls) {
  send(with_lists(Words().read(44, 7, 8, 0).add({0, 0, 0}), rpc_call(kXid, 1).add({8})));
  send(with_lists(Words{0, 1, 1}.segment(0x11, 100, 0).add({0, 0}), echo()));
  send(with_lists(Words{0, 0, 1, 1}.segment(0x22, 4096, 0), rpc_call(kXid)));
  EXPECT_EQ(server->calls_in_flight(), 3u);
  const auto with_write = take();
  const auto with_reply_chunk = take();
  ASSERT_TRUE(with_write.has_value() && with_reply_chunk.has_value());
  // In the other order, each to its own chunks.
  answer(*with_reply_chunk, rpc_reply(kXid).zeros(2000));
  EXPECT_EQ(qp->posted()[1].rkey, verbs::Rkey(0x22));
  answer(*with_write, rpc_reply(kXid).add({4, 0xdddd'dddd}));
  EXPECT_EQ(qp->posted()[3].rkey, verbs::Rkey(0x11));
  finish_read(Words{5, 6}.bytes());
  const auto with_read = take();
  ASSERT_TRUE(with_read.has_value());
  EXPECT_EQ(words_of(held), rpc_call(kXid, 1).add({8, 5, 6}).words());
  held.clear();
  answer(*with_read, rpc_reply(kXid));
  qp->finish_all_sends();
  server->on_completions(now);
  answer(*with_write, rpc_reply(kXid));  // a second answer to a call that has one
  EXPECT_EQ(stats().late_replies, 1u);
  expect_healthy();
}

// A backend that answers with more than any chunk holds, or than a reply may have.
TEST_F(HostileMessages, B3_RepliesLongerThanTheirChunksEndAsErrorsOfTheirCall) {
  options.reply_bytes_max = 8000;
  make();
  const Words chunks = Words{0, 1, 1}.segment(0x11, 100, 0).add({0, 1, 1}).segment(0x22, 0x7fff'ffff, 0);
  const Words replies[] = {
      rpc_reply(kXid).add({104}).zeros(104),        // the Write chunk is too short
      rpc_reply(kXid).zeros(8000),                  // longer than replies may be
      rpc_reply(kXid).add({0xffff'ffff}).zeros(8),  // says more than it brings
      Words{kXid, 1, 0}.cut(8),                     // and less than a reply
      rpc_reply(kXid + 1),                          // of somebody else
  };
  for (const Words& reply : replies) {
    send(with_lists(chunks, echo()));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, reply);
    const std::vector<uint32_t> words = sent();
    ASSERT_GE(words.size(), 5u);
    EXPECT_EQ(words[0], kXid);
    EXPECT_LE(words.size() * 4, thresholds.send_bytes);
    expect_idle();
  }
  EXPECT_GE(stats().errors_out_chunk, 4u);
  EXPECT_EQ(reads_and_writes(), 0u);
  expect_healthy();
}

// svcrdma pulled a reply up into a buffer of its own size when the client offered no chunk, however long the reply was. Here
// nothing that is longer than the threshold is put into a SEND, in as many pieces as it may come.
TEST_F(HostileMessages, CVE_2026_89530_ALongReplyWithoutAnyChunkIsNeverPulledUp) {
  for (const size_t piece : {1u, 7u, 60u, 2048u}) {
    make(128, 32, 4096);
    for (const uint32_t more : {996u, 1000u, 1500u, 3000u}) {  // behind 24 bytes of reply header; 972 would just fit
      send(inline_call(kXid, rpc_call(kXid)));
      const auto id = take();
      ASSERT_TRUE(id.has_value());
      held.clear();
      answer(*id, rpc_reply(kXid).zeros(more), piece);
      EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
      expect_idle();
    }
    send(inline_call(kXid, rpc_call(kXid)));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid).zeros(972), piece);
    EXPECT_EQ(sent().size() * 4, 1024u);
  }
}

class HostileReplies : public ClientFixture {};

// xprtrdma looked behind the end of a short reply, and a flood of them drained its receives: every length is met by memory that
// ends with it, and the receive is posted again each time.
TEST_F(HostileReplies, CVE_2026_72466_ShortRepliesAreNotLookedBehindAndTakeNoReceiveAway) {
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  const std::vector<uint32_t> words = submit({.message = echo_call(), .writes = {&write, 1}});
  const Words good = Words({words[0], 1, 8, 0, 0, 1, 1})
                         .segment(words[7], 4, (uint64_t{words[9]} << 32) | words[10])
                         .add({0, 0})
                         .raw(rpc_reply(words[0]).add({4}).bytes());
  for (uint32_t round = 0; round < 3; ++round) {
    for (size_t bytes = 1; bytes < 64; ++bytes) {  // header and the first two words of the RPC message: 60
      if (bytes >= 60) {
        continue;
      }
      HeapBufferPool tight(1, static_cast<uint32_t>(bytes), 8);
      ASSERT_TRUE(qp->deliver(chain_of(tight, Bytes(good.bytes()).first(bytes), bytes)));
      client->on_completions(now);
      EXPECT_EQ(qp->receives(), options.credits_wanted) << bytes;
      EXPECT_EQ(outcome(), std::nullopt) << bytes;
      EXPECT_EQ(client->calls_in_flight(), 1u) << bytes;
      ASSERT_FALSE(client->failed()) << bytes;
    }
  }
  receive(good);
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.write_bytes[0], 4u);
}

// xprtrdma freed a request whose SEND the adapter was still reading, since its reply had come. Here the SEND's Buffers are the
// queue pair's until it has completed them, and what comes after takes others.
TEST_F(HostileReplies, CVE_2026_72473_ARequestStaysUntilItsSendHasCompleted) {
  ASSERT_TRUE(try_submit({.user_data = 1, .message = chain_of(pool, rpc_call(0).zeros(600).bytes(), 200)}).ok());
  const uint32_t xid = client->last_xid();
  const std::vector<uint8_t> before = bytes_of(qp->posted().front().payload);
  receive(inline_reply(xid));  // overtakes the acknowledgement
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  reply.message.clear();
  EXPECT_EQ(client->calls_in_flight(), 0u);
  const uint32_t held = pool.in_use();
  EXPECT_GT(held, 0u);
  for (uint32_t i = 0; i < 4; ++i) {  // the slot and the pool are used again
    ASSERT_TRUE(try_submit({.message = chain_of(pool, rpc_call(0).add({~i}).bytes())}).ok());
    EXPECT_EQ(bytes_of(qp->posted().front().payload), before);
  }
  qp->finish_all_sends();
  client->on_completions(now);
  EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace cw::rpcrdma
