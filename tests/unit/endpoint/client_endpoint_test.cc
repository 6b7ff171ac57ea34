// The client side over a recording queue pair: what it sends, what it believes, and what it does with a bad server.
#include "tests/unit/endpoint/client_fixture.h"

namespace cw::rpcrdma {
namespace {

using ClientTest = ClientFixture;

// Proves RPCRDMA-3.2-3, RPCRDMA-3.3.1-2, RPCRDMA-4.2.1-1, RPCRDMA-4.2.2-1, RPCRDMA-4.3-2, RPCRDMA-4.3.1-2, RPCRDMA-4.3.2-2,
// RPCRDMA-4.3.3-4, RPCRDMA-4-1.
TEST_F(ClientTest, AnInlineCallCarriesItsXidTwiceAndTheCreditsWanted) {
  const std::vector<uint32_t> words = submit({.user_data = 9, .message = {}});
  EXPECT_EQ(words, Words({words[0], 1, 8, 0, 0, 0, 0}).raw(rpc_call(words[0]).bytes()).words());
  EXPECT_EQ(client->calls_in_flight(), 1u);
  EXPECT_EQ(client->next_deadline(), now + options.call_timeout);
  receive(inline_reply(words[0]));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.user_data, 9u);
  EXPECT_EQ(reply.xid, words[0]);
  EXPECT_EQ(reply.sent, now);
  EXPECT_EQ(words_of(reply.message), rpc_reply(words[0]).words());
  EXPECT_EQ(outcome(), std::nullopt);
  EXPECT_EQ(client->calls_in_flight(), 0u);
  EXPECT_TRUE(client->next_deadline().is_never());
}

// The message may be views of memory that must not be written.
TEST_F(ClientTest, TheXidIsNotWrittenIntoTheMessage) {
  Chain original = chain_of(pool, rpc_call(0, 1).add({300}).zeros(300).bytes(), 6);
  ClientCall call;
  ASSERT_TRUE(original.share_range(0, original.bytes(), call.message));
  EXPECT_EQ(submit(std::move(call))[0], kFirstXid);
  EXPECT_EQ(words_of(original)[0], 0u);
}

// Proves RPCRDMA-3.3.1-4, RPCRDMA-3.3.3-3, RPCRDMA-3.3.3-4: one call until the first real reply; then as many as granted.
TEST_F(ClientTest, OneCreditUntilTheFirstReply) {
  EXPECT_EQ(client->calls_allowed(), 1u);
  const uint32_t xid = submit()[0];
  EXPECT_EQ(client->calls_allowed(), 0u);
  EXPECT_EQ(try_submit().error(), Error::kNoResources);
  EXPECT_EQ(stats.credit_stalls, 1u);
  receive(inline_reply(xid, 5));
  EXPECT_EQ(client->credits(), 5u);
  EXPECT_EQ(client->calls_allowed(), 5u);
}

// Proves RPCRDMA-3.3.1-4, RPCRDMA-3.3.1-7, RPCRDMA-3.3.1-9, RPCRDMA-3.3.1-10, RPCRDMA-3.3.1-12, RPCRDMA-3.3.1-13,
// RPCRDMA-8.1.4-4: the newest grant holds, 0 counts as 1, and it never exceeds what was asked for.
TEST_F(ClientTest, GrantsAreAbsoluteAndClamped) {
  receive(inline_reply(submit()[0], 3));
  const uint32_t first = submit()[0];
  const uint32_t second = submit()[0];
  const uint32_t third = submit()[0];
  EXPECT_EQ(client->calls_allowed(), 0u);
  receive(inline_reply(first, 1));
  EXPECT_EQ(client->calls_allowed(), 0u) << "two are in flight still";
  receive(inline_reply(second, 0));
  EXPECT_EQ(client->credits(), 1u);
  EXPECT_EQ(client->calls_allowed(), 0u);
  receive(inline_reply(third, 0));
  EXPECT_EQ(client->calls_allowed(), 1u);
  receive(inline_reply(submit()[0], 0xffff'ffff));
  EXPECT_EQ(client->calls_allowed(), options.credits_wanted - 5) << "outcomes that are not polled hold their slots";
  while (outcome()) {
  }
  EXPECT_EQ(client->calls_allowed(), options.credits_wanted);
}

// Proves RPCRDMA-2.2.2-3: over many calls and a wrap no two pending XIDs are equal.
TEST_F(ClientTest, XidsOfPendingCallsDiffer) {
  receive(inline_reply(submit()[0]));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  std::vector<uint32_t> pending;
  for (int i = 0; i < 200; ++i) {
    if (pending.size() == 8) {
      const uint32_t at = random.next_below(8);
      receive(inline_reply(pending[at]));
      EXPECT_EQ(outcome(), CallStatus::kReplied);
      EXPECT_EQ(reply.xid, pending[at]);
      pending.erase(pending.begin() + at);
    }
    const uint32_t xid = submit()[0];
    EXPECT_EQ(std::count(pending.begin(), pending.end(), xid), 0);
    pending.push_back(xid);
  }
}

// Proves RPCRDMA-3.4.3-3, RPCRDMA-3.4.5.1-3, RPCRDMA-4.3.2-1, RPCRDMA-4.4.1-1, RPCRDMA-8.1.3-2, RPCRDMA-8.1.3-3,
// RPCRDMA-8.1.3-4, RPCRDMA-8.1.2-2: chunk lists, with rights for what they are for and no more.
TEST_F(ClientTest, MemoryIsExposedForItsPurposeAndUntilTheReply) {
  std::vector<uint8_t> source(100, 1);
  std::vector<uint8_t> sink(200);
  std::vector<uint8_t> long_reply(300);
  const ReadChunkSource read{.position = 44, .memory = source};
  const MutableBytes writes[] = {sink, MutableBytes()};
  ClientCall call{.message = chain_of(pool, rpc_call(0, 1).add({100}).bytes()),
                  .reads = {&read, 1},
                  .writes = writes,
                  .reply_memory = long_reply};
  const std::vector<uint32_t> words = submit(std::move(call));
  EXPECT_EQ(memory->region_count(), 3u);
  const verbs::Rkey source_key(words[6]);
  const verbs::Rkey sink_key(words[13]);
  const verbs::Rkey reply_key(words[22]);
  const uint64_t source_at = (uint64_t{words[8]} << 32) | words[9];
  const uint64_t sink_at = (uint64_t{words[15]} << 32) | words[16];
  const uint64_t reply_at = (uint64_t{words[24]} << 32) | words[25];
  EXPECT_EQ(words, Words({words[0], 1, 8, 0})
                       .read(44, source_key.value(), 100, source_at)
                       .add({0, 1, 1})
                       .segment(sink_key.value(), 200, sink_at)
                       .add({1, 0, 0, 1, 1})
                       .segment(reply_key.value(), 300, reply_at)
                       .raw(rpc_call(words[0], 1).add({100}).bytes())
                       .words());
  EXPECT_EQ(memory->resolve(kDomain, source_key, source_at, 100, verbs::RemoteAccess::kRead)->data(), source.data());
  EXPECT_FALSE(memory->resolve(kDomain, source_key, source_at, 1, verbs::RemoteAccess::kWrite).ok());
  EXPECT_EQ(memory->resolve(kDomain, sink_key, sink_at, 200, verbs::RemoteAccess::kWrite)->data(), sink.data());
  EXPECT_FALSE(memory->resolve(kDomain, sink_key, sink_at, 1, verbs::RemoteAccess::kRead).ok());
  EXPECT_EQ(memory->resolve(kDomain, reply_key, reply_at, 300, verbs::RemoteAccess::kWrite)->data(), long_reply.data());

  receive(Words({words[0], 1, 8, 0, 0, 1, 1})
              .segment(sink_key.value(), 150, sink_at)
              .add({1, 0, 0, 1, 1})
              .segment(reply_key.value(), 0, reply_at)
              .raw(rpc_reply(words[0]).add({150}).bytes()));
  EXPECT_EQ(memory->region_count(), 0u) << "shut off before the outcome is out (RPCRDMA-4.4.1-1)";
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.write_bytes[0], 150u);
  EXPECT_EQ(reply.write_bytes[1], 0u);
  EXPECT_EQ(reply.reply_chunk_bytes, 0u);
}

// Proves RPCRDMA-3.4.4-2, RPCRDMA-3.4.6.1-1: a chunk may be cut anywhere.
TEST_F(ClientTest, ChunksAreCutIntoSegments) {
  options.segment_bytes_max = 100;
  make();
  std::vector<uint8_t> sink(250);
  const MutableBytes writes[] = {sink};
  const std::vector<uint32_t> words = submit({.message = echo_call(), .writes = writes});
  const uint64_t at = (uint64_t{words[9]} << 32) | words[10];
  Words expected{words[0], 1, 8, 0, 0, 1, 3};
  expected.segment(words[7], 100, at).segment(words[7], 100, at + 100).segment(words[7], 50, at + 200);
  EXPECT_EQ(words, expected.add({0, 0}).raw(rpc_call(words[0], 1).add({0}).bytes()).words());
  EXPECT_EQ(memory->region_count(), 1u);
  // Gaps cannot be: a segment behind one that is not full holds nothing (RPCRDMA-3.4.6-5).
  const auto reply_with = [&](uint32_t first, uint32_t second, uint32_t third) {
    return Words({words[0], 1, 8, 0, 0, 1, 3})
        .segment(words[7], first, at)
        .segment(words[7], second, at + 100)
        .segment(words[7], third, at + 200)
        .add({0, 0})
        .raw(rpc_reply(words[0]).add({120}).bytes());
  };
  receive(reply_with(100, 20, 0));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.write_bytes[0], 120u);
  const uint32_t xid = submit({.message = {}, .writes = writes})[0];
  EXPECT_NE(xid, words[0]);
}

// Proves RPCRDMA-3.5.3-3, RPCRDMA-3.5.3-4, RPCRDMA-3.5.3-5, RPCRDMA-4.2.1-1, RPCRDMA-4.2.4-8, RPCRDMA-4.2.4-9.
TEST_F(ClientTest, LongCallsTravelAsAPositionZeroChunk) {
  std::vector<uint8_t> stream(60, 0xee);
  ClientCall call{.message = chain_of(pool, rpc_call(0, 1).add({4, 7}).bytes()), .long_call = true, .long_call_memory = stream};
  const std::vector<uint32_t> words = submit(std::move(call));
  ASSERT_EQ(words.size(), 4u + 6 + 3);
  EXPECT_EQ(words[3], 1u);
  EXPECT_EQ(words[5], 0u);
  EXPECT_EQ(words[7], 48u);
  EXPECT_EQ(Words::words_of({stream.begin(), stream.begin() + 48}), rpc_call(words[0], 1).add({4, 7}).words());
  EXPECT_EQ(stream[48], 0xee);
  receive(inline_reply(words[0]));
  EXPECT_EQ(outcome(), CallStatus::kReplied);

  std::vector<uint8_t> ready = rpc_call(0).bytes();
  ClientCall in_place{.message = {}, .long_call = true, .long_call_memory = ready};
  ASSERT_TRUE(client->submit(now, std::move(in_place)).ok());
  EXPECT_EQ(load_be32(ready.data()), words_of(qp->posted().back().payload)[0]);
  qp->finish();
}

// Proves RPCRDMA-3.5.3-6, RPCRDMA-3.2-2.
TEST_F(ClientTest, LongRepliesAreFoundInTheReplyMemory) {
  std::vector<uint8_t> reply_memory(2000);
  const auto call = [&] {
    const std::vector<uint32_t> words = submit({.message = {}, .reply_memory = reply_memory});
    const uint64_t at = (uint64_t{words[10]} << 32) | words[11];
    return Words({words[0], 1, 8, 1, 0, 0, 1, 1}).segment(words[8], 24, at);
  };
  Words good = call();
  const std::vector<uint8_t> stream = rpc_reply(good.words()[0]).bytes();
  std::copy(stream.begin(), stream.end(), reply_memory.begin());
  receive(good);
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.reply_chunk_bytes, 24u);
  EXPECT_TRUE(reply.message.empty());
  // The memory still holds the XID of before.
  receive(call());
  EXPECT_EQ(outcome(), CallStatus::kBadReply);
  EXPECT_EQ(stats.xid_mismatch, 1u);
}

// Proves RPCRDMA-3.3.2-4, RPCRDMA-4.2.4-16.
TEST_F(ClientTest, WhatDoesNotFitIsRefusedAndKeepsItsMessage) {
  ClientCall call{.message = chain_of(pool, rpc_call(0, 1).zeros(1024 - 28 - 40 + 1).bytes())};
  EXPECT_EQ(client->submit(now, std::move(call)).error(), Error::kLimit);
  EXPECT_EQ(call.message.bytes(), 1024u - 28 + 1);
  call.message.trim_back(1);
  EXPECT_TRUE(client->submit(now, std::move(call)).ok()) << "equal to the threshold fits (RPCRDMA-3.3.2-4)";
  qp->finish();
}

// Proves RPCRDMA-3.4.5-10.
TEST_F(ClientTest, CallsThatContradictThemselvesAreRefused) {
  std::vector<uint8_t> some(8);
  const ReadChunkSource unaligned{.position = 42, .memory = some};
  const ReadChunkSource zero{.position = 0, .memory = some};
  const ReadChunkSource descending[] = {{.position = 44, .memory = some}, {.position = 40, .memory = some}};
  const ReadChunkSource empty{.position = 44, .memory = {}};
  EXPECT_EQ(try_submit({.message = {}, .reads = {&unaligned, 1}}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = {}, .reads = {&zero, 1}}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = {}, .reads = descending}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = {}, .reads = {&empty, 1}}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = chain_of(pool, Words{1}.cut(3).bytes())}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = {}, .long_call = true}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = chain_of(pool, rpc_call(0).bytes()), .long_call = true, .long_call_memory = some}).error(),
            Error::kBadValue);
  const std::vector<MutableBytes> many(17, MutableBytes(some));
  EXPECT_EQ(try_submit({.message = {}, .writes = many}).error(), Error::kLimit);
  EXPECT_EQ(client->calls_in_flight(), 0u);
  EXPECT_EQ(memory->region_count(), 0u);
}

// Proves RPCRDMA-4.5.4-1.
TEST_F(ClientTest, WithoutRoomNothingStaysRegistered) {
  make(1, 2);
  std::vector<uint8_t> some(8);
  const std::vector<MutableBytes> three(3, MutableBytes(some));
  EXPECT_EQ(try_submit({.message = {}, .writes = three}).error(), Error::kNoResources) << "the table has room for two";
  EXPECT_EQ(memory->region_count(), 0u);
  receive(inline_reply(submit()[0]));
  EXPECT_TRUE(try_submit().ok());
  EXPECT_EQ(try_submit().error(), Error::kNoResources) << "the send queue is full";
  EXPECT_EQ(client->calls_in_flight(), 1u);
  qp->finish();
  std::vector<Buffer*> all(256 - pool.in_use());
  ASSERT_TRUE(pool.allocate(all));
  Chain hold;
  ClientCall call{.message = Chain(all.back())};
  all.pop_back();
  for (Buffer* buffer : all) {
    hold.push_back(buffer);
  }
  ASSERT_EQ(call.message.head()->append(rpc_call(0).bytes()), 40u);
  call.message = Chain(call.message.detach());
  const std::vector<MutableBytes> one(1, MutableBytes(some));
  call.writes = one;
  EXPECT_EQ(client->submit(now, std::move(call)).error(), Error::kNoResources) << "no Buffer for the header";
  EXPECT_EQ(call.message.bytes(), 40u);
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_EQ(stats.no_buffer, 1u);
}

// Proves RPCRDMA-4.5-3, RPCRDMA-4.5-10, RPCRDMA-4.5.1-4: 20 bytes are enough for an ERR_CHUNK.
TEST_F(ClientTest, ErrorsEndTheirCalls) {
  receive(Words{submit()[0], 1, 16, 4, 2});
  EXPECT_EQ(outcome(), CallStatus::kErrorChunk);
  EXPECT_EQ(client->credits(), 1u) << "no real reply yet";
  receive(Words{submit()[0], 1, 16, 4, 1, 2, 3});
  EXPECT_EQ(outcome(), CallStatus::kErrorVersion);
  receive(inline_reply(submit()[0], 4));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  receive(Words{submit()[0], 1, 6, 4, 2});
  EXPECT_EQ(outcome(), CallStatus::kErrorChunk);
  EXPECT_EQ(client->credits(), 6u);
  EXPECT_EQ(stats.errors_in_chunk, 2u);
  EXPECT_EQ(stats.errors_in_version, 1u);
}

// Proves RPCRDMA-4.5-2, RPCRDMA-4.5-5, RPCRDMA-4.5-11, RPCRDMA-4.6.1-3, RPCRDMA-4.6.2-2, RPCRDMA-4.3.1-5, RPCRDMA-4.3.3-8,
// RPCRDMA-4.2.4-12, RPCRDMA-4.2.4-10, RPCRDMA-4.2.1-2, RPCRDMA-A.2-1: bad replies are dropped, their call stays pending.
TEST_F(ClientTest, FaultyRepliesAreDroppedSilently) {
  const uint32_t xid = submit()[0];
  for (size_t bytes = 0; bytes < 28; ++bytes) {
    expect_dropped(inline_reply(xid).cut(bytes));
  }
  EXPECT_EQ(stats.short_messages, 28u);
  const std::vector<uint8_t> payload = rpc_reply(xid).bytes();
  expect_dropped(Words{xid, 1, 8, 4, 3});                                            // no such error
  expect_dropped(Words{xid, 1, 8, 4, 1, 1});                                         // ERR_VERS without its range
  expect_dropped(Words{xid, 2, 8, 0, 0, 0, 0}.raw(payload));                         // version
  expect_dropped(Words{xid, 1, 8, 2, 0, 0, 0, 0, 0}.raw(payload));                   // MSGP
  expect_dropped(Words{xid, 1, 8, 3, 0, 0, 0});                                      // DONE
  expect_dropped(Words{xid, 1, 8, 0, 3, 0, 0}.raw(payload));                         // discriminant
  expect_dropped(Words{xid, 1, 8, 0, 0, 1, 0xffff'ffff}.raw(payload));               // count
  expect_dropped(Words{xid, 1, 8, 0}.read(4, 1, 1, 0).add({0, 0, 0}).raw(payload));  // a Read list
  expect_dropped(Words{xid, 1, 8, 0, 0, 0, 1, 1}.segment(1, 5, 0).raw(payload));     // inline and in the Reply chunk
  expect_dropped(Words{xid, 1, 8, 1, 0, 0, 0});                                      // no payload at all
  expect_dropped(Words{xid, 1, 8, 1, 0, 0, 1, 1}.segment(1, 0, 0));                  // the same
  expect_dropped(Words{xid, 1, 8, 0, 0, 0, 0}.raw(rpc_reply(xid + 1).bytes()));      // XIDs differ
  expect_dropped(Words{xid, 1, 8, 0, 0, 0, 0, xid});                                 // payload cut
  EXPECT_EQ(stats.bad_replies, 13u);
  receive(inline_reply(xid));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
}

// Proves RPCRDMA-2.2.2-4, RPCRDMA-4.5-11.
TEST_F(ClientTest, RepliesThatNobodyWaitsForAreDropped) {
  const uint32_t xid = submit()[0];
  expect_dropped(inline_reply(xid + 1));
  expect_dropped(inline_reply(xid + 8));
  expect_dropped(Words{xid + 1, 1, 8, 4, 2});
  EXPECT_EQ(stats.unknown_xid, 3u);
  receive(inline_reply(xid));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  expect_dropped(inline_reply(xid));
  EXPECT_EQ(stats.unknown_xid, 4u);
  EXPECT_EQ(client->credits(), 8u);
}

// Proves RPCRDMA-2.2.2-1: R12, BIDI-4.1-8: a reverse Call under the XID of a pending one is no Reply to it, and its credits are
// no grant.
TEST_F(ClientTest, ReverseCallsAreNotTakenForReplies) {
  const uint32_t xid = submit()[0];
  expect_dropped(Words{xid, 1, 200, 0, 0, 0, 0}.raw(rpc_call(xid).bytes()));
  EXPECT_EQ(stats.reverse_dropped, 1u);
  EXPECT_EQ(client->credits(), 1u);
}

// Proves RPCRDMA-4.3.3-9: nothing in a returned list is believed.
TEST_F(ClientTest, ReturnedChunksMustBeTheOnesOffered) {
  std::vector<uint8_t> sink(100);
  std::vector<uint8_t> reply_memory(100);
  const MutableBytes writes[] = {sink};
  enum class Fault { kNone, kLength, kHandle, kOffset, kCount, kExtra, kMissing, kNoReplyChunk, kReplyLength };
  for (const Fault fault : {Fault::kLength, Fault::kHandle, Fault::kOffset, Fault::kCount, Fault::kExtra, Fault::kMissing,
                            Fault::kNoReplyChunk, Fault::kReplyLength, Fault::kNone}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const std::vector<uint32_t> words = submit({.message = echo_call(), .writes = writes, .reply_memory = reply_memory});
    const uint64_t at = (uint64_t{words[9]} << 32) | words[10];
    const uint64_t reply_at = (uint64_t{words[16]} << 32) | words[17];
    Words message{words[0], 1, 8, fault == Fault::kReplyLength ? 1u : 0u, 0};
    if (fault != Fault::kMissing) {
      message.add({1, fault == Fault::kCount ? 2u : 1u});
      message.segment(words[7] + (fault == Fault::kHandle), fault == Fault::kLength ? 101 : 100, at + (fault == Fault::kOffset));
      if (fault == Fault::kCount) {
        message.segment(words[7], 0, at);
      }
    }
    if (fault == Fault::kExtra) {
      message.add({1, 0});
    }
    message.add({0});
    if (fault == Fault::kNoReplyChunk) {
      message.add({0});
    } else {
      message.add({1, 1}).segment(words[14], fault == Fault::kReplyLength ? 101 : 0, reply_at);
    }
    receive(message.raw(rpc_reply(words[0]).add({100}).bytes()));
    EXPECT_EQ(memory->region_count(), 0u);
    EXPECT_EQ(outcome(), fault == Fault::kNone ? CallStatus::kReplied : CallStatus::kBadReply);
    EXPECT_EQ(reply.write_bytes[0], fault == Fault::kNone ? 100u : 0u);
    EXPECT_EQ(reply.reply_chunk_bytes, 0u);
    EXPECT_EQ(reply.message.empty(), fault != Fault::kNone);
  }
  EXPECT_EQ(stats.bad_replies, 8u);
}

// Proves CMPD-3.2-3.
TEST_F(ClientTest, KeysThatTheServerInvalidatedAreNotInvalidatedAgain) {
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink, sink};
  const std::vector<uint32_t> words = submit({.message = {}, .writes = writes});
  ASSERT_EQ(memory->region_count(), 2u);
  const verbs::Rkey first(words[7]);
  EXPECT_TRUE(memory->invalidate(kDomain, first));  // the queue pair has done it
  Words message{words[0], 1, 8, 0, 0, 1, 1};
  message.segment(words[7], 0, (uint64_t{words[9]} << 32) | words[10]).add({1, 1});
  message.segment(words[13], 0, (uint64_t{words[15]} << 32) | words[16]).add({0, 0});
  receive(message.raw(rpc_reply(words[0]).bytes()), first);
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_EQ(stats.remote_invalidations, 1u);
}

TEST_F(ClientTest, AnInvalidatedKeyUnderAnXidOfNoCallEndsTheConnection) {
  std::vector<uint8_t> sink(100);
  const std::vector<MutableBytes> writes{sink};
  const std::vector<uint32_t> sent = submit({.message = echo_call(), .writes = writes});
  const verbs::Rkey key(sent[7]);
  EXPECT_TRUE(memory->invalidate(kDomain, key));  // the queue pair has done it
  receive(inline_reply(sent[0] + 1000), key);
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(stats.bad_replies, 1u);
  EXPECT_EQ(stats.unknown_xid, 0u);
  EXPECT_EQ(outcome(), CallStatus::kConnectionLost);
}

// RFC 8167 5.2: what is taken for a reply is one. A message of neither type is dropped, and its call stays.
TEST_F(ClientTest, AMessageThatIsNoRpcReplyAnswersNoCall) {
  const uint32_t xid = submit()[0];
  for (const uint32_t type : {2u, 7u, UINT32_MAX}) {
    const uint64_t before = stats.bad_replies;
    expect_dropped(Words{xid, 1, 8, 0, 0, 0, 0, xid, type, 0, 0, 0, 0});
    EXPECT_EQ(stats.bad_replies, before + 1);
  }
  receive(inline_reply(xid));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
}

// The same in a Reply chunk. Its message names the call and has used up the chunk, so the call ends.
TEST_F(ClientTest, AReplyChunkThatHoldsNoRpcReplyIsABadReply) {
  std::vector<uint8_t> reply_memory(2000);
  const auto reply_with = [&](uint32_t type, uint32_t bytes) {
    const std::vector<uint32_t> words = submit({.message = {}, .reply_memory = reply_memory});
    const std::vector<uint8_t> stream = Words{words[0], type, 0, 0, 0, 0}.bytes();
    std::copy(stream.begin(), stream.end(), reply_memory.begin());
    receive(Words({words[0], 1, 8, 1, 0, 0, 1, 1}).segment(words[8], bytes, (uint64_t{words[10]} << 32) | words[11]));
    return outcome();
  };
  for (const uint32_t type : {0u, 2u, UINT32_MAX}) {
    const uint64_t before = stats.bad_replies;
    EXPECT_EQ(reply_with(type, 24), CallStatus::kBadReply) << type;
    EXPECT_EQ(stats.bad_replies, before + 1);
  }
  // What the memory holds behind the bytes that were returned is nobody's reply.
  EXPECT_EQ(reply_with(1, 4), CallStatus::kBadReply);
  EXPECT_EQ(reply_with(1, 24), CallStatus::kReplied);
  EXPECT_EQ(stats.xid_mismatch, 0u);
  EXPECT_EQ(memory->region_count(), 0u);
}

// Proves CMPD-3.2-4: the key of another call is gone, so that call's memory is in an unknown state.
TEST_F(ClientTest, AnInvalidatedKeyOfAnotherCallEndsTheConnection) {
  receive(inline_reply(submit()[0]));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink};
  const std::vector<uint32_t> with_memory = submit({.message = {}, .writes = writes});
  const uint32_t plain = submit()[0];
  receive(inline_reply(plain), verbs::Rkey(with_memory[7]));
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(outcome(), CallStatus::kConnectionLost);
  EXPECT_EQ(outcome(), CallStatus::kConnectionLost);
  EXPECT_EQ(outcome(), std::nullopt);
}

// Proves RPCRDMA-3.3.1-18, RPCRDMA-4.4.1-3: memory is shut off at once, the credit comes back with the late reply.
TEST_F(ClientTest, ATimedOutCallKeepsItsCreditUntilItsReplyComes) {
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink};
  const std::vector<uint32_t> words = submit({.user_data = 4, .message = {}, .writes = writes});
  now = now + options.call_timeout;
  client->on_deadline(now);
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_EQ(outcome(), CallStatus::kTimeout);
  EXPECT_EQ(reply.user_data, 4u);
  EXPECT_EQ(client->calls_in_flight(), 1u);
  EXPECT_EQ(client->calls_allowed(), 0u);
  EXPECT_TRUE(client->next_deadline().is_never());
  receive(Words({words[0], 1, 8, 0, 0, 1, 1})
              .segment(words[7], 0, (uint64_t{words[9]} << 32) | words[10])
              .add({0, 0})
              .raw(rpc_reply(words[0]).bytes()));
  EXPECT_EQ(outcome(), std::nullopt) << "one outcome per call";
  EXPECT_EQ(client->calls_in_flight(), 0u);
  EXPECT_EQ(client->calls_allowed(), 8u);
  EXPECT_EQ(stats.call_timeouts, 1u);
}

// Proves RPCRDMA-3.3.1-18, RPCRDMA-4.4.1-3: as the rows have it, with four calls cancelled at a grant of four.
TEST_F(ClientTest, CancelledCallsKeepTheirCreditsUntilTheirRepliesCome) {
  receive(inline_reply(submit()[0], 4));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink};
  std::vector<uint32_t> xids;
  for (uint64_t i = 0; i < 4; ++i) {
    xids.push_back(submit({.user_data = i, .message = {}, .writes = writes})[0]);
    EXPECT_EQ(client->last_xid(), xids.back());
  }
  EXPECT_EQ(memory->region_count(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(client->cancel(xids[i]).ok());
    EXPECT_EQ(outcome(), CallStatus::kCancelled);
    EXPECT_EQ(reply.user_data, i);
    EXPECT_EQ(memory->region_count(), 3 - i) << "its memory is its owner's again";
    EXPECT_EQ(client->cancel(xids[i]).error(), Error::kBadValue) << "once";
  }
  EXPECT_EQ(client->cancel(xids[0] + 1000).error(), Error::kBadValue);
  EXPECT_EQ(client->calls_in_flight(), 4u);
  EXPECT_EQ(client->calls_allowed(), 0u);
  EXPECT_TRUE(client->next_deadline().is_never());
  receive(inline_reply(xids[2], 4));
  EXPECT_EQ(outcome(), std::nullopt) << "one outcome per call";
  EXPECT_EQ(client->calls_allowed(), 1u);
  EXPECT_EQ(stats.calls_cancelled, 4u);
  EXPECT_EQ(stats.call_timeouts, 0u);
}

TEST_F(ClientTest, ALateReplyBeforeTheTimeoutIsPolledFreesTheSlotOnce) {
  const uint32_t xid = submit()[0];
  now = now + options.call_timeout;
  client->on_deadline(now);
  receive(inline_reply(xid));
  EXPECT_EQ(client->calls_in_flight(), 0u);
  EXPECT_EQ(client->calls_allowed(), 7u);
  EXPECT_EQ(outcome(), CallStatus::kTimeout);
  EXPECT_EQ(client->calls_allowed(), 8u);
}

TEST_F(ClientTest, CallsTimeOutOneByOne) {
  receive(inline_reply(submit()[0]));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  submit({.user_data = 1, .message = {}});
  const Instant first = now;
  now = now + Duration::seconds(1);
  submit({.user_data = 2, .message = {}});
  client->on_deadline(first + options.call_timeout);
  EXPECT_EQ(outcome(), CallStatus::kTimeout);
  EXPECT_EQ(reply.user_data, 1u);
  EXPECT_EQ(outcome(), std::nullopt);
  EXPECT_EQ(client->next_deadline(), now + options.call_timeout);
}

// Proves RPCRDMA-8.1.3-5.
TEST_F(ClientTest, LosingTheConnectionEndsEveryCallOnce) {
  receive(inline_reply(submit()[0]));
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink};
  submit({.user_data = 1, .message = {}});
  client->on_deadline(now + options.call_timeout);
  submit({.user_data = 2, .message = {}, .writes = writes});
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  client->on_completions(now);
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(outcome(), CallStatus::kTimeout);
  EXPECT_EQ(outcome(), CallStatus::kConnectionLost);
  EXPECT_EQ(reply.user_data, 2u);
  EXPECT_EQ(outcome(), std::nullopt);
  EXPECT_EQ(client->calls_in_flight(), 0u);
  EXPECT_EQ(client->calls_allowed(), 0u);
  EXPECT_EQ(try_submit().error(), Error::kBadState);
}

}  // namespace
}  // namespace cw::rpcrdma
