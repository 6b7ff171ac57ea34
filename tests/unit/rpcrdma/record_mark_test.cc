#include "rpcrdma/rpc/record_mark.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <deque>
#include <numeric>

#include "base/heap_buffer_pool.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

ByteVector counting(size_t count, uint8_t first = 0) {
  ByteVector raw(count);
  std::iota(raw.begin(), raw.end(), first);
  return raw;
}

void add_fragment(ByteVector& stream, Bytes content, bool last) {
  uint8_t mark[kRecordMarkBytes];
  write_record_mark(mark, static_cast<uint32_t>(content.size()), last);
  test::add(stream, mark);
  test::add(stream, content);
}

// Feeds bytes as a socket would, `step` at a time. False when there was no space or the stream failed.
bool feed(RecordReader& reader, Bytes stream, size_t step = SIZE_MAX) {
  while (!stream.empty()) {
    const MutableBytes space = reader.space();
    if (space.empty()) {
      return false;
    }
    const size_t count = std::min({step, space.size(), stream.size()});
    std::memcpy(space.data(), stream.data(), count);
    stream = stream.subspan(count);
    if (!reader.on_bytes(static_cast<uint32_t>(count)).ok()) {
      return false;
    }
  }
  return true;
}

class RecordMarkTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{32, 64, 16};  // a message of several fragments is admitted for the longest there may be
  RecordLimits limits{.message_bytes_max = 1000, .fragments_max = 8};
};

TEST(RecordMark, MarkIsLengthWithTheLastFragmentBit) {
  uint8_t mark[kRecordMarkBytes];
  write_record_mark(mark, 0x01020304);
  EXPECT_EQ(ByteVector(std::begin(mark), std::end(mark)), test::hex("81020304"));
  write_record_mark(mark, 5, false);
  EXPECT_EQ(ByteVector(std::begin(mark), std::end(mark)), test::hex("00000005"));
}

TEST_F(RecordMarkTest, SeveralMessagesInOneBufferBecomeViews) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(8), true);
  add_fragment(stream, counting(4, 100), true);
  add_fragment(stream, counting(12, 200), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain first;
  Chain second;
  ASSERT_TRUE(reader.poll_message(first));
  ASSERT_TRUE(reader.poll_message(second));
  EXPECT_EQ(test::contents(first), counting(8));
  EXPECT_EQ(test::contents(second), counting(4, 100));
  EXPECT_EQ(first.buffer_count(), 1u);
  Chain third;
  ASSERT_TRUE(reader.poll_message(third));
  EXPECT_EQ(test::contents(third), counting(12, 200));
  EXPECT_FALSE(reader.has_message());
  EXPECT_FALSE(reader.poll_message(third));
}

TEST_F(RecordMarkTest, AnyCutOfTheStreamGivesTheSameMessages) {
  ByteVector stream;
  add_fragment(stream, counting(100), true);
  add_fragment(stream, counting(1, 7), false);
  add_fragment(stream, {}, false);
  add_fragment(stream, counting(70, 8), false);
  add_fragment(stream, {}, true);
  add_fragment(stream, counting(3, 50), true);
  for (size_t step = 1; step <= stream.size(); ++step) {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ASSERT_TRUE(feed(reader, stream, step));
    Chain message;
    ASSERT_TRUE(reader.poll_message(message));
    EXPECT_EQ(test::contents(message), counting(100));
    ASSERT_TRUE(reader.poll_message(message));
    EXPECT_EQ(test::contents(message), counting(71, 7));
    ASSERT_TRUE(reader.poll_message(message));
    EXPECT_EQ(test::contents(message), counting(3, 50));
    EXPECT_FALSE(reader.has_message());
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(RecordMarkTest, FullBuffersAreHandedOverNotShared) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(4 * 64 - 4), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_EQ(test::contents(message), counting(4 * 64 - 4));
  EXPECT_EQ(message.buffer_count(), 4u);
  // The four Buffers and nothing else: no view, and the reader holds none.
  EXPECT_EQ(pool.in_use(), 4u);
}

TEST_F(RecordMarkTest, NewBufferAtAMessageBoundaryWhenUnderAQuarterIsLeft) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(44), true);  // 48 of 64: exactly a quarter is left
  ASSERT_TRUE(feed(reader, stream));
  EXPECT_EQ(reader.space().size(), 16u);
  stream.clear();
  add_fragment(stream, counting(4), true);  // 8 left
  ASSERT_TRUE(feed(reader, stream));
  EXPECT_EQ(reader.space().size(), 64u);
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  ASSERT_TRUE(reader.poll_message(message));
  message.clear();
  EXPECT_EQ(pool.in_use(), 1u);  // only the fresh one
}

TEST_F(RecordMarkTest, DrainedBufferIsGivenBackBeforeANewOneIsTaken) {
  HeapBufferPool one(1, 64, 4);
  RecordAdmission admission(one);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(50), true);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(feed(reader, stream));
    Chain message;
    ASSERT_TRUE(reader.poll_message(message));
    EXPECT_EQ(test::contents(message), counting(50));
  }
}

TEST_F(RecordMarkTest, WithoutMemoryOnlyTheMarkIsRead) {
  HeapBufferPool one(1, 64, 4);
  RecordAdmission admission(one);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(60), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain kept;
  ASSERT_TRUE(reader.poll_message(kept));
  EXPECT_EQ(reader.space().size(), kRecordMarkBytes);
  ASSERT_FALSE(feed(reader, stream));
  EXPECT_TRUE(reader.is_waiting());
  EXPECT_TRUE(reader.space().empty());
  EXPECT_EQ(admission.poll(), nullptr);
  kept.clear();
  ASSERT_NE(admission.poll(), nullptr);
  EXPECT_FALSE(reader.is_waiting());
  ASSERT_TRUE(feed(reader, Bytes(stream).subspan(kRecordMarkBytes)));
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_EQ(test::contents(message), counting(60));
}

TEST_F(RecordMarkTest, WithoutAViewTheMessageWaits) {
  HeapBufferPool few(4, 64, 1);
  RecordAdmission admission(few);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(4), false);
  add_fragment(stream, counting(8, 4), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain message;
  EXPECT_FALSE(reader.poll_message(message));  // two pieces of a Buffer that still grows: two views
  EXPECT_TRUE(reader.has_message());
  EXPECT_EQ(few.in_use(), 1u);
  ASSERT_TRUE(reader.space().size() > 0);
  EXPECT_FALSE(reader.failed());
}

TEST_F(RecordMarkTest, MessageWaitsForAViewAndThenComesWhole) {
  HeapBufferPool few(4, 64, 1);
  RecordAdmission admission(few);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(4), true);
  add_fragment(stream, counting(8, 4), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain first;
  Chain second;
  ASSERT_TRUE(reader.poll_message(first));
  EXPECT_FALSE(reader.poll_message(second));
  EXPECT_EQ(test::contents(first), counting(4));
  first.clear();
  ASSERT_TRUE(reader.poll_message(second));
  EXPECT_EQ(test::contents(second), counting(8, 4));
}

// B1 of tests/requirements/hostile.md
TEST_F(RecordMarkTest, MessageAtTheLimitPassesAndOneByteMoreFails) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(500), false);
  add_fragment(stream, counting(500), true);
  ASSERT_TRUE(feed(reader, stream));
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_EQ(message.bytes(), 1000u);
  message.clear();
  ByteVector longer;
  add_fragment(longer, counting(500), false);
  add_fragment(longer, counting(501), true);
  EXPECT_FALSE(feed(reader, longer));
  EXPECT_TRUE(reader.failed());
}

TEST_F(RecordMarkTest, HugeFragmentFailsAtItsMarkBeforeAnyByteIsHeld) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  const ByteVector mark = test::hex("ffffffff");
  const MutableBytes space = reader.space();
  std::memcpy(space.data(), mark.data(), mark.size());
  EXPECT_EQ(reader.on_bytes(4).error(), Error::kLimit);
  EXPECT_TRUE(reader.failed());
  EXPECT_TRUE(reader.space().empty());
}

TEST_F(RecordMarkTest, FragmentLimit) {
  for (const uint32_t fragments : {7u, 8u, 9u}) {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ByteVector stream;
    for (uint32_t i = 1; i <= fragments; ++i) {
      add_fragment(stream, counting(1), i == fragments);
    }
    EXPECT_EQ(feed(reader, stream), fragments <= 8);
    EXPECT_EQ(reader.has_message(), fragments <= 8);
  }
}

// Fragments of nothing, of one byte each, of the most that a mark can say, and without an end: what is too much is refused at
// its mark, and what is held until then is bounded by the limits and not by what the marks say.
TEST_F(RecordMarkTest, B1_FragmentsOfAnyLengthAreBoundedByTheLimits) {
  {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ByteVector one_each;
    for (uint8_t i = 0; i < 8; ++i) {
      add_fragment(one_each, ByteVector{i}, i == 7);
    }
    ASSERT_TRUE(feed(reader, one_each, 1));
    Chain message;
    ASSERT_TRUE(reader.poll_message(message));
    EXPECT_EQ(test::contents(message), counting(8));
  }
  {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ByteVector never_last;
    for (uint8_t i = 0; i < 200; ++i) {
      add_fragment(never_last, ByteVector{i}, false);
    }
    EXPECT_FALSE(feed(reader, never_last, 3));
    EXPECT_TRUE(reader.failed());
    EXPECT_LE(pool.in_use(), 2u);
  }
  for (const char* mark : {"7fffffff", "ffffffff", "00000000", "80000000", "800003e9"}) {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ByteVector stream;
    for (uint32_t i = 0; i < 100; ++i) {
      test::add(stream, test::hex(mark));
    }
    EXPECT_FALSE(feed(reader, stream));
    EXPECT_TRUE(reader.failed()) << mark;
    EXPECT_LE(pool.in_use(), 1u) << mark;
  }
  {
    RecordAdmission admission(pool);
    RecordReader reader(admission, limits);
    ByteVector lengths;  // each legal, their sum not
    add_fragment(lengths, counting(600), false);
    test::add(lengths, test::hex("80000258"));
    EXPECT_FALSE(feed(reader, lengths));
    EXPECT_TRUE(reader.failed());
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(RecordMarkTest, EndlessEmptyFragmentsFail) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  EXPECT_FALSE(feed(reader, ByteVector(400, 0)));
  EXPECT_TRUE(reader.failed());
}

TEST_F(RecordMarkTest, MessageWithoutAnByteFails) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, {}, false);
  add_fragment(stream, {}, true);
  EXPECT_FALSE(feed(reader, stream));
  EXPECT_TRUE(reader.failed());
}

TEST_F(RecordMarkTest, MessagesBeforeAFaultCanStillBePolled) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(8), true);
  test::add(stream, test::hex("80000000"));
  EXPECT_FALSE(feed(reader, stream));
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_EQ(test::contents(message), counting(8));
  EXPECT_FALSE(reader.poll_message(message));
}

TEST_F(RecordMarkTest, WhoDoesNotPollDoesNotRead) {
  limits.message_bytes_max = 100;
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector two;
  add_fragment(two, counting(40), true);
  add_fragment(two, counting(40), true);
  EXPECT_TRUE(feed(reader, two));
  EXPECT_FALSE(reader.space().empty());
  EXPECT_FALSE(feed(reader, two));  // stops somewhere over 100 bytes held
  EXPECT_TRUE(reader.space().empty());
  EXPECT_FALSE(reader.failed());
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_FALSE(reader.space().empty());
}

TEST_F(RecordMarkTest, ResetForgetsEverything) {
  RecordAdmission admission(pool);
  RecordReader reader(admission, limits);
  ByteVector stream;
  add_fragment(stream, counting(100), true);
  stream.resize(stream.size() + 3, 0xFF);
  ASSERT_TRUE(feed(reader, stream));
  reader.reset();
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_FALSE(reader.has_message());
  ByteVector again;
  add_fragment(again, counting(8), true);
  ASSERT_TRUE(feed(reader, again));
  Chain message;
  ASSERT_TRUE(reader.poll_message(message));
  EXPECT_EQ(test::contents(message), counting(8));
}

TEST(RecordMarkProperty, StreamsOfAnyMessagesComeOutAsTheyWentIn) {
  EXPECT_TRUE(rc::check([] {
    // Enough of everything: an empty pool is back-pressure, and has tests of its own.
    HeapBufferPool pool(4096, *rc::gen::inRange<uint32_t>(4, 200), 4096);
    {
      RecordAdmission admission(pool);
      RecordReader reader(admission, {.message_bytes_max = 8000, .fragments_max = 4});
      const auto count = *rc::gen::inRange<int>(1, 12);
      std::deque<ByteVector> expected;
      std::deque<Chain> kept;  // some messages live on while others are polled
      for (int i = 0; i < count; ++i) {
        ByteVector stream;
        ByteVector message;
        const auto fragments = *rc::gen::inRange<int>(1, 4);
        for (int fragment = 1; fragment <= fragments; ++fragment) {
          const ByteVector content =
              counting(*rc::gen::inRange<size_t>(fragment == 1 ? 1 : 0, 120), static_cast<uint8_t>(i * 20));
          add_fragment(stream, content, fragment == fragments);
          test::add(message, content);
        }
        expected.push_back(message);
        RC_ASSERT(feed(reader, stream, *rc::gen::inRange<size_t>(1, 200)));
        while (*rc::gen::inRange(0, 3) != 0 && reader.has_message()) {
          Chain out;
          RC_ASSERT(reader.poll_message(out));
          RC_ASSERT(test::contents(out) == expected.front());
          expected.pop_front();
          kept.push_back(std::move(out));
          if (kept.size() > 2) {
            kept.pop_front();
          }
        }
      }
      while (reader.has_message()) {
        Chain out;
        RC_ASSERT(reader.poll_message(out));
        RC_ASSERT(test::contents(out) == expected.front());
        expected.pop_front();
      }
      RC_ASSERT(expected.empty());
    }
    RC_ASSERT(pool.in_use() == 0u);
  }));
}

}  // namespace
}  // namespace cw::rpcrdma
