#include "rpcrdma/backend/bench_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/backend/bench_client.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {
namespace {

class BenchProgramTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(programs.add(bench)); }
  // Runs a call given as bytes; the reply stays in `reply`.
  bool dispatch(Bytes raw) {
    message = chain_of(pool, raw, 64);
    reply.clear();
    return programs.dispatch(inspect_call(message), message, pool, reply);
  }
  AcceptStatus status_of(const Words& call) {
    EXPECT_TRUE(dispatch(call.bytes()));
    const auto status = bench_status({.message = &reply});
    return status.ok() ? *status : AcceptStatus::kSystemError;
  }
  // A call that the client helper built, with its XID set.
  void run_built() {
    store_be32(message.head()->data, kXid);
    reply.clear();
    ASSERT_TRUE(programs.dispatch(inspect_call(message), message, pool, reply));
    EXPECT_EQ(words_of(reply)[0], kXid);
  }

  HeapBufferPool pool{512, 512, 256};
  BenchProgram bench;
  ProgramRegistry programs;
  Chain message;
  Chain reply;
};

TEST_F(BenchProgramTest, NullAnswersNothing) {
  EXPECT_TRUE(dispatch(rpc_call(kXid).bytes()));
  EXPECT_EQ(words_of(reply), (std::vector<uint32_t>{kXid, 1, 0, 0, 0, 0}));
  EXPECT_EQ(status_of(rpc_call(kXid).add({0})), AcceptStatus::kGarbageArguments);
}

// Proves RPCRDMA-2.2.4.2-1, RPCRDMA-2.2.4.2-2.
TEST_F(BenchProgramTest, EchoGivesBackEveryLength) {
  for (const uint32_t bytes : {0u, 1u, 2u, 3u, 4u, 255u, 256u, 257u, 5000u}) {
    SCOPED_TRACE(bytes);
    std::vector<uint8_t> data(bytes);
    fill_bench_pattern(bytes, 0, data);
    message.clear();
    ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, message));
    run_built();
    EXPECT_EQ(reply.bytes(), kBenchEchoReplyBytes + xdr_padded(bytes));
    EXPECT_TRUE(check_bench_echo({.message = &reply}, data));
    if (bytes > 0) {
      std::vector<uint8_t> other = data;
      other.back() ^= 1;
      EXPECT_FALSE(check_bench_echo({.message = &reply}, other));
    }
  }
}

TEST_F(BenchProgramTest, LongEchoesShareTheCallsBuffers) {
  std::vector<uint8_t> data(5000, 1);
  ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, message));
  const uint32_t before = pool.in_use();
  run_built();
  EXPECT_EQ(reply.head()->next->data, message.head()->data + kBenchEchoPosition);
  EXPECT_EQ(pool.in_use(), before + reply.buffer_count());
  // The call may go before the reply.
  message.clear();
  EXPECT_TRUE(check_bench_echo({.message = &reply}, data));
}

TEST_F(BenchProgramTest, SourceMakesItsPatternAndChecksum) {
  for (const uint32_t bytes : {0u, 1u, 7u, 8u, 9u, 511u, 512u, 513u, 20'001u}) {
    SCOPED_TRACE(bytes);
    message.clear();
    ASSERT_TRUE(build_bench_source(pool, bytes, 42, message));
    run_built();
    EXPECT_TRUE(check_bench_source({.message = &reply}, bytes, 42));
    EXPECT_EQ(check_bench_source({.message = &reply}, bytes, 43), bytes == 0);
  }
}

TEST_F(BenchProgramTest, ThePatternDoesNotDependOnHowItIsCut) {
  std::vector<uint8_t> whole(200);
  fill_bench_pattern(9, 0, whole);
  for (size_t first = 0; first <= 20; ++first) {
    for (size_t second = 0; second <= 20; ++second) {
      std::vector<uint8_t> parts(200);
      fill_bench_pattern(9, 0, MutableBytes(parts).first(first));
      fill_bench_pattern(9, first, MutableBytes(parts).subspan(first, second));
      fill_bench_pattern(9, first + second, MutableBytes(parts).subspan(first + second));
      ASSERT_EQ(parts, whole);
    }
  }
}

TEST_F(BenchProgramTest, SinkChecksWhatItGets) {
  std::vector<uint8_t> data(1234);
  fill_bench_pattern(1, 0, data);
  ASSERT_TRUE(build_bench_sink(pool, data, BenchData::kInStream, message));
  run_built();
  EXPECT_TRUE(check_bench_sink({.message = &reply}, data));
  EXPECT_EQ(bench_checksum(message, kBenchSinkPosition, 1234), bench_checksum(data));
  EXPECT_EQ(status_of(rpc_call(kXid, 3).add({0x1234, 4, 0xffff'ffff})), AcceptStatus::kSystemError);
}

TEST_F(BenchProgramTest, MalformedArgumentsAreGarbage) {
  for (const uint32_t procedure : {1u, 2u, 3u}) {
    SCOPED_TRACE(procedure);
    EXPECT_EQ(status_of(rpc_call(kXid, procedure)), AcceptStatus::kGarbageArguments);
    EXPECT_EQ(status_of(rpc_call(kXid, procedure).add({0xffff'ffff})), AcceptStatus::kGarbageArguments);
    EXPECT_EQ(status_of(rpc_call(kXid, procedure).add({0xffff'ffff, 0xffff'ffff, 0xffff'ffff})), AcceptStatus::kGarbageArguments);
    EXPECT_EQ(status_of(rpc_call(kXid, procedure).add({kBenchBytesMax + 1, 0, 0})), AcceptStatus::kGarbageArguments);
    EXPECT_EQ(status_of(rpc_call(kXid, procedure).add({0, 0, 0, 0, 0})), AcceptStatus::kGarbageArguments) << "too many bytes";
  }
  EXPECT_EQ(status_of(rpc_call(kXid, 1).add({3, 0x0102'0300}).cut(47)), AcceptStatus::kGarbageArguments) << "no roundup";
}

TEST_F(BenchProgramTest, WhatNobodyServesIsSaid) {
  EXPECT_EQ(status_of(rpc_call(kXid, 9)), AcceptStatus::kProcedureUnavailable);
  EXPECT_EQ(status_of(rpc_call(kXid, 0, 100'003, 3)), AcceptStatus::kProgramUnavailable);
  EXPECT_TRUE(dispatch(rpc_call(kXid, 0, kBenchProgram, 7).bytes()));
  EXPECT_EQ(words_of(reply), (std::vector<uint32_t>{kXid, 1, 0, 0, 0, 2, 1, 1}));
  // RFC 5531 9: MSG_DENIED, RPC_MISMATCH, 2..2.
  EXPECT_TRUE(dispatch(Words{kXid, 0, 3, kBenchProgram, 1, 0, 0, 0, 0, 0}.bytes()));
  EXPECT_EQ(words_of(reply), (std::vector<uint32_t>{kXid, 1, 1, 0, 2, 2}));
}

// B6 of tests/requirements/hostile.md: credentials with impossible lengths, and headers cut off anywhere.
TEST_F(BenchProgramTest, BrokenHeadersAreGarbage) {
  EXPECT_EQ(status_of(Words{kXid, 0, 2, kBenchProgram, 1, 0, 6, 0xffff'ffff, 0, 0}), AcceptStatus::kGarbageArguments);
  for (size_t bytes = 4; bytes < 40; ++bytes) {
    EXPECT_EQ(status_of(rpc_call(kXid).cut(bytes)), AcceptStatus::kGarbageArguments) << bytes;
  }
}

TEST_F(BenchProgramTest, AnEmptyPoolLeavesNoHalfReply) {
  std::vector<uint8_t> data(3000, 7);
  ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, message));
  store_be32(message.head()->data, kXid);
  const CallContext context = inspect_call(message);
  const uint32_t before = pool.in_use();
  for (uint32_t views = 0; views < 6; ++views) {
    HeapBufferPool small(1, 512, views);
    EXPECT_EQ(programs.dispatch(context, message, small, reply), true);  // views come from the call's own pool
    reply.clear();
  }
  Chain source_call;
  ASSERT_TRUE(build_bench_source(pool, 3000, 1, source_call));
  for (uint32_t buffers = 0; buffers < 6; ++buffers) {
    HeapBufferPool small(buffers, 512, 0);
    EXPECT_FALSE(programs.dispatch(inspect_call(source_call), source_call, small, reply));
    EXPECT_TRUE(reply.empty());
    EXPECT_EQ(small.in_use(), 0u);
  }
  source_call.clear();
  EXPECT_EQ(pool.in_use(), before);
}

// Filling most of a large reply and giving it up, turn after turn, took a core's time from those whose replies had buffers.
TEST_F(BenchProgramTest, SourceFillsNothingWhenThereIsTooLittleRoom) {
  HeapBufferPool small(5, 512, 0);
  const auto each_buffer = [&](auto&& look) {
    Chain all;
    while (Buffer* buffer = small.allocate_one()) {
      buffer->size = static_cast<uint32_t>(buffer->tailroom().size());
      look(MutableBytes(buffer->data, buffer->size));
      all.push_back(buffer);
    }
  };
  static constexpr uint8_t kUntouched = 0xa5;
  each_buffer([](MutableBytes raw) { std::ranges::fill(raw, kUntouched); });
  ASSERT_TRUE(build_bench_source(pool, 3000, 1, message));
  EXPECT_FALSE(programs.dispatch(inspect_call(message), message, small, reply));
  size_t touched = 0;
  each_buffer([&](MutableBytes raw) { touched += std::ranges::count(raw, kUntouched) < 200 ? 1 : 0; });
  EXPECT_EQ(touched, 0u) << "but for the head of the reply";
}

// A call that came in one packet: nobody reads its Buffer behind the program.
class InPlace : public BenchProgramTest {
 protected:
  // `headroom`: of what came before it.
  void receive(const Chain& call, uint32_t headroom, BufferPool& from) {
    message.clear();
    Buffer* buffer = from.allocate_one();
    ASSERT_NE(buffer, nullptr);
    buffer->headroom_bytes = headroom;
    buffer->size = static_cast<uint32_t>(call.bytes());
    call.copy_to(0, {buffer->data, buffer->size});
    store_be32(buffer->data, kXid);
    message.push_back(buffer);
  }
  bool answer(BufferPool& packets) {
    reply.clear();
    return programs.dispatch(inspect_call(message), message, {packets, pool, &message}, reply);
  }
};

TEST_F(InPlace, SmallAnswersTakeTheCallsOwnBuffer) {
  HeapBufferPool one(1, 512, 0);  // no room for another one
  for (const uint32_t bytes : {0u, 1u, 2u, 3u, 4u, 63u, 64u, 256u}) {
    SCOPED_TRACE(bytes);
    std::vector<uint8_t> data(bytes);
    fill_bench_pattern(bytes, 0, data);
    Chain call;
    ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, call));
    receive(call, 82, one);
    const Buffer* own = message.head();
    ASSERT_TRUE(answer(one));
    EXPECT_TRUE(message.empty());
    EXPECT_EQ(reply.head(), own);
    EXPECT_EQ(words_of(reply)[0], kXid);
    EXPECT_TRUE(check_bench_echo({.message = &reply}, data));
    EXPECT_GT(own->headroom_bytes, 82u) << "the call's header is longer than the reply's";
    reply.clear();
  }
  Chain null;
  ASSERT_TRUE(build_bench_null(pool, null));
  receive(null, 82, one);
  const Buffer* own = message.head();
  ASSERT_TRUE(answer(one));
  EXPECT_EQ(reply.head(), own);
  EXPECT_EQ(words_of(reply), (std::vector<uint32_t>{kXid, 1, 0, 0, 0, 0}));
  reply.clear();
  EXPECT_EQ(one.in_use(), 0u);
}

TEST_F(InPlace, WhatSomebodyElseMaySeeIsLeftAlone) {
  const std::vector<uint8_t> data(20, 3);
  Chain call;
  ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, call));
  HeapBufferPool packets(2, 512, 0);
  const auto expect_another = [&](BufferPool& from) {
    const Buffer* own = message.head();
    ASSERT_TRUE(answer(from));
    EXPECT_EQ(message.head(), own);
    EXPECT_NE(reply.head(), own);
    EXPECT_TRUE(check_bench_echo({.message = &reply}, data));
    Chain again;
    EXPECT_TRUE(programs.dispatch(inspect_call(message), message, pool, again)) << "the call is as it was";
    EXPECT_TRUE(check_bench_echo({.message = &again}, data));
  };
  receive(call, 0, packets);  // a view, or what was cut off is somebody's
  expect_another(packets);
  receive(call, 82, pool);  // not as short as may be
  expect_another(packets);
  // Nobody said that it may be taken.
  receive(call, 82, packets);
  reply.clear();
  ASSERT_TRUE(programs.dispatch(inspect_call(message), message, {packets, pool}, reply));
  EXPECT_FALSE(message.empty());
  message.clear();
  reply.clear();
}

TEST_F(InPlace, ACallThatIsRefusedKeepsItsMessage) {
  Chain null;
  ASSERT_TRUE(build_bench_null(pool, null));
  HeapBufferPool packets(2, 512, 0);
  receive(null, 82, packets);
  message.head()->size += 4;  // an argument, where there is none
  Buffer* longer = message.detach();
  message.push_back(longer);
  ASSERT_TRUE(answer(packets));
  EXPECT_FALSE(message.empty());
  EXPECT_EQ(words_of(reply)[5], static_cast<uint32_t>(AcceptStatus::kGarbageArguments));
  message.clear();
  reply.clear();
}

TEST_F(BenchProgramTest, TheClientInsistsOnPlacementWhereItOfferedSome) {
  std::vector<uint8_t> data(20, 3);
  ASSERT_TRUE(build_bench_echo(pool, data, BenchData::kInStream, message));
  run_built();
  // RPCRDMA-6.1-12: an eligible result that comes inline although it had a Write chunk is an error.
  EXPECT_FALSE(check_bench_echo({.message = &reply, .placed = true}, data));
  reply.trim_back(20);
  EXPECT_TRUE(check_bench_echo({.message = &reply, .placed = true, .placed_data = data}, data));
  EXPECT_FALSE(check_bench_echo({.message = &reply, .placed = true, .placed_data = Bytes(data).first(19)}, data));
}

class OtherProgram final : public Program {
 public:
  explicit OtherProgram(uint32_t version) : version_(version) {}
  uint32_t program() const override { return 0x2000'0000; }
  uint32_t version() const override { return version_; }
  bool call(const CallContext&, const Chain&, const ReplyPools&, Chain&) override { return false; }

 private:
  uint32_t version_;
};

TEST_F(BenchProgramTest, TheRegistryIsBoundedAndTellsVersionRanges) {
  BenchProgram again;
  EXPECT_FALSE(programs.add(again));
  std::vector<std::unique_ptr<OtherProgram>> others;
  for (uint32_t version = 10; version < 10 + ProgramRegistry::kProgramsMax - 1; ++version) {
    others.push_back(std::make_unique<OtherProgram>(version));
    EXPECT_TRUE(programs.add(*others.back()));
  }
  OtherProgram one_more(99);
  EXPECT_FALSE(programs.add(one_more));
  EXPECT_TRUE(dispatch(rpc_call(kXid, 0, 0x2000'0000, 5).bytes()));
  EXPECT_EQ(words_of(reply), (std::vector<uint32_t>{kXid, 1, 0, 0, 0, 2, 10, 16}));
}

}  // namespace
}  // namespace cw::rpcrdma
