// What the server side does with what a client sends: the rows R of tests/requirements/hostile.md, CVE shapes, and how calls
// are put together.
#include <numeric>

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

using ServerReceive = ServerFixture;

std::vector<uint8_t> counting(size_t count, uint8_t first = 1) {
  std::vector<uint8_t> raw(count);
  std::iota(raw.begin(), raw.end(), first);
  return raw;
}

// Proves RPCRDMA-3.2-2.
TEST_F(ServerReceive, AnInlineCallIsHandedOverWithoutACopy) {
  const Words message = inline_call(kXid, rpc_call(kXid, 1).add({4, 0x0102'0304}));
  Chain chain = chain_of(*pool, message.bytes());
  const uint8_t* raw = chain.head()->data;
  ASSERT_TRUE(qp->deliver(std::move(chain)));
  server->on_completions(now);
  Call call;
  ASSERT_TRUE(server->poll_call(now, call));
  EXPECT_EQ(call.message.head()->data, raw + 28);
  EXPECT_EQ(words_of(call.message), rpc_call(kXid, 1).add({4, 0x0102'0304}).words());
  EXPECT_EQ(call.context->header.xid, kXid);
  EXPECT_EQ(call.context->header.procedure, 1u);
  EXPECT_EQ(call.received, now);
  EXPECT_EQ(server->calls_in_flight(), 1u);
  EXPECT_EQ(stats().credits_in_use, 1u);
  EXPECT_EQ(qp->receives(), options.credits - 1);
  held = std::move(call.message);
}

// Proves RPCRDMA-4.5-2: R1: every length below 28 is dropped unread.
TEST_F(ServerReceive, MessagesUnderTheSmallestHeaderAreDropped) {
  for (size_t bytes = 0; bytes < 28; ++bytes) {
    SCOPED_TRACE(bytes);
    expect_dropped(Words{kXid, 2, 1, 9, 0, 0, 0}.cut(bytes));
  }
  EXPECT_EQ(stats().short_messages, 28u);
}

// R1 of tests/requirements/hostile.md at any packet size: the header may lie in pieces.
TEST_F(ServerReceive, AHeaderInPiecesIsReadAllTheSame) {
  Words message = Words{kXid, 1, 8, 0, 0, 1, 3};
  message.segment(1, 10, 100).segment(2, 20, 200).segment(3, 30, 300).add({0, 0}).raw(rpc_call(kXid).bytes());
  for (const size_t piece : {4u, 12u, 16u, 20u, 28u, 30u, 64u, 256u}) {
    SCOPED_TRACE(piece);
    send(message, piece);
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    EXPECT_EQ(words_of(held), rpc_call(kXid).words());
    answer(*id, rpc_reply(kXid));
    EXPECT_EQ(sent().size(), 4u + 1 + 1 + 1 + 12 + 1 + 1 + 6);
    held.clear();
    expect_idle();
  }
}

// Proves RPCRDMA-4.5.1-1, RPCRDMA-4.5.1-2, RPCRDMA-4.5.1-3, RPCRDMA-4.5-7, RPCRDMA-4.1.2-15: R2: the bad version is echoed, the
// range is 1..1.
TEST_F(ServerReceive, OtherVersionsAreAnsweredWithTheRange) {
  for (const uint32_t version : {0u, 2u, 0xffff'ffffu}) {
    send(Words{kXid, version, 1, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
    EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, version, options.credits, 4, 1, 1, 1}));
    expect_idle();
  }
  EXPECT_EQ(stats().errors_out_version, 3u);
  // RPCRDMA-4.5.1-2: before anything of the body is looked at.
  send(Words{kXid, 2, 1, 77, 9, 9, 9});
  EXPECT_EQ(sent()[4], 1u);
}

// Proves RPCRDMA-3.3.1-8, RPCRDMA-3.3.1-12: rPCRDMA-3.3.1-8, R3, thread 2: the grant is ours whatever is asked for.
TEST_F(ServerReceive, TheGrantIsTheReceivesPostedWhateverIsAskedFor) {
  for (const uint32_t asked : {0u, 1u, 1000u, 0xffff'ffffu}) {
    send(Words{kXid, 1, asked, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
    answer(*take(), rpc_reply(kXid));
    EXPECT_EQ(sent()[2], 8u);
  }
  held.clear();
  expect_idle();
}

// Proves RPCRDMA-4.6.1-2, RPCRDMA-4.6.2-2, RPCRDMA-4.5.2-2, RPCRDMA-4.1.2-8, RPCRDMA-4.1.2-12, RPCRDMA-7.1-1: rPCRDMA-4.6.2-2,
// RPCRDMA-4.5.2-2, R4
TEST_F(ServerReceive, ReservedAndUnknownProceduresGetTheirDue) {
  expect_chunk_error(Words{kXid, 1, 1, 2, 0, 0, 0, 0, 0});  // MSGP
  expect_chunk_error(Words{kXid, 1, 1, 5, 0, 0, 0});
  expect_chunk_error(Words{kXid, 1, 1, 0xffff'ffff, 0, 0, 0});
  expect_dropped(Words{kXid, 1, 1, 3, 0, 0, 0});  // DONE
  EXPECT_EQ(messages_in(MessageKind::kOther), 4u);
}

// Proves RPCRDMA-4.2.4-13, RPCRDMA-4.2.4-14: rPCRDMA-4.2.4-14, R13: before the version and everything else.
TEST_F(ServerReceive, ErrorsOfAClientAreDropped) {
  expect_dropped(Words{kXid, 1, 1, 4, 2, 0, 0});
  expect_dropped(Words{kXid, 9, 1, 4, 1, 1, 1});
  expect_dropped(Words{kXid, 1, 1, 4, 77, 0, 0});
  EXPECT_EQ(messages_in(MessageKind::kError), 3u);
}

// Proves RPCRDMA-2.2.2-1: R12, BIDI-4.1-10: a Reply that nobody waits for costs nothing but its message.
TEST_F(ServerReceive, RepliesOfTheReverseDirectionAreDropped) {
  expect_dropped(inline_call(kXid, rpc_reply(kXid)));
  expect_dropped(inline_call(kXid, rpc_reply(kXid + 1)));
  EXPECT_EQ(stats().reverse_dropped, 2u);
  EXPECT_EQ(stats().xid_mismatch, 0u);
}

// Proves RPCRDMA-4.5.2-4, RPCRDMA-4.5.2-5.
TEST_F(ServerReceive, AnXidThatDiffersFromTheHeadersIsAnError) {
  expect_chunk_error(inline_call(kXid, rpc_call(kXid + 1)));
  expect_chunk_error(inline_call(kXid, Words{}));
  expect_chunk_error(inline_call(kXid, Words{kXid}.cut(3)));
  EXPECT_EQ(stats().xid_mismatch, 3u);
}

// Proves RPCRDMA-4.5.2-3, RPCRDMA-4.2.4-10. R8 of tests/requirements/hostile.md; RPCRDMA-4.2.4-8
TEST_F(ServerReceive, NomsgNeedsAPositionZeroChunk) {
  expect_chunk_error(Words{kXid, 1, 1, 1, 0, 0, 0});
  expect_chunk_error(Words{kXid, 1, 1, 1}.read(4, 1, 100, 0).add({0, 0, 0}));
  // Only a Reply chunk: a Reply of the reverse direction by BIDI-4.1-13, to a Call that nobody sent.
  expect_chunk_error(Words{kXid, 1, 1, 1, 0, 0, 1, 1}.segment(7, 100, 0));
  EXPECT_EQ(malformed(HeaderError::kPositionMixed), 3u);
}

// Position Zero beside an inline body (docs/architecture.md); R8 of tests/requirements/hostile.md
TEST_F(ServerReceive, MsgWithAPositionZeroChunkIsAnError) {
  expect_chunk_error(Words{kXid, 1, 1, 0}.read(0, 1, 100, 0).add({0, 0, 0}).raw(rpc_call(kXid).bytes()));
  EXPECT_EQ(malformed(HeaderError::kPositionMixed), 1u);
}

// Proves RPCRDMA-4.3-1, RPCRDMA-4.5-4: presence words
TEST_F(ServerReceive, PresenceWordsAreZeroOrOne) {
  expect_chunk_error(Words{kXid, 1, 1, 0, 2, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
  expect_chunk_error(Words{kXid, 1, 1, 0, 0, 5, 0, 0}.raw(rpc_call(kXid).bytes()));
  expect_chunk_error(Words{kXid, 1, 1, 0, 0, 0, 0xffff'ffff}.raw(rpc_call(kXid).bytes()));
  EXPECT_EQ(malformed(HeaderError::kBadDiscriminant), 3u);
}

// Proves RPCRDMA-3.4.5-10, RPCRDMA-4.5-4: R5 and CVE-2026-89526: a Position is compared with what is there, overlaps are
// refused.
TEST_F(ServerReceive, ReadListsThatDoNotFitTheStreamAreRefused) {
  const Words payload = rpc_call(kXid, 1).add({8});  // 44 bytes inline
  const auto with = [&](Words lists) { return lists.add({0, 0, 0}).raw(payload.bytes()); };
  expect_chunk_error(with(Words{kXid, 1, 1, 0}.read(42, 1, 8, 0)));
  EXPECT_EQ(malformed(HeaderError::kPositionAlignment), 1u);
  expect_chunk_error(with(Words{kXid, 1, 1, 0}.read(48, 1, 8, 0)));
  expect_chunk_error(with(Words{kXid, 1, 1, 0}.read(0xffff'fffc, 1, 8, 0)));
  expect_chunk_error(with(Words{kXid, 1, 1, 0}.read(40, 1, 8, 0).read(44, 2, 8, 0)));
  EXPECT_EQ(malformed(HeaderError::kPositionBeyond), 3u);
  expect_chunk_error(with(Words{kXid, 1, 1, 0}.read(44, 1, 8, 0xffff'ffff'ffff'fff9)));
  EXPECT_EQ(malformed(HeaderError::kOffsetWraps), 1u);
}

// Proves RPCRDMA-3.4.4-3, RPCRDMA-8.1.4-1: R5 and CVE-2026-89528, CVE-2026-89529: each segment or their sum over the budget;
// nothing is read, nothing set aside.
TEST_F(ServerReceive, ReadsOverTheBudgetAreRefusedBeforeAnythingIsRead) {
  options.limits.read_bytes_max = 1 << 20;
  options.call_bytes_max = 1 << 20;
  make();
  const Words payload = rpc_call(kXid, 1).add({8});
  expect_chunk_error(Words{kXid, 1, 1, 0}.read(44, 1, 0xffff'ffff, 0).add({0, 0, 0}).raw(payload.bytes()));
  expect_chunk_error(Words{kXid, 1, 1, 0}.read(44, 1, 1 << 20, 0).read(44, 1, 1, 0).add({0, 0, 0}).raw(payload.bytes()));
  // The data alone are allowed, with the call around them they are too long.
  expect_chunk_error(Words{kXid, 1, 1, 0}.read(44, 1, 1 << 20, 0).add({0, 0, 0}).raw(payload.bytes()));
  EXPECT_EQ(malformed(HeaderError::kReadTooLong), 3u);
}

// Proves RPCRDMA-8.1.4-2: R5: counts over the caps.
TEST_F(ServerReceive, TooManySegmentsAreRefused) {
  Words message{kXid, 1, 1, 0};
  for (uint32_t i = 0; i <= kReadSegmentsMax; ++i) {
    message.read(40, i, 4, 0);
  }
  Chain chain = chain_of(*pool, message.add({0, 0, 0}).raw(rpc_call(kXid).bytes()).bytes(), 256);
  ASSERT_TRUE(qp->deliver(std::move(chain)));
  server->on_completions(now);
  EXPECT_EQ(sent()[4], 2u);
  EXPECT_EQ(malformed(HeaderError::kTooManyReadSegments), 1u);
  Words writes{kXid, 1, 1, 0, 0};
  for (uint32_t i = 0; i <= kWriteChunksMax; ++i) {
    writes.add({1, 0});
  }
  expect_chunk_error(writes.add({0, 0}).raw(rpc_call(kXid).bytes()));
  EXPECT_EQ(malformed(HeaderError::kTooManyWriteChunks), 1u);
}

// They are the connection's: fewer than the defaults allow are too many here.
TEST_F(ServerReceive, TheCapsAreThoseOfTheOptions) {
  options.limits.read_segments_max = 2;
  options.limits.write_chunks_max = 1;
  options.limits.plain_segments_max = 3;
  make();
  const std::vector<uint8_t> payload = rpc_call(kXid, 1).add({8}).bytes();
  const auto reads = [&](uint32_t count) {
    Words message{kXid, 1, 1, 0};
    for (uint32_t i = 0; i < count; ++i) {
      message.read(44, i, 4, 0);
    }
    return message.add({0, 0, 0}).raw(payload);
  };
  expect_chunk_error(reads(3));
  EXPECT_EQ(malformed(HeaderError::kTooManyReadSegments), 1u);
  expect_chunk_error(Words{kXid, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0}.raw(payload));
  EXPECT_EQ(malformed(HeaderError::kTooManyWriteChunks), 1u);
  Words reply_chunk{kXid, 1, 1, 0, 0, 0, 1, 4};
  for (uint32_t i = 0; i < 4; ++i) {
    reply_chunk.segment(i, 4, 0);
  }
  expect_chunk_error(reply_chunk.raw(payload));
  EXPECT_EQ(malformed(HeaderError::kTooManySegments), 1u);
  send(reads(2));
  EXPECT_EQ(qp->posted().size(), 2u);
}

// Proves RPCRDMA-8.1.4-2, RPCRDMA-4.1.2-4, RPCRDMA-4.5-4: R6, CVE-2022-49356, CVE-2024-53151: a segment count that overflows
// when multiplied, or an array cut short.
TEST_F(ServerReceive, SegmentCountsThatLieAreRefused) {
  for (const uint32_t count : {65u, 0x1000'0000u, 0x1000'0001u, 0xffff'ffffu}) {
    expect_chunk_error(Words{kXid, 1, 1, 0, 0, 1, count}.segment(1, 1, 1).add({0, 0}).raw(rpc_call(kXid).bytes()));
  }
  EXPECT_EQ(malformed(HeaderError::kTooManySegments), 4u);
  expect_chunk_error(Words{kXid, 1, 1, 0, 0, 1, 4}.segment(1, 1, 1).segment(1, 1, 1));
  expect_chunk_error(Words{kXid, 1, 1, 0, 0, 0, 1});
  EXPECT_EQ(malformed(HeaderError::kTruncated), 2u);
}

// Proves RPCRDMA-4.5.2-1, RPCRDMA-4.5-4, RPCRDMA-4.5-6, RPCRDMA-4.5-7, RPCRDMA-4.5-8, RPCRDMA-4.5-9, RPCRDMA-4.2.4-4,
// RPCRDMA-4.1.2-3: the whole header cut at every byte: one answer each, and none of them a call.
TEST_F(ServerReceive, AHeaderCutAnywhereIsAnError) {
  Words whole = Words{kXid, 1, 8, 0}.read(40, 1, 4, 0).add({0, 1, 1}).segment(2, 10, 0).add({0, 1, 1}).segment(3, 10, 0);
  for (size_t bytes = 28; bytes < whole.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    Words cut = whole;
    expect_chunk_error(cut.cut(bytes));
  }
}

// Proves RPCRDMA-4.3.2.3-4, RPCRDMA-3.4.6-9: CVE-2026-89532, CVE-2026-93228, R11: chunks without segments, with invalidation
// agreed.
TEST_F(ServerReceive, ChunksWithoutSegmentsHaveNoHandleToInvalidate) {
  thresholds.remote_invalidation = true;
  make();
  send(Words{kXid, 1, 1, 0, 0, 1, 0, 0, 1, 0}.raw(rpc_call(kXid).bytes()));
  answer(*take(), rpc_reply(kXid));
  ASSERT_EQ(qp->posted().size(), 1u);
  EXPECT_FALSE(qp->posted().front().invalidate.has_value());
  // RPCRDMA-4.3.2.3-4: the empty chunk is in its place, and so is the Reply chunk.
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 0, 0, 1, 0, 0, 1, 0, kXid, 1, 0, 0, 0, 0}));
  held.clear();
  expect_idle();
}

// Proves RPCRDMA-3.4.5-1, RPCRDMA-3.4.5-3, RPCRDMA-3.4.5-8, RPCRDMA-3.4.5-9, RPCRDMA-3.4.5.1-1, RPCRDMA-3.5.2-3, RPCRDMA-3.4-1,
// RPCRDMA-4.4.3-1: segments of one Position are concatenated in list order.
TEST_F(ServerReceive, ReadSegmentsAreFetchedAndSplicedIn) {
  send(Words{kXid, 1, 1, 0}
           .read(44, 0x11, 5, 0x1000)
           .read(44, 0x22, 6, 0x2000)
           .add({0, 0, 0})
           .raw(rpc_call(kXid, 1).add({11, 0xfeed'beef}).bytes()));
  EXPECT_FALSE(take().has_value());
  ASSERT_EQ(qp->posted().size(), 2u);
  EXPECT_EQ(qp->posted()[0].rkey, verbs::Rkey(0x11));
  EXPECT_EQ(qp->posted()[0].remote_address, 0x1000u);
  EXPECT_EQ(qp->posted()[0].length, 5u);
  EXPECT_EQ(qp->posted()[1].rkey, verbs::Rkey(0x22));
  finish_read(counting(5));
  EXPECT_FALSE(take().has_value());
  finish_read(counting(6, 6));
  ASSERT_TRUE(take().has_value());
  const std::vector<uint8_t> data = counting(11);
  EXPECT_EQ(bytes_of(held), rpc_call(kXid, 1).add({11}).raw(data).zeros(1).add({0xfeed'beef}).bytes());
  const ChunkStats& reads = stats().chunks[static_cast<size_t>(ChunkKind::kRead)];
  EXPECT_EQ(reads.chunks, 1u);
  EXPECT_EQ(reads.segments, 2u);
  EXPECT_EQ(reads.bytes, 11u);
}

// Proves RPCRDMA-3.4.5.2-3, RPCRDMA-3.4.5.2-6, RPCRDMA-1-1, RPCRDMA-A.2-2, RPCRDMA-4.3.1-4: R10: chunks with and without their
// roundup rebuild the same stream.
TEST_F(ServerReceive, RoundupMayBeInTheChunkOrNot) {
  for (const uint32_t with_pad : {0u, 1u}) {
    const uint32_t length = with_pad != 0 ? 8 : 6;
    send(Words{kXid, 1, 1, 0}.read(44, 1, length, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({6, 7}).bytes()));
    std::vector<uint8_t> data = counting(6);
    data.resize(length);
    finish_read(data);
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    EXPECT_EQ(bytes_of(held), rpc_call(kXid, 1).add({6}).raw(counting(6)).zeros(2).add({7}).bytes());
    answer(*id, rpc_reply(kXid));
    EXPECT_EQ(sent().size(), 13u);
  }
}

// Proves RPCRDMA-3.5.3-4, RPCRDMA-3.5.3-14, RPCRDMA-4.2.4-2, RPCRDMA-4.3.1-3: rPCRDMA-3.5.3-14, CVE-2026-89533: Position Zero in
// segments, an argument spliced in on a segment's very boundary, and stray bytes behind the header ignored.
TEST_F(ServerReceive, LongCallsAreRebuiltFromPositionZeroAndOtherChunks) {
  const Words stream = rpc_call(kXid, 3).add({0x1234'5678, 10});
  send(Words{kXid, 1, 1, 1}.read(0, 1, 48, 0).read(0, 2, 4, 0).read(48, 3, 10, 0).add({0, 0, 0, 0xdead, 0xdead}));
  ASSERT_EQ(qp->posted().size(), 3u);
  finish_read(stream.bytes());
  finish_read(Words{0x4242'4242}.bytes());
  finish_read(counting(10));
  ASSERT_TRUE(take().has_value());
  EXPECT_EQ(bytes_of(held), Words(stream).raw(counting(10)).zeros(2).add({0x4242'4242}).bytes());
}

// Proves RPCRDMA-4.5.2-4, RPCRDMA-3.2-2.
TEST_F(ServerReceive, ALongCallsXidIsComparedToo) {
  send(Words{kXid, 1, 1, 1}.read(0, 1, 40, 0).add({0, 0, 0}));
  qp->finish(chain_of(*pool, rpc_call(kXid + 1).bytes()));
  server->on_completions(now);
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
  EXPECT_EQ(stats().xid_mismatch, 1u);
  expect_idle();
}

// Proves RPCRDMA-3.4.3-5: R5: segments of length 0 are legal and not worth an RDMA Read.
TEST_F(ServerReceive, EmptySegmentsAreNotRead) {
  send(Words{kXid, 1, 1, 0}
           .read(44, 1, 0, 0)
           .read(44, 2, 4, 0)
           .read(44, 3, 0, 0)
           .add({0, 0, 0})
           .raw(rpc_call(kXid, 1).add({4}).bytes()));
  ASSERT_EQ(qp->posted().size(), 1u);
  finish_read(counting(4));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(held.bytes(), 48u);
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(sent().size(), 13u);
  // Nothing but empty ones: a call at once; as Position Zero a stream without an XID.
  send(Words{kXid, 1, 1, 0}.read(40, 1, 0, 0).add({0, 0, 0}).raw(rpc_call(kXid).bytes()));
  answer(*take(), rpc_reply(kXid));
  EXPECT_EQ(sent().size(), 13u);
  held.clear();
  expect_chunk_error(Words{kXid, 1, 1, 1}.read(0, 1, 0, 0).add({0, 0, 0}));
}

// The same while the window is full: what is empty does not confuse the order.
TEST_F(ServerReceive, EmptySegmentsAmongReadsThatWait) {
  options.reads_in_flight_max = 1;
  make();
  send(Words{kXid, 1, 1, 0}
           .read(44, 1, 0, 0)
           .read(44, 2, 4, 0)
           .read(44, 3, 0, 0)
           .read(44, 4, 4, 0)
           .read(44, 5, 0, 0)
           .add({0, 0, 0})
           .raw(rpc_call(kXid, 1).add({8}).bytes()));
  finish_read(counting(4));
  EXPECT_FALSE(server->failed());
  finish_read(counting(4, 5));
  ASSERT_TRUE(take().has_value());
  EXPECT_EQ(bytes_of(held), rpc_call(kXid, 1).add({8}).raw(counting(8)).bytes());
}

// Proves RPCRDMA-3.3.1-19: reads of one connection are bounded and posted in order; calls share the window.
TEST_F(ServerReceive, ReadsInFlightAreBounded) {
  options.reads_in_flight_max = 3;
  make();
  Words message{kXid, 1, 1, 0};
  for (uint32_t i = 0; i < 5; ++i) {
    message.read(44, i, 4, 0);
  }
  send(message.add({0, 0, 0}).raw(rpc_call(kXid, 1).add({20}).bytes()));
  EXPECT_EQ(qp->posted().size(), 3u);
  finish_read(counting(4));
  EXPECT_EQ(qp->posted().size(), 3u);
  EXPECT_EQ(qp->posted().back().rkey, verbs::Rkey(3));
  for (int i = 0; i < 4; ++i) {
    finish_read(counting(4));
  }
  EXPECT_TRUE(take().has_value());
  EXPECT_EQ(held.bytes(), 64u);
}

// A SEND leaves the queue pair behind the Reads that were posted before it: replies do not wait for megabytes of them.
TEST_F(ServerReceive, BytesOfReadsInFlightAreBounded) {
  options.read_bytes_in_flight_max = 10;
  make();
  Words message{kXid, 1, 1, 0};
  for (uint32_t i = 0; i < 4; ++i) {
    message.read(44, i, i == 2 ? 12 : 4, 0);
  }
  send(message.add({0, 0, 0}).raw(rpc_call(kXid, 1).add({24}).bytes()));
  EXPECT_EQ(qp->posted().size(), 2u) << "the third would make it 20";
  finish_read(counting(4));
  EXPECT_EQ(qp->posted().size(), 1u);
  finish_read(counting(4));
  ASSERT_EQ(qp->posted().size(), 1u) << "a longer one goes alone";
  EXPECT_EQ(qp->posted().back().rkey, verbs::Rkey(2));
  finish_read(counting(12));
  EXPECT_EQ(qp->posted().back().rkey, verbs::Rkey(3));
  finish_read(counting(4));
  EXPECT_TRUE(take().has_value());
}

// A call without chunks does not wait for one with.
TEST_F(ServerReceive, CallsWithoutChunksOvertakeThoseThatAreRead) {
  send(Words{kXid, 1, 1, 0}.read(44, 1, 4, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({4}).bytes()));
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(words_of(held)[0], kXid + 1);
  EXPECT_FALSE(take().has_value());
  finish_read(counting(4));
  EXPECT_TRUE(take().has_value());
  EXPECT_EQ(words_of(held)[0], kXid);
}

// R9 of tests/requirements/hostile.md: the same handle twice is the client's business.
TEST_F(ServerReceive, OneHandleMayServeTwoChunks) {
  send(Words{kXid, 1, 1, 0}
           .read(44, 9, 4, 0)
           .add({0, 1, 1})
           .segment(9, 100, 4096)
           .add({0, 0})
           .raw(rpc_call(kXid, 1).add({4}).bytes()));
  finish_read(counting(4));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid).add({4, 0x0102'0304}));
  EXPECT_EQ(qp->posted().front().kind, test::WorkKind::kWrite);
}

// R14 of tests/requirements/hostile.md: an XID that is in flight already is another call all the same; each gets its own
// answer.
TEST_F(ServerReceive, TheSameXidTwiceIsTwoCalls) {
  send(inline_call(kXid, rpc_call(kXid)));
  send(Words{kXid, 1, 1, 0, 0, 0, 1, 1}.segment(5, 4096, 0).raw(rpc_call(kXid).bytes()));
  const auto first = take();
  const auto second = take();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(*first == *second);
  answer(*second, rpc_reply(kXid));
  answer(*first, rpc_reply(kXid));
  EXPECT_EQ(sent().size(), 7u + 1 + 4 + 6);
  EXPECT_EQ(sent().size(), 13u);
}

// Proves RPCRDMA-3.3.1-5: a transport that lets a client exceed its grant does not help it.
TEST_F(ServerReceive, MoreCallsThanGrantedFailTheConnection) {
  options.credits = 2;
  make();
  qp->post_receives(4);  // that are not for calls
  send(inline_call(kXid, rpc_call(kXid)));
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  EXPECT_FALSE(server->failed());
  send(inline_call(kXid + 2, rpc_call(kXid + 2)));
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(stats().credit_violations, 1u);
  EXPECT_EQ(stats().credits_in_use, 0u);
}

TEST_F(ServerReceive, ARdmaErrorWaitsForItsCreditLikeAReply) {
  options.credits = 1;
  make();
  qp->post_receives(1);
  send(inline_call(kXid, rpc_call(kXid)));
  send(Words{kXid + 1, 1, 1, 99, 0, 0, 0});
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(stats().credit_violations, 1u);
}

// Slots are shared by the connections of a core: messages wait, in order, and none is lost.
TEST_F(ServerReceive, CallsWaitForASlotInOrder) {
  make(128, 2);
  for (uint32_t i = 0; i < 6; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i)));
  }
  EXPECT_EQ(server->calls_in_flight(), 6u);
  EXPECT_EQ(stats().credits_in_use, 6u);
  EXPECT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
  for (uint32_t i = 0; i < 6; ++i) {
    const auto id = take();
    ASSERT_TRUE(id.has_value()) << i;
    EXPECT_EQ(words_of(held)[0], kXid + i);
    answer(*id, rpc_reply(kXid + i));
    EXPECT_EQ(sent()[0], kXid + i);
  }
  held.clear();
  expect_idle();
}

// A slot that another connection gives back is found by the retry.
TEST_F(ServerReceive, ASlotFreedByAnotherConnectionIsFoundOnTheDeadline) {
  make(128, 1);
  test::FakeQueuePair other_qp;
  auto other = std::make_unique<ServerEndpoint>(*shared, other_qp, options, thresholds);
  other->start();
  ASSERT_TRUE(other_qp.deliver(chain_of(*pool, inline_call(5, rpc_call(5)).bytes())));
  other->on_completions(now);
  send(inline_call(kXid, rpc_call(kXid)));
  EXPECT_FALSE(take().has_value());
  other.reset();
  now = server->next_deadline();
  server->on_deadline(now);
  EXPECT_TRUE(take().has_value());
}

// Proves RPCRDMA-4.5.3-5: anything that fails takes the connection, and with it every call.
TEST_F(ServerReceive, AFailedReadFailsTheConnection) {
  send(Words{kXid, 1, 1, 0}.read(44, 1, 4, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({4}).bytes()));
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  qp->break_with(verbs::WcStatus::kRemoteAccessError);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(server->calls_in_flight(), 0u);
  EXPECT_TRUE(server->next_deadline().is_never());
  // The answer that comes afterwards is dropped silently.
  answer(*id, rpc_reply(kXid + 1));
  EXPECT_EQ(stats().late_replies, 1u);
  EXPECT_FALSE(take().has_value());
}

TEST_F(ServerReceive, AReadOfTheWrongLengthFailsTheConnection) {
  send(Words{kXid, 1, 1, 0}.read(44, 1, 4, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({4}).bytes()));
  qp->finish(chain_of(*pool, counting(3)));
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
}

TEST_F(ServerReceive, AMessageLongerThanItsReceiveFailsTheConnection) {
  qp->complete_with({.status = verbs::WcStatus::kLocalLengthError, .opcode = verbs::WcOpcode::kReceive, .payload = {}});
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
}

TEST_F(ServerReceive, AnImmediateIsIgnoredAndItsReceiveGivenBack) {
  qp->complete_with({.opcode = verbs::WcOpcode::kReceiveRdmaWithImmediate, .payload = {}, .immediate = 5});
  server->on_completions(now);
  EXPECT_FALSE(server->failed());
  EXPECT_EQ(messages_in(MessageKind::kOther), 1u);
}

// A pad needs a Buffer when what is before it may not be written; without one the call waits.
TEST_F(ServerReceive, ACallWaitsForTheBuffersThatItsStreamNeeds) {
  make(128, 32, 4, 0);
  send(Words{kXid, 1, 1, 0}.read(44, 1, 5, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({5, 6}).bytes()));
  // The inline part lies in one Buffer and has to be cut, but there is no view.
  finish_read(counting(5));
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(stats().no_buffer, 1u);
  EXPECT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
  now = server->next_deadline();
  server->on_deadline(now);
  EXPECT_EQ(stats().no_buffer, 2u);
  // Still nothing: the wait has an end, and with it the connection.
  now = now + options.wait_timeout;
  server->on_deadline(now);
  EXPECT_EQ(server->failure(), EndpointFailure::kStarved);
  EXPECT_EQ(stats().wait_timeouts, 1u);
}

// Proves RPCRDMA-4.5.4-3.
TEST_F(ServerReceive, ABackendThatStaysSilentCostsTheConnection) {
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  const Instant first = now;
  now = now + Duration::seconds(60);
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  EXPECT_EQ(server->next_deadline(), first + options.call_timeout);
  held.clear();
  ASSERT_TRUE(take().has_value());
  answer(*id, rpc_reply(kXid));
  qp->finish_all_sends();
  EXPECT_EQ(server->next_deadline(), now + options.call_timeout);
  server->on_deadline(first + options.call_timeout);
  EXPECT_FALSE(server->failed());
  server->on_deadline(now + options.call_timeout);
  EXPECT_EQ(server->failure(), EndpointFailure::kCallTimeout);
  EXPECT_EQ(stats().call_timeouts, 1u);
  qp->finish_all_sends();
}

TEST_F(ServerReceive, GaugesFollowEveryEnd) {
  EXPECT_EQ(stats().credits_granted, 8u);
  send(inline_call(kXid, rpc_call(kXid)));
  send(inline_call(kXid + 1, rpc_call(kXid + 1)));
  EXPECT_EQ(stats().credits_in_use, 2u);
  server->fail();
  EXPECT_EQ(stats().credits_granted, 0u);
  EXPECT_EQ(stats().credits_in_use, 0u);
  server->fail();
  EXPECT_EQ(stats().credits_granted, 0u);
}

}  // namespace
}  // namespace cw::rpcrdma
