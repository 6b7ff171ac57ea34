// Client and server endpoint back to back: every shape of call and reply, then random ones in random order.
#include <map>

#include "rpcrdma/ulb/procedures.h"
#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/loopback.h"

namespace cw::rpcrdma {
namespace {

class LoopbackTest : public ::testing::Test {
 protected:
  // Runs one call to its end and gives its outcome.
  ClientReply run(Loopback& loop, BenchCall& bench) {
    ClientCall call;
    bench.prepare(loop.client_pool, call);
    EXPECT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
    loop.run();
    return loop.take_reply();
  }
  LoopbackOptions options;
};

// Proves RPCRDMA-3.3.3-2.
TEST_F(LoopbackTest, NullCallsAndTheirRepliesAreInline) {
  Loopback loop(options);
  BenchCall bench;
  const ClientReply reply = run(loop, bench);
  EXPECT_EQ(reply.status, CallStatus::kReplied);
  EXPECT_TRUE(bench.check(reply));
  EXPECT_EQ(loop.client->credits(), options.server.credits);
  EXPECT_EQ(loop.shared->stats.messages_in[static_cast<size_t>(MessageKind::kMsg)], 1u);
  EXPECT_EQ(loop.shared->stats.messages_out[static_cast<size_t>(MessageKind::kMsg)], 1u);
  ASSERT_EQ(loop.shared->done.size(), 1u);
  EXPECT_EQ(loop.shared->done.pop().procedure, procedure_row(kBenchProgram, kBenchVersion, 0, 0));
}

// Proves RPCRDMA-3.4.5.2-1, RPCRDMA-3.4.5.2-5, RPCRDMA-3.4-1: chunks go back where they came from, with the roundup that they
// lack.
TEST_F(LoopbackTest, ReadChunksOfEveryRemainderAreSplicedIn) {
  for (const uint32_t bytes : {1u, 2u, 3u, 4u, 5u, 255u, 1021u, 70'000u}) {
    SCOPED_TRACE(bytes);
    Loopback loop(options);
    BenchCall bench{.procedure = BenchProcedure::kSink, .seed = 3, .bytes = bytes, .read_chunk = true};
    EXPECT_TRUE(bench.check(run(loop, bench)));
    EXPECT_EQ(loop.shared->stats.chunks[static_cast<size_t>(ChunkKind::kRead)].bytes, bytes);
    loop.finish();
  }
}

// Proves RPCRDMA-3.4.6.2-2, RPCRDMA-3.4.6.2-3, RPCRDMA-2.2.4.2-3, RPCRDMA-4.3.2-3, RPCRDMA-4.3.2.1-1: the returned length is
// that of the item.
TEST_F(LoopbackTest, WriteChunksOfEveryRemainderTakeTheData) {
  for (const uint32_t bytes : {1u, 2u, 3u, 4u, 5u, 255u, 1021u, 70'000u}) {
    SCOPED_TRACE(bytes);
    Loopback loop(options);
    BenchCall bench{
        .procedure = BenchProcedure::kSource, .seed = 9, .bytes = bytes, .write_chunk = true, .write_room = bytes + 100};
    ClientReply reply = run(loop, bench);
    EXPECT_EQ(reply.write_bytes[0], bytes);
    EXPECT_TRUE(bench.check(reply));
    reply.message.clear();
    loop.finish();
  }
}

// Proves RPCRDMA-3.5.3-2, RPCRDMA-3.5.3-12, RPCRDMA-3.5.3-13, RPCRDMA-8.2.2.3-5, RPCRDMA-8.2.2.3-2: both ends long.
TEST_F(LoopbackTest, LongCallsAndLongRepliesTravelInChunks) {
  Loopback loop(options);
  BenchCall bench{.procedure = BenchProcedure::kEcho, .seed = 5, .bytes = 50'001, .long_call = true, .reply_room = 60'000};
  const ClientReply reply = run(loop, bench);
  EXPECT_TRUE(bench.check(reply));
  EXPECT_EQ(reply.reply_chunk_bytes, kBenchEchoReplyBytes + 50'004);
  EXPECT_TRUE(reply.message.empty());
  EXPECT_EQ(loop.shared->stats.messages_in[static_cast<size_t>(MessageKind::kNomsg)], 1u);
  EXPECT_EQ(loop.shared->stats.messages_out[static_cast<size_t>(MessageKind::kNomsg)], 1u);
}

// Proves RPCRDMA-4.5.3-4: what fits nowhere is said before anything is written.
TEST_F(LoopbackTest, AReplyThatFitsNowhereIsAnError) {
  for (const uint32_t reply_room : {0u, 2000u}) {
    Loopback loop(options);
    BenchCall bench{.procedure = BenchProcedure::kSource, .seed = 1, .bytes = 5000, .reply_room = reply_room};
    EXPECT_EQ(run(loop, bench).status, CallStatus::kErrorChunk);
    EXPECT_EQ(loop.shared->stats.errors_out_chunk, 1u);
    BenchCall after;
    EXPECT_TRUE(after.check(run(loop, after)));
    loop.finish();
  }
}

TEST_F(LoopbackTest, AnItemLongerThanItsWriteChunkIsAnError) {
  Loopback loop(options);
  BenchCall bench{.procedure = BenchProcedure::kSource,
                  .seed = 1,
                  .bytes = 5000,
                  .write_chunk = true,
                  .write_room = 4999,
                  .reply_room = 9000};
  EXPECT_EQ(run(loop, bench).status, CallStatus::kErrorChunk);
}

// Proves RPCRDMA-4.3.2.2-3, RPCRDMA-4.3.2.2-5: a failed call returns its Write chunk unused.
TEST_F(LoopbackTest, AFailedCallReturnsItsChunksUnused) {
  Loopback loop(options);
  BenchCall bench{.procedure = BenchProcedure::kSource,
                  .bytes = kBenchBytesMax + 1,
                  .write_chunk = true,
                  .write_room = 100,
                  .reply_room = 100};
  const ClientReply reply = run(loop, bench);
  EXPECT_EQ(reply.status, CallStatus::kReplied);
  EXPECT_EQ(reply.write_bytes[0], 0u);
  EXPECT_EQ(reply.reply_chunk_bytes, 0u);
  EXPECT_EQ(*bench_status({.message = &reply.message}), AcceptStatus::kGarbageArguments);
}

// Proves CMPD-4.1-3, CMPD-3.2-3, CMPD-4.1-1: one handle by the server, the others by the client.
TEST_F(LoopbackTest, RepliesInvalidateOneHandleWhenBothSidesAgreed) {
  options.remote_invalidation = true;
  Loopback loop(options);
  BenchCall bench{
      .procedure = BenchProcedure::kEcho, .seed = 5, .bytes = 20'000, .read_chunk = true, .write_chunk = true, .reply_room = 100};
  EXPECT_TRUE(bench.check(run(loop, bench)));
  EXPECT_EQ(loop.shared->stats.remote_invalidations, 1u);
  EXPECT_EQ(loop.client_stats.remote_invalidations, 1u);
  EXPECT_EQ(loop.memory.region_count(), 0u);
  // CMPD-4.1-3: a call without memory has nothing to invalidate.
  BenchCall null;
  EXPECT_TRUE(null.check(run(loop, null)));
  EXPECT_EQ(loop.shared->stats.remote_invalidations, 1u);
}

// Which outcome RFC 8166 demands.
CallStatus expected_status(const BenchCall& bench, const LoopbackOptions& options) {
  const bool in_stream = (bench.procedure == BenchProcedure::kEcho || bench.procedure == BenchProcedure::kSource) &&
                         !(bench.write_chunk && bench.bytes > 0);
  const uint32_t segment = options.client.segment_bytes_max == 0 ? UINT32_MAX : options.client.segment_bytes_max;
  const auto segments = [segment](uint64_t bytes) { return (bytes + segment - 1) / segment; };
  const uint64_t write_segments = bench.write_chunk ? segments(bench.write_room) : 0;
  const uint64_t header =
      28 + (bench.write_chunk ? 8 + 16 * write_segments : 0) + (bench.reply_room > 0 ? 4 + 16 * segments(bench.reply_room) : 0);
  uint64_t stream = kAcceptedReplyBytes;
  stream += bench.procedure == BenchProcedure::kEcho ? 4 : 0;
  stream += bench.procedure == BenchProcedure::kSource ? 12 : 0;
  stream += bench.procedure == BenchProcedure::kSink ? 8 : 0;
  stream += in_stream ? (bench.bytes + 3) / 4 * 4 : 0;
  if (header > options.server_inline_bytes || (header + stream > options.server_inline_bytes && stream > bench.reply_room)) {
    return CallStatus::kErrorChunk;
  }
  return CallStatus::kReplied;
}

// Random shapes, several in flight, both ends stepped in random order; memory may be scarce.
class RandomLoopback : public ::testing::TestWithParam<uint64_t> {};

// Proves RPCRDMA-2.2.4.1-1, RPCRDMA-2.3.2-1, RPCRDMA-2.2.2-2, RPCRDMA-3.3.1-16, RPCRDMA-3.3.2-2, RPCRDMA-3.4.3-1,
// RPCRDMA-3.4.5-7, RPCRDMA-3.5.3-8, RPCRDMA-4-5, RPCRDMA-4.3.2.2-6, RPCRDMA-6.3-4, RPCRDMA-3.3.1-4, RPCRDMA-3.1-1,
// RPCRDMA-4.6.1-1, RPCRDMA-4.6.2-1, RPCRDMA-4.2.4-3, RPCRDMA-4.2.4-12, RPCRDMA-4.6-1, RPCRDMA-4.2.2-1.
TEST_P(RandomLoopback, EveryCallHasExactlyOneOutcomeAndTheRightOne) {
  const uint64_t seed = GetParam();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  SeededRandom random(seed);
  LoopbackOptions options;
  constexpr uint32_t kInline[] = {1024, 4096};
  constexpr uint32_t kMtu[] = {256, 1024, 2048};
  constexpr uint32_t kSegments[] = {0, 4096, 8191};
  options.client_inline_bytes = kInline[random.next_below(2)];
  options.server_inline_bytes = kInline[random.next_below(2)];
  options.mtu = kMtu[random.next_below(3)];
  options.client.segment_bytes_max = kSegments[random.next_below(3)];
  options.remote_invalidation = random.next_below(2) == 0;
  options.server.credits = 1 + random.next_below(12);
  options.client.credits_wanted = 1 + random.next_below(16);
  options.server.reads_in_flight_max = 1 + random.next_below(8);
  options.slots = 2 + random.next_below(12);  // fewer than credits at times
  options.send_queue_depth = 3 + random.next_below(40);
  const bool scarce = random.next_below(3) == 0;
  options.views = scarce ? 330 : 4096;  // an ECHO of 64 KiB in packets of 256 needs 260
  Loopback loop(options, seed);

  constexpr uint64_t kCalls = 60;
  std::map<uint64_t, std::unique_ptr<BenchCall>> pending;
  std::deque<Call> working;
  uint64_t submitted = 0;
  uint64_t idle = 0;
  const auto serve = [&](Call& call) {
    Chain reply;
    if (!loop.programs.dispatch(*call.context, call.message, loop.server_pool, reply)) {
      return false;  // out of views: later
    }
    call.message.clear();
    loop.server->reply(loop.now, call.id, std::move(reply));
    return true;
  };
  while ((submitted < kCalls || !pending.empty()) && idle < 100'000) {
    ++idle;
    loop.now = loop.now + Duration::us(1 + random.next_below(300));
    switch (random.next_below(6)) {
      case 0: {
        if (submitted == kCalls || loop.client->calls_allowed() == 0) {
          break;
        }
        auto bench = std::make_unique<BenchCall>(random_bench_call(random));
        ClientCall call;
        call.user_data = submitted;
        bench->prepare(loop.client_pool, call);
        const Status status = loop.client->submit(loop.now, std::move(call));
        if (status.ok()) {
          pending.emplace(submitted++, std::move(bench));
        } else {
          ASSERT_TRUE(status.error() == Error::kLimit || status.error() == Error::kNoResources);
        }
        break;
      }
      case 1:
        static_cast<void>(loop.link.step(0));
        break;
      case 2:
        static_cast<void>(loop.link.step(1));
        break;
      case 3:
        loop.server->on_completions(loop.now);
        if (Call call; loop.server->poll_call(loop.now, call)) {
          working.push_back(std::move(call));
        }
        break;
      case 4:
        if (!working.empty()) {
          // Answers overtake each other.
          std::swap(working.front(), working[random.next_below(static_cast<uint32_t>(working.size()))]);
          if (serve(working.front())) {
            working.pop_front();
          }
        }
        if (loop.server->next_deadline() <= loop.now) {
          loop.server->on_deadline(loop.now);
        }
        break;
      default:
        loop.client->on_completions(loop.now);
        break;
    }
    loop.check();
    ASSERT_FALSE(HasFatalFailure());
    for (ClientReply reply; loop.client->poll_reply(reply);) {
      idle = 0;
      const auto found = pending.find(reply.user_data);
      ASSERT_NE(found, pending.end()) << "a second outcome";
      ASSERT_EQ(reply.status, expected_status(*found->second, options))
          << to_string(reply.status) << " procedure " << static_cast<int>(found->second->procedure) << " bytes "
          << found->second->bytes;
      if (reply.status == CallStatus::kReplied) {
        ASSERT_TRUE(found->second->check(reply));
      }
      pending.erase(found);
    }
  }
  EXPECT_EQ(submitted, kCalls);
  EXPECT_TRUE(pending.empty());
  EXPECT_FALSE(loop.server->failed());
  EXPECT_FALSE(loop.client->failed());
  EXPECT_EQ(loop.link.stats().access_errors, 0u);
  // The client sends and exposes, the server reads and writes; nobody sends what is withdrawn, the client no errors either.
  const auto& sent = loop.link.stats().procedures;
  EXPECT_EQ(sent[0][2] + sent[0][3] + sent[0][4] + sent[0][5], 0u);
  EXPECT_EQ(sent[1][2] + sent[1][3] + sent[1][5], 0u);
  EXPECT_EQ(sent[0][0] + sent[0][1], kCalls);
  EXPECT_EQ(loop.link.stats().other_versions, 0u);
  for (const test::WorkKind kind : loop.client_qp.history()) {
    EXPECT_EQ(kind, test::WorkKind::kSend);
  }
  working.clear();
  loop.finish();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoopback, ::testing::Range<uint64_t>(1, 61));

}  // namespace
}  // namespace cw::rpcrdma
