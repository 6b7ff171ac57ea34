#include <gtest/gtest.h>

#include <numeric>

#include "base/heap_buffer_pool.h"
#include "rpcrdma/xdr/xdr_reader.h"
#include "rpcrdma/xdr/xdr_writer.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;

class XdrReaderTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{256, 64, 8};
};

ByteVector mixed_items() {
  ByteVector raw = test::words({0x01020304, 0xAABBCCDD, 0x11223344, 1});
  test::add_opaque(raw, test::hex("a1a2a3a4a5"));
  test::add_word(raw, 0xCAFEF00D);
  return raw;
}

void read_mixed_items(XdrReader& reader) {
  EXPECT_EQ(reader.u32(), 0x01020304u);
  EXPECT_EQ(reader.u64(), 0xAABBCCDD11223344u);
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ(reader.skip_opaque(5), 5u);
  EXPECT_EQ(reader.u32(), 0xCAFEF00Du);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST_F(XdrReaderTest, ReadsTheSameWhereverTheChainIsCut) {
  const ByteVector raw = mixed_items();
  for (size_t piece = 1; piece <= raw.size(); ++piece) {
    const Chain chain = test::chain_of(pool, raw, piece);
    XdrReader reader(chain);
    read_mixed_items(reader);
    EXPECT_EQ(reader.offset(), raw.size());
  }
  XdrReader contiguous{Bytes(raw)};
  read_mixed_items(contiguous);
}

TEST_F(XdrReaderTest, EmptyBuffersInTheChainAreStepsOver) {
  Chain chain;
  for (const uint8_t byte : test::hex("00000102")) {
    chain.push_back(pool.allocate_one());
    Chain one = test::chain_of(pool, Bytes(&byte, 1), 1);
    chain.append(std::move(one));
  }
  XdrReader reader(chain);
  EXPECT_EQ(reader.u32(), 0x0102u);
  EXPECT_TRUE(reader.ok());
}

TEST_F(XdrReaderTest, TruncatedAtEveryLengthFailsAndStaysFailed) {
  const ByteVector raw = mixed_items();
  for (size_t length = 0; length < raw.size(); ++length) {
    const Chain chain = test::chain_of(pool, Bytes(raw).first(length), 3);
    XdrReader reader(chain);
    (void)reader.u32();
    (void)reader.u64();
    (void)reader.boolean();
    (void)reader.skip_opaque(5);
    (void)reader.u32();
    EXPECT_FALSE(reader.ok()) << length;
    const uint64_t offset = reader.offset();
    EXPECT_LE(offset, length);
    EXPECT_EQ(reader.u32(), 0u);
    reader.skip(1);
    EXPECT_EQ(reader.offset(), offset);
    EXPECT_EQ(reader.remaining(), length - offset);
  }
}

TEST_F(XdrReaderTest, OpaqueLongerThanItsMaximumFails) {
  const Chain chain = test::chain_of(pool, mixed_items(), 7);
  XdrReader reader(chain);
  reader.skip(16);
  EXPECT_EQ(reader.skip_opaque(4), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST_F(XdrReaderTest, HugeOpaqueLengthDoesNotWrap) {
  ByteVector raw = test::words({UINT32_MAX, 0, 0});
  XdrReader reader{Bytes(raw)};
  (void)reader.skip_opaque(UINT32_MAX);
  EXPECT_FALSE(reader.ok());
  XdrReader fixed{Bytes(raw)};
  fixed.skip_fixed_opaque(UINT64_MAX);
  EXPECT_FALSE(fixed.ok());
}

TEST_F(XdrReaderTest, CopyTakesBytesAcrossBuffersAndNothingWhenShort) {
  const ByteVector raw = test::hex("000102030405060708090a0b");
  const Chain chain = test::chain_of(pool, raw, 5);
  XdrReader reader(chain);
  reader.skip(1);
  ByteVector out(9);
  reader.copy(out);
  EXPECT_EQ(out, test::hex("010203040506070809"));
  ByteVector more(3, 0xEE);
  reader.copy(more);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(more, ByteVector(3, 0xEE));
}

TEST_F(XdrReaderTest, FixedOpaqueTakesItsPadding) {
  const ByteVector raw = test::hex("aabbccddee000000 00000007");
  XdrReader reader{Bytes(raw)};
  reader.skip_fixed_opaque(5);
  EXPECT_EQ(reader.u32(), 7u);
  EXPECT_TRUE(reader.ok());
}

// The end is reached without a look at what lies before it.
TEST_F(XdrReaderTest, SkippingAllThatIsLeftEndsWhereReadingItDoes) {
  const ByteVector raw(1000, 0x5a);
  for (const size_t piece : {size_t{7}, size_t{64}}) {
    const Chain chain = test::chain_of(pool, raw, piece);
    for (const uint64_t before : {0u, 4u, 64u, 996u}) {
      XdrReader reader(chain);
      reader.skip(before);
      reader.skip(raw.size() - before);
      EXPECT_TRUE(reader.ok());
      EXPECT_EQ(reader.offset(), raw.size());
      EXPECT_EQ(reader.remaining(), 0u);
      reader.skip(0);
      EXPECT_TRUE(reader.ok());
      EXPECT_EQ(reader.u32(), 0u);
      EXPECT_FALSE(reader.ok());
    }
  }
}

TEST(XdrWriter, WritesWhatTheReaderReads) {
  ByteVector out(64, 0xEE);
  XdrWriter writer(out);
  writer.u32(0x01020304);
  writer.u64(0xAABBCCDD11223344);
  writer.boolean(true);
  writer.opaque(test::hex("a1a2a3a4a5"));
  writer.u32(0xCAFEF00D);
  ASSERT_TRUE(writer.ok());
  const ByteVector expected = mixed_items();
  EXPECT_EQ(ByteVector(writer.written().begin(), writer.written().end()), expected);
}

TEST(XdrWriter, FailsForGoodAtTheFirstItemThatDoesNotFit) {
  ByteVector out(10, 0xEE);
  XdrWriter writer(out);
  writer.u64(1);
  writer.u32(2);
  EXPECT_FALSE(writer.ok());
  writer.raw(test::hex("aa"));
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.offset(), 8u);
  EXPECT_EQ(out[8], 0xEE);
}

TEST(XdrWriter, PaddingIsZeroForEveryContentLength) {
  for (size_t length = 0; length <= 9; ++length) {
    ByteVector out(16, 0xEE);
    XdrWriter writer(out);
    writer.fixed_opaque(ByteVector(length, 0x55));
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer.offset(), xdr_padded(length));
    for (size_t i = length; i < writer.offset(); ++i) {
      EXPECT_EQ(out[i], 0);
    }
  }
}

}  // namespace
}  // namespace cw::rpcrdma
