// Rules of RFC 8166 and RFC 8797 for the requester, one by one, where no other test meets them.
#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/client_fixture.h"
#include "tests/unit/endpoint/loopback.h"

namespace cw::rpcrdma {
namespace {

class ClientRules : public ClientFixture {
 protected:
  // An ECHO whose argument is in `memory`.
  Status try_echo(std::vector<uint8_t>& source, uint32_t position = 44, std::span<const MutableBytes> writes = {}) {
    const ReadChunkSource read{.position = position, .memory = source};
    return try_submit({.message = chain_of(pool, rpc_call(0, 1).add({static_cast<uint32_t>(source.size())}).bytes()),
                       .reads = {&read, 1},
                       .writes = writes});
  }
  std::vector<uint32_t> last_sent() {
    const std::vector<uint32_t> words = words_of(qp->posted().back().payload);
    qp->finish();
    client->on_completions(now);
    return words;
  }
  // Opens the credits up.
  void open(uint32_t credit = 8) {
    receive(inline_reply(submit()[0], credit));
    EXPECT_EQ(outcome(), CallStatus::kReplied);
  }
};

// Proves RPCRDMA-3.3.1-1: a credit is for a transaction, whatever it moves.
TEST_F(ClientRules, ACallWithManyChunksCostsOneCredit) {
  open(4);
  std::vector<uint8_t> source(100);
  std::vector<uint8_t> sink(100);
  const MutableBytes writes[] = {sink, sink};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(client->calls_allowed(), 4u - static_cast<uint32_t>(i));
    EXPECT_TRUE(try_echo(source, 44, writes).ok());
  }
  EXPECT_EQ(try_echo(source, 44, writes).error(), Error::kNoResources);
  qp->finish_all_sends();
}

// Proves RPCRDMA-3.3.1-11, RPCRDMA-3.3.1-2: what is asked for stays the same, however many are under way, in a Long Call too.
TEST_F(ClientRules, TheRequestIsALimitAndNotACount) {
  open();
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(submit()[2], 8u);
  }
  std::vector<uint8_t> stream(60);
  EXPECT_TRUE(try_submit({.message = chain_of(pool, rpc_call(0).bytes()), .long_call = true, .long_call_memory = stream}).ok());
  EXPECT_EQ(last_sent()[2], 8u);
}

// Proves RPCRDMA-3.3.3-5: a new connection starts with one credit, whatever the one before had.
TEST_F(ClientRules, CreditsDoNotSurviveTheConnection) {
  open(8);
  EXPECT_EQ(client->calls_allowed(), 8u);
  make();
  EXPECT_EQ(client->calls_allowed(), 1u);
  submit();
  EXPECT_EQ(try_submit().error(), Error::kNoResources);
}

// Proves RPCRDMA-3.4.5-4, RPCRDMA-3.4.3-2: the Position counts from the XID of the whole stream, not from the header; a reduced
// item is
// out of the stream and costs the header one entry.
TEST_F(ClientRules, PositionsDoNotDependOnTheHeader) {
  open();
  std::vector<uint8_t> source(400, 7);
  std::vector<uint8_t> sink(50);
  const MutableBytes writes[] = {sink, sink, sink};
  size_t bare_words = 0;
  for (const size_t count : {0u, 1u, 3u}) {
    ASSERT_TRUE(try_echo(source, 44, std::span(writes).first(count)).ok());
    const std::vector<uint32_t> words = last_sent();
    EXPECT_EQ(words[5], 44u);
    bare_words = count == 0 ? words.size() : bare_words;
    EXPECT_EQ(words.size(), bare_words + 6 * count);
  }
  const Words whole = rpc_call(0, 1).add({400}).raw(source);
  ASSERT_TRUE(try_submit({.message = chain_of(pool, whole.bytes())}).ok());
  EXPECT_EQ(last_sent().size(), bare_words + 100 - 6);
}

// Proves RPCRDMA-4.3.1-1, RPCRDMA-3.4.5-6, RPCRDMA-3.5.3-5: one list, segments of a chunk adjacent and with one Position, chunks
// in
// ascending order, Position Zero in several segments too.
TEST_F(ClientRules, TheReadListGroupsSegmentsByPosition) {
  options.segment_bytes_max = 40;
  make();
  std::vector<uint8_t> stream(200);
  std::vector<uint8_t> source(90, 7);
  const ReadChunkSource read{.position = 44, .memory = source};
  ASSERT_TRUE(try_submit({.message = chain_of(pool, rpc_call(0, 1).add({90}).bytes()),
                          .reads = {&read, 1},
                          .long_call = true,
                          .long_call_memory = stream})
                  .ok());
  const std::vector<uint32_t> words = last_sent();
  std::vector<uint32_t> positions;
  std::vector<uint32_t> lengths;
  size_t at = 4;
  for (; words[at] == 1; at += 6) {
    positions.push_back(words[at + 1]);
    lengths.push_back(words[at + 3]);
  }
  EXPECT_EQ(positions, (std::vector<uint32_t>{0, 0, 44, 44, 44}));
  EXPECT_EQ(lengths, (std::vector<uint32_t>{40, 4, 40, 40, 10}));
  EXPECT_EQ(words.size(), at + 3) << "one zero ends the list, the others are empty, nothing follows";
}

// Proves RPCRDMA-6.1-5, RPCRDMA-3.4.2-2, RPCRDMA-8.2.2-2, RPCRDMA-8.2.2.3-4: what is not eligible is not reduced, nor is
// anything of
// a protected body.
TEST_F(ClientRules, CallsThatWouldReduceSomethingElseAreRefused) {
  std::vector<uint8_t> source(100);
  EXPECT_EQ(try_echo(source, 40).error(), Error::kBadValue) << "the count";
  const ReadChunkSource read{.position = 40, .memory = source};
  EXPECT_EQ(try_submit({.message = chain_of(pool, rpc_call(0).bytes()), .reads = {&read, 1}}).error(), Error::kBadValue);
  const ReadChunkSource lookup{.position = 44, .memory = source};
  EXPECT_EQ(try_submit({.message = chain_of(pool, rpc_call(0, 3, 100'003, 3).add({100}).bytes()), .reads = {&lookup, 1}}).error(),
            Error::kBadValue);
  const auto write3 = [](uint32_t service) {
    return Words{0, 0, 2, 100'003, 3, 7, 6, 20, 1, 0, 9, service, 0, 0, 0, 8, 1, 2, 0, 0, 100, 2, 100};
  };
  const ReadChunkSource data{.position = 92, .memory = source};
  for (const uint32_t service : {2u, 3u}) {
    EXPECT_EQ(try_submit({.message = chain_of(pool, write3(service).bytes()), .reads = {&data, 1}}).error(), Error::kBadValue);
  }
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_TRUE(try_submit({.message = chain_of(pool, write3(1).bytes()), .reads = {&data, 1}}).ok());
  qp->finish();
}

// Proves RPCRDMA-6.1-4: NFSv3's binding has chunks for the data of WRITE and none for MKDIR, and one of them in a call: the
// requester sends neither a second one nor one in another procedure. The server's side: ServerRules.OneWriteHasOneChunk.
TEST_F(ClientRules, ABindingSaysWhichProceduresHaveChunksAndHowMany) {
  std::vector<uint8_t> data(8);
  // File handle of 4, offset, count, stability, 8 bytes of data: they stand at 68.
  const Words write3 = rpc_call(0, 7, 100'003, 3).add({4, 9, 0, 0, 8, 2, 8});
  const ReadChunkSource one[] = {{.position = 68, .memory = data}};
  const ReadChunkSource two[] = {{.position = 48, .memory = data}, {.position = 76, .memory = data}};
  EXPECT_EQ(try_submit({.message = chain_of(pool, write3.bytes()), .reads = two}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = chain_of(pool, rpc_call(0, 9, 100'003, 3).add({4, 9, 0, 0, 8, 2, 8}).bytes()), .reads = one})
                .error(),
            Error::kBadValue)
      << "MKDIR";
  EXPECT_EQ(memory->region_count(), 0u);
  EXPECT_TRUE(try_submit({.message = chain_of(pool, write3.bytes()), .reads = one}).ok());
  qp->finish();
}

// Proves RPCRDMA-3.4.6-3, RPCRDMA-4.3.2.2-2, RPCRDMA-4.3.2.1-3: every chunk takes the longest result, or the call is not sent.
TEST_F(ClientRules, WriteChunksTakeTheLongestResult) {
  std::vector<uint8_t> memory_for_results(100);
  const MutableBytes large(memory_for_results);
  const MutableBytes small = large.first(99);
  const MutableBytes second_small[] = {large, small};
  const MutableBytes both_large[] = {large, large};
  const MutableBytes empty_first[] = {MutableBytes(), large};
  EXPECT_EQ(try_submit({.message = echo_call(), .writes = {&small, 1}, .result_bytes_max = 100}).error(), Error::kBadValue);
  EXPECT_EQ(try_submit({.message = echo_call(), .writes = second_small, .result_bytes_max = 100}).error(), Error::kBadValue);
  open();
  EXPECT_TRUE(try_submit({.message = echo_call(), .writes = both_large, .result_bytes_max = 100}).ok());
  EXPECT_TRUE(try_submit({.message = echo_call(), .writes = empty_first, .result_bytes_max = 100}).ok());
  qp->finish_all_sends();
}

// Proves RPCRDMA-3.4.6.2-1: no room for roundup is added.
TEST_F(ClientRules, WriteChunksAreAsLongAsTheirMemory) {
  std::vector<uint8_t> sink(97);
  const MutableBytes write(sink);
  EXPECT_EQ(submit({.message = echo_call(), .writes = {&write, 1}})[8], 97u);
}

// Proves RPCRDMA-4.3.3-2, RPCRDMA-4.3.3-3, RPCRDMA-3.5.3-7, RPCRDMA-6.2-1, RPCRDMA-6.2-2, CMPD-4.2-10: the longest reply, with
// the
// header that returns the lists, fits the threshold of replies or a Reply chunk; else the call is not sent.
TEST_F(ClientRules, ALongReplyNeedsAReplyChunk) {
  thresholds.send_bytes = 4096;
  make();
  open();
  EXPECT_TRUE(try_submit({.message = echo_call(), .reply_bytes_max = 1024 - 28}).ok());
  EXPECT_EQ(try_submit({.message = echo_call(), .reply_bytes_max = 1024 - 27}).error(), Error::kBadValue);
  std::vector<uint8_t> sink(10);
  const MutableBytes writes[] = {sink, sink};
  EXPECT_TRUE(try_submit({.message = echo_call(), .writes = writes, .reply_bytes_max = 1024 - 28 - 48}).ok());
  EXPECT_EQ(try_submit({.message = echo_call(), .writes = writes, .reply_bytes_max = 1024 - 27 - 48}).error(), Error::kBadValue);
  std::vector<uint8_t> reply_memory(2000);
  EXPECT_TRUE(try_submit({.message = echo_call(), .reply_memory = reply_memory, .reply_bytes_max = 2000}).ok());
  EXPECT_EQ(try_submit({.message = echo_call(), .reply_memory = reply_memory, .reply_bytes_max = 2001}).error(),
            Error::kBadValue);
  qp->finish_all_sends();
}

// Proves RPCRDMA-6.1-11, RPCRDMA-6.1-12, RPCRDMA-4.5-10: at once, as an error of the call and not as data; nothing is sent again.
TEST_F(ClientRules, RepliesThatReduceTheWrongThingEndTheirCall) {
  open();
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  const auto reply_with = [&](Chain&& message, uint32_t returned, const Words& results) {
    const std::vector<uint32_t> words = submit({.message = std::move(message), .writes = {&write, 1}});
    receive(Words({words[0], 1, 8, 0, 0, 1, 1})
                .segment(words[7], returned, (uint64_t{words[9]} << 32) | words[10])
                .add({0, 0})
                .raw(rpc_reply(words[0]).bytes())
                .raw(results.bytes()));
    EXPECT_TRUE(qp->posted().empty());
    return outcome();
  };
  EXPECT_EQ(reply_with(echo_call(), 4, Words{4}), CallStatus::kReplied);
  EXPECT_EQ(reply_with(echo_call(), 0, Words{4, 0xdddd'dddd}), CallStatus::kBadReply) << "inline although it had a chunk";
  EXPECT_TRUE(reply.message.empty());
  EXPECT_EQ(reply_with(chain_of(pool, rpc_call(0).bytes()), 4, Words{}), CallStatus::kBadReply) << "NULL has no result";
  EXPECT_EQ(reply.write_bytes[0], 0u);
  EXPECT_EQ(reply_with(chain_of(pool, rpc_call(0, 1, 100'003, 3).add({4, 1}).bytes()), 84, Words{0}), CallStatus::kBadReply);
  EXPECT_EQ(stats.ddp_violations, 3u);
  EXPECT_EQ(memory->region_count(), 0u);
}

// Proves RPCRDMA-8.2.2.2-2, RPCRDMA-8.2.2.2-3, RPCRDMA-8.2.2.3-5: what is short with AUTH_NONE is too long with the credential
// and
// verifier of RPCSEC_GSS: the call travels as a Position Zero chunk and brings a Reply chunk for the longest verifier.
TEST_F(ClientRules, LargeCredentialsMakeLongCalls) {
  constexpr uint32_t kArgumentBytes = 700;
  constexpr uint32_t kVerifierBytes = 8 + 400;
  open();
  EXPECT_TRUE(try_submit({.message = chain_of(pool, rpc_call(0, 1).add({kArgumentBytes}).zeros(kArgumentBytes).bytes()),
                          .reply_bytes_max = 24 + 700})
                  .ok());
  Words protected_call{0, 0, 2, 100'003, 4, 1, 6, 200};
  protected_call.zeros(200).add({6, 200}).zeros(200 + kArgumentBytes);
  EXPECT_EQ(try_submit({.message = chain_of(pool, protected_call.bytes())}).error(), Error::kLimit);
  std::vector<uint8_t> stream(2000);
  std::vector<uint8_t> reply_memory(24 + 700 + kVerifierBytes);
  ClientCall call{.message = chain_of(pool, protected_call.bytes()), .long_call = true, .long_call_memory = stream};
  call.reply_bytes_max = reply_memory.size();
  EXPECT_EQ(client->submit(now, std::move(call)).error(), Error::kBadValue) << "no room for the verifier";
  call.reply_memory = reply_memory;
  EXPECT_TRUE(client->submit(now, std::move(call)).ok());
  const std::vector<uint32_t> words = words_of(qp->posted().back().payload);
  EXPECT_EQ(words[3], 1u) << "RDMA_NOMSG";
  EXPECT_EQ(words[5], 0u) << "Position Zero";
  EXPECT_EQ(words[11], 0u) << "no Write list";
  EXPECT_EQ(words[12], 1u) << "a Reply chunk";
  qp->finish_all_sends();
}

// Proves RPCRDMA-4.3.2.2-8, RPCRDMA-4.3.2.2-7: what a server has written into a chunk that it returns unused is never given out.
TEST_F(ClientRules, AnUnusedChunkIsNoData) {
  std::vector<uint8_t> sink(100, 0xee);
  const MutableBytes write(sink);
  const std::vector<uint32_t> words = submit({.message = echo_call(), .writes = {&write, 1}});
  const uint64_t at = (uint64_t{words[9]} << 32) | words[10];
  auto scribbled = memory->resolve(kDomain, verbs::Rkey(words[7]), at, 50, verbs::RemoteAccess::kWrite);
  ASSERT_TRUE(scribbled.ok());
  std::fill(scribbled->begin(), scribbled->end(), uint8_t{0x66});
  receive(Words({words[0], 1, 8, 0, 0, 1, 1})
              .segment(words[7], 0, at)
              .add({0, 0})
              .raw(Words{words[0], 1, 0, 0, 0, 5}.bytes()));  // SYSTEM_ERR
  EXPECT_EQ(outcome(), CallStatus::kReplied);
  EXPECT_EQ(reply.write_bytes[0], 0u) << "no byte of it counts as a result";
  EXPECT_EQ(reply.message.bytes(), 24u);
  EXPECT_EQ(stats.chunks[static_cast<size_t>(ChunkKind::kWrite)].bytes, 0u);
}

// Proves RPCRDMA-4.4.1-2: memory that the server may read or write is left alone until the reply.
TEST_F(ClientRules, ExposedMemoryIsNotTouched) {
  std::vector<uint8_t> source(100, 0x11);
  std::vector<uint8_t> sink(100, 0x22);
  const MutableBytes write(sink);
  ASSERT_TRUE(try_echo(source, 44, {&write, 1}).ok());
  client->on_deadline(now + Duration::seconds(1));
  EXPECT_EQ(source, std::vector<uint8_t>(100, 0x11));
  EXPECT_EQ(sink, std::vector<uint8_t>(100, 0x22));
  qp->finish();
}

// Proves RPCRDMA-4.5.4-2: memory that cannot be shut off costs the connection before anyone sees the outcome.
TEST_F(ClientRules, MemoryThatCannotBeShutOffEndsTheConnectionFirst) {
  open();
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  submit({.user_data = 1, .message = {}});
  const std::vector<uint32_t> words = submit({.user_data = 2, .message = echo_call(), .writes = {&write, 1}});
  ASSERT_TRUE(memory->invalidate(kDomain, verbs::Rkey(words[7])));  // behind our back
  ASSERT_TRUE(qp->deliver(chain_of(pool, Words({words[0], 1, 8, 0, 0, 1, 1})
                                             .segment(words[7], 4, (uint64_t{words[9]} << 32) | words[10])
                                             .add({0, 0})
                                             .raw(rpc_reply(words[0]).add({4}).bytes())
                                             .bytes())));
  client->on_completions(now);
  EXPECT_TRUE(client->failed());
  EXPECT_EQ(client->calls_allowed(), 0u);
  EXPECT_TRUE(outcome().has_value());
  EXPECT_EQ(outcome(), CallStatus::kConnectionLost) << "the other call too";
}

// Proves RPCRDMA-4.2.1-3: who nobody waits for is found out before anything else is parsed.
TEST_F(ClientRules, TheXidIsLookedUpBeforeTheLists) {
  const uint32_t xid = submit()[0];
  expect_dropped(Words{xid + 1, 1, 8, 0, 7, 7, 7, 7});
  EXPECT_EQ(stats.unknown_xid, 1u);
  EXPECT_EQ(stats.malformed[static_cast<size_t>(HeaderError::kBadDiscriminant)], 0u);
}

// Proves RPCRDMA-7-3: the range is read whatever version the server speaks.
TEST_F(ClientRules, AVersionErrorOfAFutureServerIsRead) {
  receive(Words{submit()[0], 7, 16, 4, 1, 2, 7});
  EXPECT_EQ(outcome(), CallStatus::kErrorVersion);
  EXPECT_EQ(stats.errors_in_version, 1u);
}

// Proves RPCRDMA-8.1.3-1: a call without chunks exposes nothing.
TEST_F(ClientRules, InlineCallsExposeNothing) {
  submit();
  EXPECT_EQ(memory->region_count(), 0u);
}

// Proves RPCRDMA-8.1.2-1, RPCRDMA-2.3.2-3, CMPD-3.2-7: keys of 32 bits and addresses of 64, drawn anew for each call, so that
// any may
// be invalidated; no stride, none comes back soon.
TEST_F(ClientRules, KeysAreDrawnAnewForEachCall) {
  static_assert(sizeof(Segment{}.handle) == 4 && sizeof(Segment{}.offset) == 8);
  open();
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  std::vector<uint32_t> keys;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<uint32_t> words = submit({.message = echo_call(), .writes = {&write, 1}});
    EXPECT_EQ(std::count(keys.begin(), keys.end(), words[7]), 0);
    keys.push_back(words[7]);
    receive(Words({words[0], 1, 8, 0, 0, 1, 1})
                .segment(words[7], 4, (uint64_t{words[9]} << 32) | words[10])
                .add({0, 0})
                .raw(rpc_reply(words[0]).add({4}).bytes()));
    ASSERT_EQ(outcome(), CallStatus::kReplied);
  }
  std::vector<uint32_t> strides;
  for (size_t i = 1; i < keys.size(); ++i) {
    strides.push_back(keys[i] - keys[i - 1]);
  }
  std::sort(strides.begin(), strides.end());
  EXPECT_EQ(std::unique(strides.begin(), strides.end()), strides.end()) << "no stride twice";
}

// Proves CMPD-4.1-5: a Call is never a SEND with Invalidate, whatever was agreed.
TEST_F(ClientRules, CallsInvalidateNothing) {
  thresholds.remote_invalidation = true;
  make();
  open();
  std::vector<uint8_t> source(100);
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  ASSERT_TRUE(try_echo(source).ok());
  ASSERT_TRUE(try_echo(source, 44, {&write, 1}).ok());
  ASSERT_TRUE(try_submit().ok());
  for (const test::PostedWork& work : qp->posted()) {
    EXPECT_EQ(work.kind, test::WorkKind::kSend);
    EXPECT_FALSE(work.invalidate.has_value());
  }
  qp->finish_all_sends();
}

// Runs one call to its end over a loopback.
ClientReply run(Loopback& loop, BenchCall& bench) {
  ClientCall call;
  bench.prepare(loop.client_pool, call);
  EXPECT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
  loop.run();
  return loop.take_reply();
}

// Proves RPCRDMA-3.3.3-1, RPCRDMA-3.3.3-7, CMPD-3.1-2, CMPD-3.1-4, RPCRDMA-3.5.3-1: a message of exactly the
// threshold goes inline, header and payload together; one byte more goes by chunks, and no SEND is ever longer.
TEST(Thresholds, MessagesOfExactlyTheThresholdAreInline) {
  for (const uint32_t threshold : {1024u, 4096u}) {
    LoopbackOptions options;
    options.client_inline_bytes = threshold;
    options.server_inline_bytes = threshold;
    Loopback loop(options);
    BenchCall echo{.procedure = BenchProcedure::kEcho, .seed = 1, .bytes = threshold - 28 - kBenchEchoPosition};
    EXPECT_TRUE(echo.check(run(loop, echo)));
    EXPECT_EQ(loop.link.stats().longest_send, threshold);
    BenchCall source{.procedure = BenchProcedure::kSource, .seed = 2, .bytes = threshold - 28 - kBenchSourceReplyBytes};
    EXPECT_TRUE(source.check(run(loop, source)));
    EXPECT_EQ(loop.link.stats().longest_send, threshold);
    EXPECT_EQ(loop.shared->stats.messages_in[static_cast<size_t>(MessageKind::kNomsg)], 0u);
    // One byte more does not fit: refused inline, moved by a Read chunk, as RDMA_MSG still.
    BenchCall longer{.procedure = BenchProcedure::kSink, .seed = 1, .bytes = threshold - 28 - kBenchSinkPosition + 1};
    ClientCall call;
    longer.prepare(loop.client_pool, call);
    EXPECT_EQ(loop.client->submit(loop.now, std::move(call)).error(), Error::kLimit);
    call.message.clear();
    longer.read_chunk = true;
    EXPECT_TRUE(longer.check(run(loop, longer)));
    EXPECT_EQ(loop.shared->stats.messages_in[static_cast<size_t>(MessageKind::kNomsg)], 0u);
    EXPECT_EQ(loop.link.stats().longest_send, threshold);
    loop.finish();
  }
}

}  // namespace
}  // namespace cw::rpcrdma
