// What a RecordReader holds, to the byte: marks are held like any other byte, and are given back with their message. Each test
// stands for a change of record_mark.cc that no other test noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/rpc/record_mark.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

constexpr uint32_t kBufferBytes = 64;

class RecordLimitsTest : public ::testing::Test {
 protected:
  static void add_fragment(ByteVector& stream, size_t bytes, bool last) {
    uint8_t mark[kRecordMarkBytes];
    write_record_mark(mark, static_cast<uint32_t>(bytes), last);
    test::add(stream, mark);
    test::add(stream, ByteVector(bytes, 0x5a));
  }
  static ByteVector message(size_t bytes) {
    ByteVector stream;
    add_fragment(stream, bytes, true);
    return stream;
  }
  // False when the reader gave no space for some of it.
  static bool feed(RecordReader& reader, Bytes stream) {
    while (!stream.empty()) {
      const MutableBytes space = reader.space();
      if (space.empty()) {
        return false;
      }
      const size_t count = std::min(space.size(), stream.size());
      std::memcpy(space.data(), stream.data(), count);
      stream = stream.subspan(count);
      EXPECT_TRUE(reader.on_bytes(static_cast<uint32_t>(count)).ok());
    }
    return true;
  }
  static size_t polled_bytes(RecordReader& reader) {
    Chain out;
    EXPECT_TRUE(reader.poll_message(out));
    return out.bytes();
  }

  HeapBufferPool pool{64, kBufferBytes, 32};
  RecordAdmission admission{pool};
};

// Its marks are held besides: together they are more than message_bytes_max before the message is complete.
TEST_F(RecordLimitsTest, TheLongestMessageComesWholeInManyFragments) {
  RecordReader reader(admission, {.message_bytes_max = 1000, .fragments_max = 8});
  ByteVector stream;
  for (int i = 0; i < 8; ++i) {
    add_fragment(stream, 125, i == 7);
  }
  ASSERT_TRUE(feed(reader, stream));
  EXPECT_EQ(polled_bytes(reader), 1000u);
}

TEST_F(RecordLimitsTest, WhoHoldsAsMuchAsTheLimitStillReads) {
  RecordReader reader(admission, {.message_bytes_max = 100});
  ASSERT_TRUE(feed(reader, message(46)));
  ASSERT_TRUE(feed(reader, message(46)));  // 100 held
  EXPECT_FALSE(reader.space().empty());
  ASSERT_TRUE(feed(reader, ByteVector(1)));  // 101
  EXPECT_TRUE(reader.space().empty());
}

TEST_F(RecordLimitsTest, PolledMessagesTakeTheirMarksAlong) {
  RecordReader reader(admission, {.message_bytes_max = 100});
  for (int i = 0; i < 1000; ++i) {
    ByteVector stream;
    add_fragment(stream, 3, false);
    add_fragment(stream, 5, true);
    ASSERT_TRUE(feed(reader, stream)) << i;
    EXPECT_EQ(polled_bytes(reader), 8u);
  }
  ASSERT_TRUE(feed(reader, message(46)));
  ASSERT_TRUE(feed(reader, message(46)));
  EXPECT_FALSE(reader.space().empty()) << "100 held, and nothing of what was polled";
  ASSERT_TRUE(feed(reader, ByteVector(1)));
  EXPECT_TRUE(reader.space().empty());
}

// A last fragment without a byte ends the message by its mark, and the mark ends the Buffer: nobody reads that Buffer again.
TEST_F(RecordLimitsTest, ABufferWhoseLastBytesAreAMarkIsGivenBackWithItsMessage) {
  RecordReader reader(admission, {});
  ByteVector stream;
  add_fragment(stream, kBufferBytes - 2 * kRecordMarkBytes, false);
  add_fragment(stream, 0, true);
  ASSERT_EQ(stream.size(), kBufferBytes);
  test::add(stream, message(20));
  ASSERT_TRUE(feed(reader, stream));
  ASSERT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(polled_bytes(reader), kBufferBytes - 2 * kRecordMarkBytes);
  EXPECT_EQ(pool.in_use(), 1u) << "that of the second message";
  EXPECT_EQ(polled_bytes(reader), 20u);
}

// Whatever it was reset from: half of a Buffer polled, a failed stream, nothing at all.
TEST_F(RecordLimitsTest, AfterAResetAReaderIsAsANewOne) {
  RecordReader reader(admission, {.message_bytes_max = 100});
  const auto expect_as_new = [&] {
    reader.reset();
    reader.reset();
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_FALSE(reader.failed());
    ASSERT_TRUE(feed(reader, message(46)));
    EXPECT_EQ(polled_bytes(reader), 46u);
    ASSERT_TRUE(feed(reader, message(46)));
    ASSERT_TRUE(feed(reader, message(46)));
    EXPECT_FALSE(reader.space().empty()) << "100 held";
    ASSERT_TRUE(feed(reader, ByteVector(1)));
    EXPECT_TRUE(reader.space().empty());
  };
  ASSERT_TRUE(feed(reader, message(10)));
  ASSERT_TRUE(feed(reader, message(10)));
  EXPECT_EQ(polled_bytes(reader), 10u);
  expect_as_new();

  reader.reset();
  const MutableBytes space = reader.space();
  store_be32(space.data(), kLastFragment | 101);
  ASSERT_FALSE(reader.on_bytes(kRecordMarkBytes).ok());
  ASSERT_TRUE(reader.failed());
  expect_as_new();
}

}  // namespace
}  // namespace cw::rpcrdma
