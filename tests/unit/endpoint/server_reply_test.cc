// How the server side answers: what is posted, in which order, and what happens when there is no room for it.
#include <numeric>

#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/ulb/procedures.h"
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

using test::WorkKind;

class ServerReply : public ServerFixture {
 protected:
  // A SOURCE call (its binding knows the reply) with the given lists.
  CallId call(const Words& lists, uint32_t xid = kXid) {
    Words message{xid, 1, 16, 0};
    send(message.raw(lists.bytes()).raw(rpc_call(xid, 2).add({0, 0, 0}).bytes()));
    const auto id = take();
    EXPECT_TRUE(id.has_value());
    held.clear();
    return id.value_or(CallId());
  }
  // SOURCE's reply with `bytes` bytes of data.
  static Words source_reply(uint32_t bytes, uint32_t xid = kXid) {
    Words reply = rpc_reply(xid).add({0, 0x5555'5555, bytes});
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint8_t byte = static_cast<uint8_t>(i * 7 + i / 256);
      reply.raw(Bytes(&byte, 1));
    }
    return reply.zeros((4 - bytes % 4) % 4);
  }
  static std::vector<uint8_t> data_of(uint32_t bytes, size_t from, size_t count) {
    const std::vector<uint8_t> raw = source_reply(bytes).bytes();
    return {raw.begin() + static_cast<ptrdiff_t>(36 + from), raw.begin() + static_cast<ptrdiff_t>(36 + from + count)};
  }
  void expect_write(uint32_t handle, uint64_t address, const std::vector<uint8_t>& raw) {
    ASSERT_FALSE(qp->posted().empty());
    const test::PostedWork& work = qp->posted().front();
    ASSERT_EQ(work.kind, WorkKind::kWrite);
    EXPECT_EQ(work.rkey, verbs::Rkey(handle));
    EXPECT_EQ(work.remote_address, address);
    EXPECT_EQ(bytes_of(work.payload), raw);
    qp->finish();
  }
};

// Proves RPCRDMA-3.3.1-3, RPCRDMA-3.5.1-1, RPCRDMA-4.2.2-1, RPCRDMA-4.3.2.3-1.
TEST_F(ServerReply, AnInlineReplyIsOneSend) {
  answer(call({0, 0, 0}), source_reply(6));
  ASSERT_EQ(qp->posted().size(), 1u);
  EXPECT_EQ(qp->posted().front().payload.buffer_count(), 1u);
  EXPECT_EQ(stats().pullups, 0u);
  EXPECT_EQ(words_of(qp->posted().front().payload), Words({kXid, 1, 8, 0, 0, 0, 0}).raw(source_reply(6).bytes()).words());
  ASSERT_EQ(shared->done.size(), 1u);
  const CallDone done = shared->done.pop();
  EXPECT_EQ(done.procedure, procedure_row(kBenchProgram, kBenchVersion, 2, 0));
  EXPECT_EQ(done.received, now);
  EXPECT_EQ(done.replied, now);
}

// The receive that the reply's credit stands for is there before the SEND.
TEST_F(ServerReply, TheNextReceiveIsPostedWithTheReply) {
  const CallId id = call({0, 0, 0});
  EXPECT_EQ(qp->receives(), 7u);
  answer(id, source_reply(0));
  EXPECT_EQ(qp->posted().back().receives, 8u) << "at the moment the SEND was posted";
  EXPECT_EQ(qp->receives(), 8u);
  EXPECT_EQ(server->calls_in_flight(), 0u);
}

// Proves RPCRDMA-3.4.6-1, RPCRDMA-3.4.6-5, RPCRDMA-3.4.6-6, RPCRDMA-3.4.6-7, RPCRDMA-3.4.6-8, RPCRDMA-3.4.4.1-1,
// RPCRDMA-3.4.4.1-2, RPCRDMA-3.5.2-2, RPCRDMA-3.5.2-4, RPCRDMA-4.2.4-6, RPCRDMA-4.3.2-4, RPCRDMA-3.1-2, RPCRDMA-4.4.3-1: payload
// first, without a copy and cut at segment bounds, then the SEND with the lengths.
TEST_F(ServerReply, WritesGoBeforeTheSend) {
  Words lists{0, 1, 3};
  lists.segment(0x11, 100, 0x1000).segment(0x22, 50, 0x2000).segment(0x33, 70, 0x3000);
  const CallId id = call(lists.add({0, 0}));
  answer(id, source_reply(123), 64);
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kWrite, WorkKind::kWrite, WorkKind::kSend}));
  expect_write(0x11, 0x1000, data_of(123, 0, 100));
  expect_write(0x22, 0x2000, data_of(123, 100, 23));
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 0, 0, 1, 3})
                        .segment(0x11, 100, 0x1000)
                        .segment(0x22, 23, 0x2000)
                        .segment(0x33, 0, 0x3000)
                        .add({0, 0})
                        .raw(rpc_reply(kXid).add({0, 0x5555'5555, 123}).bytes())
                        .words());
  const ChunkStats& writes = stats().chunks[static_cast<size_t>(ChunkKind::kWrite)];
  EXPECT_EQ(writes.chunks, 1u);
  EXPECT_EQ(writes.segments, 2u);
  EXPECT_EQ(writes.bytes, 123u);
  expect_idle();
}

TEST_F(ServerReply, PayloadIsSentFromTheRepliesOwnBuffers) {
  const CallId id = call(Words{0, 1, 1}.segment(0x11, 5000, 0x1000).add({0, 0}));
  Chain reply = chain_of(*pool, source_reply(4000).bytes(), 1024);
  const uint8_t* second = reply.head()->next->data;
  server->reply(now, id, std::move(reply));
  const test::PostedWork& write = qp->posted().front();
  EXPECT_EQ(write.payload.bytes(), 4000u);
  EXPECT_EQ(write.payload.head()->next->data, second);
}

// Proves RPCRDMA-3.3.1-3, RPCRDMA-3.5.3-2, RPCRDMA-3.5.3-3, RPCRDMA-3.5.3-10, RPCRDMA-3.5.2-4, RPCRDMA-4.3.3-6, RPCRDMA-4.3.3-7,
// RPCRDMA-4.2.4-9: what is too long goes through the Reply chunk; the SEND is the header alone.
TEST_F(ServerReply, ALongReplyGoesThroughTheReplyChunk) {
  const CallId id = call(Words{0, 0, 1, 2}.segment(0x11, 1000, 0x1000).segment(0x22, 1000, 0x2000));
  const std::vector<uint8_t> stream = source_reply(1501).bytes();
  ASSERT_EQ(stream.size(), 1540u);
  answer(id, source_reply(1501), 512);
  expect_write(0x11, 0x1000, {stream.begin(), stream.begin() + 1000});
  expect_write(0x22, 0x2000, {stream.begin() + 1000, stream.end()});
  EXPECT_EQ(sent(), Words({kXid, 1, 8, 1, 0, 0, 1, 2}).segment(0x11, 1000, 0x1000).segment(0x22, 540, 0x2000).words());
  EXPECT_EQ(stats().messages_out[static_cast<size_t>(MessageKind::kNomsg)], 1u);
  expect_idle();
}

// RPCRDMA-3.4.6-6: many segments make a long header; when that alone is over the threshold no reply is possible.
TEST_F(ServerReply, AHeaderOverTheThresholdIsAnError) {
  thresholds.receive_bytes = 4096;
  make();
  Words lists{0, 1, 62};
  for (uint32_t i = 0; i < 62; ++i) {
    lists.segment(i, 1000, 0);
  }
  // 28 + 8 + 62 * 16 = 1028
  answer(call(lists.add({0, 0})), source_reply(1));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
}

// Proves RPCRDMA-4.5.3-3, RPCRDMA-4.5.3-4.
TEST_F(ServerReply, AReplyThatFitsNowhereIsAnErrorAndNothingIsWritten) {
  const CallId id = call(Words{0, 1, 1}.segment(0x11, 99, 0x1000).add({0, 1, 1}).segment(0x22, 5000, 0));
  answer(id, source_reply(100));
  EXPECT_EQ(qp->history(), std::vector<WorkKind>{WorkKind::kSend});
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
  EXPECT_EQ(shared->done.size(), 1u);
  expect_idle();
}

// Proves CMPD-4.1-1, CMPD-4.1-2, CMPD-4.1-3, CMPD-3.2-1: a handle of this call, the first Write chunk's before the Reply chunk's
// before the Read list's.
TEST_F(ServerReply, TheSendInvalidatesOneHandleOfItsCall) {
  thresholds.remote_invalidation = true;
  make();
  const auto invalidated = [this](const Words& lists, const Words& reply) {
    const CallId id = call(lists);
    answer(id, reply);
    while (qp->posted().front().kind != WorkKind::kSend) {
      qp->finish();
    }
    const auto handle = qp->posted().front().invalidate;
    qp->finish();
    return handle;
  };
  const Words both = Words{0, 1, 0, 1, 1}.segment(0x22, 9, 0).add({0, 1, 1}).segment(0x33, 9, 0);
  EXPECT_EQ(invalidated(both, source_reply(0)), verbs::Rkey(0x22));
  EXPECT_EQ(invalidated(Words{0, 1, 0, 0, 1, 1}.segment(0x33, 9, 0), source_reply(1)), verbs::Rkey(0x33));
  EXPECT_EQ(invalidated({0, 0, 0}, source_reply(1)), std::nullopt);
  EXPECT_EQ(stats().remote_invalidations, 2u);
  // An RDMA_ERROR is no Reply: plain.
  EXPECT_EQ(invalidated(Words{0, 1, 1}.segment(0x22, 1, 0).add({0, 0}), source_reply(5)), std::nullopt);
  // The handle of a Read chunk when there is no other.
  send(Words{kXid, 1, 1, 0}.read(44, 0x44, 4, 0).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({4}).bytes()));
  finish_read(Words{0}.bytes());
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(kXid).add({0}));
  EXPECT_EQ(qp->posted().front().invalidate, verbs::Rkey(0x44));
}

// Proves RPCRDMA-2.3.2-11, CMPD-4.1-4, CMPD-3.2-8.
TEST_F(ServerReply, WithoutAgreementNothingIsInvalidated) {
  answer(call(Words{0, 1, 1}.segment(0x22, 9, 0).add({0, 0})), source_reply(1));
  qp->finish();
  EXPECT_EQ(qp->posted().front().invalidate, std::nullopt);
}

// The send queue is smaller than one reply needs: Writes go as room comes, the SEND last, the next reply after it.
TEST_F(ServerReply, ALongReplyGoesOnAsRoomComes) {
  make(4);
  Words lists{0, 1, 10};
  for (uint32_t i = 0; i < 10; ++i) {
    lists.segment(i, 10, 0);
  }
  const CallId first = call(lists.add({0, 0}));
  const CallId second = call({0, 0, 0}, kXid + 1);
  answer(first, source_reply(100), 16);
  answer(second, source_reply(3, kXid + 1));
  EXPECT_EQ(qp->posted().size(), 4u);
  EXPECT_EQ(server->calls_in_flight(), 2u);
  std::vector<uint8_t> written;
  std::vector<uint32_t> sends;
  while (!qp->posted().empty()) {
    test::PostedWork& work = qp->posted().front();
    if (work.kind == WorkKind::kWrite) {
      EXPECT_TRUE(sends.empty()) << "a Write after the SEND";
      const std::vector<uint8_t> raw = bytes_of(work.payload);
      written.insert(written.end(), raw.begin(), raw.end());
    } else {
      sends.push_back(words_of(work.payload)[0]);
    }
    qp->finish();
    server->on_completions(now);
  }
  EXPECT_EQ(written, data_of(100, 0, 100));
  EXPECT_EQ(sends, (std::vector<uint32_t>{kXid, kXid + 1}));
  EXPECT_EQ(qp->history().size(), 12u);
}

// Someone has to be told when room is there again: the last work before a full queue is always signaled.
TEST_F(ServerReply, AFullQueueAlwaysHoldsSignaledWork) {
  make(4);
  std::vector<CallId> ids;
  for (uint32_t i = 0; i < 6; ++i) {
    ids.push_back(call({0, 0, 0}, kXid + i));
  }
  for (uint32_t i = 0; i < 6; ++i) {
    answer(ids[i], source_reply(3, kXid + i));
  }
  ASSERT_EQ(qp->posted().size(), 4u);
  EXPECT_FALSE(qp->posted()[0].signaled);
  EXPECT_TRUE(qp->posted()[3].signaled);
}

// The reply waits for Buffers and views and is tried again on the deadline.
TEST_F(ServerReply, AReplyWaitsForBuffers) {
  make(128, 32, 6, 0);
  const CallId id = call(Words{0, 1, 1}.segment(0x11, 100, 0).add({0, 0}));
  std::vector<Buffer*> all(5);
  Chain reply = chain_of(*pool, source_reply(8).bytes(), 36);  // cut where the data begin: no view is needed there
  reply.head()->headroom_bytes = 0;                            // as behind a record mark: the header wants a Buffer of its own
  ASSERT_TRUE(pool->allocate(std::span(all).first(6 - pool->in_use())));
  Chain taken;
  for (Buffer* buffer : all) {
    if (buffer != nullptr) {
      taken.push_back(buffer);
    }
  }
  server->reply(now, id, std::move(reply));
  EXPECT_EQ(qp->history(), std::vector<WorkKind>{WorkKind::kWrite});
  EXPECT_EQ(stats().no_buffer, 1u);
  EXPECT_EQ(server->calls_in_flight(), 1u);
  taken.clear();
  EXPECT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
  server->on_deadline(server->next_deadline());
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kWrite, WorkKind::kSend}));
  EXPECT_EQ(server->calls_in_flight(), 0u);
}

// Its data are with the client, and its SEND finds no Buffer.
class ServerReplyHalfSent : public ServerReply {
 protected:
  void SetUp() override {
    ServerReply::SetUp();
    make(128, 32, 6, 0);
    const CallId id = call(Words{0, 0, 1, 1}.segment(0x11, 2000, 0));
    Chain reply = chain_of(*pool, source_reply(1100).bytes());
    std::vector<Buffer*> all(6 - pool->in_use());
    ASSERT_TRUE(pool->allocate(all));
    for (Buffer* buffer : all) {
      taken.push_back(buffer);
    }
    server->reply(now, id, std::move(reply));
    EXPECT_EQ(qp->history(), std::vector<WorkKind>{WorkKind::kWrite});
  }
  void TearDown() override {
    taken.clear();
    ServerReply::TearDown();
  }
  Chain taken;
};

TEST_F(ServerReplyHalfSent, ItsChunkCountsOnceHoweverOftenItIsTried) {
  for (int tries = 0; tries < 3; ++tries) {
    now = server->next_deadline();
    server->on_deadline(now);
  }
  taken.clear();
  server->on_deadline(now);
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kWrite, WorkKind::kSend}));
  EXPECT_EQ(stats().no_buffer, 4u);
  const ChunkStats& chunks = stats().chunks[static_cast<size_t>(ChunkKind::kReply)];
  EXPECT_EQ(chunks.chunks, 1u);
  EXPECT_EQ(chunks.segments, 1u);
}

TEST_F(ServerReplyHalfSent, AClientThatDoesNotAcknowledgeTheDataHasTheTimeoutOfReplies) {
  const Instant end = now + options.reply_timeout;
  while (now < end) {
    EXPECT_FALSE(server->failed());
    now = std::min(now + Duration::seconds(1), end);
    server->on_deadline(now);
  }
  EXPECT_EQ(server->failure(), EndpointFailure::kReplyTimeout);
}

// Proves RPCRDMA-2.2.2-2, RPCRDMA-4.2.1-1: CVE-2026-72466: a reply too short to be one never reaches the client as a reply; nor
// does one for another call (B2).
TEST_F(ServerReply, WhatIsNoReplyToThisCallIsAnError) {
  for (const Words& words : {Words{}, Words{kXid, 1}, Words{kXid}.zeros(7), rpc_reply(kXid + 1)}) {
    answer(call({0, 0, 0}), words);
    EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
  }
  expect_idle();
}

// B3 and CVE-2026-89530 of tests/requirements/hostile.md
TEST_F(ServerReply, ARepliesLengthIsOurLimitToo) {
  options.reply_bytes_max = 2000;
  make();
  answer(call(Words{0, 0, 1, 1}.segment(0x11, 1 << 20, 0)), source_reply(1964));
  EXPECT_EQ(qp->history(), (std::vector<WorkKind>{WorkKind::kWrite, WorkKind::kSend}));
  qp->finish_all_sends();
  answer(call(Words{0, 0, 1, 1}.segment(0x11, 1 << 20, 0)), source_reply(1965));
  EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, 8, 4, 2}));
}

TEST_F(ServerReply, TheHeaderGoesInFrontWhereThereIsRoom) {
  const Words message = Words({kXid, 1, 8, 0, 0, 0, 0}).raw(source_reply(6).bytes());
  const auto send = [&](BufferPool& from, uint32_t headroom_bytes) {
    const CallId id = call({0, 0, 0});
    Chain reply = chain_of(from, source_reply(6).bytes(), 1000);
    reply.head()->headroom_bytes = headroom_bytes;
    const Buffer* buffer = reply.head();
    server->reply(now, id, std::move(reply));
    EXPECT_EQ(words_of(qp->posted().front().payload), message.words());
    const bool in_front = qp->posted().front().payload.head() == buffer;
    qp->finish();
    return in_front;
  };
  make();
  EXPECT_TRUE(send(*pool, 28));
  EXPECT_FALSE(send(*pool, 27));
  HeapBufferPool large(1, 32'768, 0);
  EXPECT_FALSE(send(large, 28)) << "a large Buffer would wait for the client";
}

TEST_F(ServerReply, ManySmallPiecesArePulledUp) {
  thresholds.send_bytes = 4096;
  make();
  answer(call({0, 0, 0}), source_reply(800), 40);
  EXPECT_EQ(qp->posted().front().payload.buffer_count(), 1u);
  EXPECT_EQ(stats().pullups, 1u);
  qp->finish();
  answer(call({0, 0, 0}), source_reply(800), 512);
  EXPECT_EQ(qp->posted().front().payload.buffer_count(), 2u) << "the header goes in front, into the first";
  EXPECT_EQ(stats().pullups, 1u);
}

// A call has one answer: a second one, or one with an id of before, changes nothing.
TEST_F(ServerReply, ASecondAnswerIsDropped) {
  const CallId id = call({0, 0, 0});
  answer(id, source_reply(1));
  answer(id, source_reply(2));
  answer(CallId(), source_reply(2));
  answer(CallId(~uint64_t{0}), source_reply(2));
  EXPECT_EQ(stats().late_replies, 3u);
  EXPECT_EQ(qp->posted().size(), 1u);
  EXPECT_EQ(shared->done.size(), 1u);
  // The slot's next call does not answer to the old id.
  const CallId next = call({0, 0, 0});
  EXPECT_FALSE(next == id);
  answer(id, source_reply(2));
  EXPECT_EQ(stats().late_replies, 4u);
  EXPECT_EQ(server->calls_in_flight(), 1u);
}

TEST_F(ServerReply, AnotherConnectionsAnswerIsDropped) {
  test::FakeQueuePair other_qp;
  ServerEndpoint other(*shared, other_qp, options, thresholds);
  other.start();
  const CallId id = call({0, 0, 0});
  other.reply(now, id, chain_of(*pool, source_reply(1).bytes()));
  EXPECT_EQ(stats().late_replies, 1u);
  EXPECT_TRUE(other_qp.posted().empty());
  EXPECT_EQ(server->calls_in_flight(), 1u);
}

// Records that nobody takes are as many as there may be calls in flight; the oldest stay.
TEST_F(ServerReply, RecordsOfDoneCallsCostNoCall) {
  make(128, 2);
  for (uint32_t i = 0; i < 5; ++i) {
    answer(call({0, 0, 0}, kXid + i), source_reply(1, kXid + i));
    now = now + Duration::us(1);
  }
  EXPECT_EQ(shared->calls->in_use(), 0u);
  EXPECT_EQ(server->calls_answered(), 5u);
  EXPECT_EQ(shared->done.size(), 2u);
}

TEST_F(ServerReply, CallsThatAreAlikeHaveOneRecord) {
  for (uint32_t i = 0; i < 3; ++i) {
    answer(call({0, 0, 0}, kXid + i), source_reply(1, kXid + i));
  }
  now = now + Duration::us(1);
  answer(call({0, 0, 0}, kXid + 3), source_reply(1, kXid + 3));
  ASSERT_EQ(shared->done.size(), 2u);
  EXPECT_EQ(shared->done.pop().count, 3u);
  EXPECT_EQ(shared->done.pop().count, 1u);
}

// Proves RPCRDMA-4.5.4-3: an answer that cannot be sent ends the connection.
TEST_F(ServerReply, AQueuePairInErrorFailsTheEndpoint) {
  const CallId id = call({0, 0, 0});
  const CallId waiting = call({0, 0, 0}, kXid + 1);
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  answer(id, source_reply(1));
  EXPECT_TRUE(server->failed());
  answer(waiting, source_reply(1, kXid + 1));
  EXPECT_EQ(stats().late_replies, 1u);
}

// Proves RPCRDMA-3.3-1, RPCRDMA-4.5.3-2.
TEST_F(ServerReply, AFailedSendFailsTheEndpoint) {
  answer(call({0, 0, 0}), source_reply(1));
  qp->break_with(verbs::WcStatus::kRnrRetryExceeded);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  // The client's Receive is too small: a length error at the other end.
  make();
  answer(call({0, 0, 0}), source_reply(900));
  qp->break_with(verbs::WcStatus::kRemoteInvalidRequest);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
}

// B4 of tests/requirements/hostile.md: the backend goes away in any state; all calls are void at once.
TEST_F(ServerReply, FailingInEveryStateLeavesNothing) {
  make(1, 4);
  send(Words{1, 1, 1, 0}.read(40, 1, 4, 0).add({0, 0, 0}).raw(rpc_call(1).bytes()));  // reading
  const CallId replying = call({0, 0, 0}, 2);
  answer(replying, source_reply(1, 2));  // no room: the Read holds it
  call({0, 0, 0}, 3);                    // with the owner
  send(inline_call(4, rpc_call(4)));     // ready
  send(inline_call(5, rpc_call(5)));     // without a slot
  EXPECT_EQ(server->calls_in_flight(), 5u);
  server->fail();
  EXPECT_EQ(server->calls_in_flight(), 0u);
  EXPECT_EQ(shared->calls->in_use(), 0u);
  EXPECT_FALSE(take().has_value());
}

// The work requests that all queue pairs of a core share are used up: no completion of this one tells when there are some again.
class SharedWorkRequests : public ServerReply {
 protected:
  // Nothing can be posted and nothing of ours is under way; a moment later there is room, and only a timer can tell.
  void expect_posted_by_timer(WorkKind kind) {
    EXPECT_TRUE(qp->posted().empty());
    EXPECT_GT(stats().no_send_work, 0u);
    ASSERT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
    now = server->next_deadline();
    server->on_deadline(now);
    ASSERT_EQ(server->next_deadline(), now + ServerEndpoint::kRetryInterval) << "as long as it takes";
    qp->set_shared_room(UINT32_MAX);
    now = server->next_deadline();
    server->on_deadline(now);
    ASSERT_EQ(qp->posted().size(), 1u);
    EXPECT_EQ(qp->posted().front().kind, kind);
  }
};

TEST_F(SharedWorkRequests, AReplyThatFindsNoneIsTriedAgain) {
  const CallId id = call({0, 0, 0});
  qp->set_shared_room(0);
  answer(id, source_reply(6));
  expect_posted_by_timer(WorkKind::kSend);
  qp->finish_all_sends();
  server->on_completions(now);
  expect_idle();
}

TEST_F(SharedWorkRequests, ARefusalThatFindsNoneIsTriedAgain) {
  qp->set_shared_room(0);
  send(Words{kXid, 2, 1, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()));
  expect_posted_by_timer(WorkKind::kSend);
  qp->finish_all_sends();
  server->on_completions(now);
  expect_idle();
}

TEST_F(SharedWorkRequests, AnRdmaReadThatFindsNoneIsTriedAgain) {
  qp->set_shared_room(0);
  Words message{kXid, 1, 16, 0};
  send(message.raw(Words{}.read(44, 0x11, 100, 0x1000).add({0, 0, 0}).bytes()).raw(rpc_call(kXid, 1).add({100}).bytes()));
  expect_posted_by_timer(WorkKind::kRead);
}

TEST_F(SharedWorkRequests, AReverseCallThatFindsNoneIsTriedAgain) {
  options.reverse_credits = 2;
  make();
  server->enable_reverse();
  qp->set_shared_room(0);
  ASSERT_TRUE(server->submit_reverse(now, chain_of(*pool, rpc_call(7).bytes())).ok());
  expect_posted_by_timer(WorkKind::kSend);
}

TEST_F(SharedWorkRequests, AFullQueueOfItsOwnIsWaitedForWithoutATimer) {
  make(2);
  for (uint32_t i = 0; i < 3; ++i) {
    answer(call({0, 0, 0}, kXid + i), source_reply(6, kXid + i));
  }
  EXPECT_EQ(qp->posted().size(), 2u);
  EXPECT_EQ(stats().no_send_work, 0u);
  EXPECT_GT(server->next_deadline(), now + ServerEndpoint::kRetryInterval);
  qp->finish_all_sends();
  server->on_completions(now);
  EXPECT_EQ(qp->posted().size(), 1u);
}

// BIDI-5.2-5, the other way round: what the backend gives for a reply is one.
TEST_F(ServerReply, AnAnswerThatIsNoRpcReplyIsAnsweredWithAnError) {
  for (const uint32_t type : {0u, 2u, UINT32_MAX}) {
    answer(call({0, 0, 0}), Words{kXid, type, 0, 0, 0, 0});
    EXPECT_EQ(sent(), (std::vector<uint32_t>{kXid, 1, options.credits, 4, 2}));
  }
  EXPECT_EQ(stats().errors_out_chunk, 3u);
  expect_idle();
}

}  // namespace
}  // namespace cw::rpcrdma
