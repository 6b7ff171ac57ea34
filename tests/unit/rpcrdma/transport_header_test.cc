#include "rpcrdma/wire/transport_header.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/rpcrdma/header_bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::HeaderBytes;
using test::kMsg;
using test::kNomsg;

constexpr uint8_t kGoldenFixed[] = {0x0A, 0x0B, 0x0C, 0x0D, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1};
// RPCRDMA-4.1.2-14, RPCRDMA-4.2-1, RPCRDMA-4.1.2-15
static_assert(FixedHeader::parse(kGoldenFixed).value() ==
              FixedHeader{.xid = 0x0A0B0C0D, .version = 1, .credit = 7, .proc = static_cast<uint32_t>(RdmaProc::kNomsg)});
// RPCRDMA-4.1.2-12, RPCRDMA-4.1.2-9
static_assert(static_cast<uint32_t>(RdmaProc::kMsg) == 0 && static_cast<uint32_t>(RdmaProc::kNomsg) == 1 &&
              static_cast<uint32_t>(RdmaProc::kMsgp) == 2 && static_cast<uint32_t>(RdmaProc::kDone) == 3 &&
              static_cast<uint32_t>(RdmaProc::kError) == 4);
static_assert(static_cast<uint32_t>(RdmaErrorCode::kVersion) == 1 && static_cast<uint32_t>(RdmaErrorCode::kChunk) == 2);

constexpr uint64_t kNoFault = UINT64_MAX;

// The decoded chunks, or a failure of the test.
ChunkList decode(Bytes message, uint32_t header_bytes_expected) {
  ChunkList chunks;
  const auto decoded = decode_chunks(message, ChunkLimits{}, chunks);
  EXPECT_TRUE(decoded.ok());
  if (decoded.ok()) {
    EXPECT_EQ(decoded->header_bytes, header_bytes_expected);
  }
  return chunks;
}

// The fault found; nothing may have been written.
HeaderError refuse(Bytes message, const ChunkLimits& limits = {}) {
  ChunkList chunks;
  chunks.read_count = 7;
  chunks.segments[0].length = 0x5EED;
  chunks.read_bytes = kNoFault;
  const auto decoded = decode_chunks(message, limits, chunks);
  EXPECT_FALSE(decoded.ok());
  EXPECT_EQ(chunks.read_count, 7u);
  EXPECT_EQ(chunks.segments[0].length, 0x5EEDu);
  EXPECT_EQ(chunks.read_bytes, kNoFault);
  return decoded.ok() ? HeaderError::kCount : decoded.error();
}

TEST(FixedHeader, TruncatedAtEveryLength) {
  for (size_t length = 0; length < FixedHeader::kSize; ++length) {
    EXPECT_FALSE(FixedHeader::parse(Bytes(kGoldenFixed).first(length)).ok());
  }
}

// Proves RPCRDMA-4.1.2-14, RPCRDMA-4.2-1.
TEST(FixedHeader, RoundTripsAnyWords) {
  const FixedHeader header{.xid = 0xDEADBEEF, .version = 0xFFFFFFFF, .credit = 0, .proc = 0x80000001};
  uint8_t raw[FixedHeader::kSize];
  header.write(raw);
  EXPECT_EQ(FixedHeader::parse(raw).value(), header);
}

// Proves RPCRDMA-4.3-2, RPCRDMA-4.7-2, RPCRDMA-4.1.2-7.
TEST(DecodeChunks, NoChunksIsThreeZeroWords) {
  for (const uint32_t proc : {kMsg, kNomsg}) {
    const ChunkList chunks = decode(HeaderBytes(1, proc).end().end().end(), 28);
    EXPECT_EQ(chunks.read_count, 0u);
    EXPECT_EQ(chunks.write_count, 0u);
    EXPECT_EQ(chunks.segment_count, 0u);
    EXPECT_FALSE(chunks.has_reply);
  }
}

// Proves RPCRDMA-3.4.3-4, RPCRDMA-4.1.2-1, RPCRDMA-4.1.2-2, RPCRDMA-3.4.5-2, RPCRDMA-3.4.6-4.
TEST(DecodeChunks, SegmentIsHandleLengthOffset) {
  const ByteVector message = test::hex(
      "00000001 00000001 00000020 00000000"
      "00000001 00000080 aabbccdd 00000400 00000000 10000000 00000000"
      "00000001 00000001 12345678 00001000 00000001 00000020 00000000"
      "00000000");
  const ChunkList chunks = decode(message, static_cast<uint32_t>(message.size()));
  ASSERT_EQ(chunks.read_count, 1u);
  EXPECT_EQ(chunks.read[0], (ReadSegment{128, {verbs::Rkey(0xAABBCCDD), 1024, 0x10000000}}));
  ASSERT_EQ(chunks.write_count, 1u);
  EXPECT_EQ(chunks.segments[0], (Segment{verbs::Rkey(0x12345678), 4096, 0x0000000100000020}));
}

// Proves RPCRDMA-4.7-1, RPCRDMA-4.1.2-3.
TEST(DecodeChunks, ReadListOfThreeEntriesIs76Bytes) {
  const HeaderBytes message = HeaderBytes(1, kMsg).read(8, 100).read(8, 200).read(64, 300).end().end().end();
  const ChunkList chunks = decode(message, 16 + 76 + 8);
  ASSERT_EQ(chunks.read_count, 3u);
  EXPECT_EQ(chunks.read[0].segment.length, 100u);
  EXPECT_EQ(chunks.read[1].segment.length, 200u);
  EXPECT_EQ(chunks.read[2].position, 64u);
  EXPECT_EQ(chunks.read_bytes, 600u);
}

// Proves RPCRDMA-4.7-3, RPCRDMA-3.4.6-2, RPCRDMA-4.3.2.3-2, RPCRDMA-4.1.2-5, RPCRDMA-4.3.2-1.
TEST(DecodeChunks, WriteListKeepsAnEmptyChunkInItsPlace) {
  const HeaderBytes message = HeaderBytes(1, kMsg).end().chunk({1}).chunk({}).chunk({2, 3}).end().end();
  const ChunkList chunks = decode(message, 16 + 4 + 76 + 4);
  ASSERT_EQ(chunks.write_count, 3u);
  EXPECT_EQ(chunks.write[0].segment_count, 1u);
  EXPECT_EQ(chunks.write[1].segment_count, 0u);
  EXPECT_EQ(chunks.write[1].capacity_bytes, 0u);
  EXPECT_EQ(chunks.write[2].segment_count, 2u);
  EXPECT_EQ(chunks.write[2].first_segment, 1u);
  EXPECT_EQ(chunks.write[2].capacity_bytes, 5u);
  EXPECT_EQ(chunks.segments_of(chunks.write[2])[1].length, 3u);
}

// Proves RPCRDMA-3.4.6-9, RPCRDMA-3.4.6-2.
TEST(DecodeChunks, ChunkOfNoSegmentsIsEmpty) {
  const ChunkList chunks = decode(HeaderBytes(1, kMsg).end().word(1).word(0).word(0).word(0), 16 + 4 + 12 + 4);
  ASSERT_EQ(chunks.write_count, 1u);
  EXPECT_EQ(chunks.write[0].segment_count, 0u);
}

// Proves RPCRDMA-3.4.6-10: a chunk without room
TEST(DecodeChunks, SegmentsOfLengthZeroMakeAnUnusedChunkNotAnEmptyOne) {
  const ChunkList chunks = decode(HeaderBytes(1, kMsg).end().chunk({0, 0}).end().end(), 16 + 4 + 40 + 4 + 4);
  ASSERT_EQ(chunks.write_count, 1u);
  EXPECT_EQ(chunks.write[0].segment_count, 2u);
  EXPECT_EQ(chunks.write[0].capacity_bytes, 0u);
}

// Proves RPCRDMA-4.7-4, RPCRDMA-4.3.3-1, RPCRDMA-4.2.4-1: no word follows the Reply chunk
TEST(DecodeChunks, PayloadFollowsTheReplyChunkAtOnce) {
  HeaderBytes message = HeaderBytes(1, kMsg).end().end().chunk({10, 20});
  const uint32_t header = static_cast<uint32_t>(message.raw().size());
  EXPECT_EQ(header, 16u + 8 + 40);
  message.word(0xCAFEF00D);
  const ChunkList chunks = decode(message, header);
  EXPECT_TRUE(chunks.has_reply);
  EXPECT_EQ(chunks.reply.segment_count, 2u);
  EXPECT_EQ(chunks.reply.capacity_bytes, 30u);
}

// Proves RPCRDMA-4.2.4-5, RPCRDMA-4.1.2-6, RPCRDMA-4.2.4-7.
TEST(DecodeChunks, AllEightPresenceCombinations) {
  for (uint32_t mask = 0; mask < 8; ++mask) {
    HeaderBytes message(1, kMsg);
    if (mask & 1) {
      message.read(40, 8);
    }
    message.end();
    if (mask & 2) {
      message.chunk({4096});
    }
    message.end();
    if (mask & 4) {
      message.chunk({100, 200, 300});
    } else {
      message.end();
    }
    const ChunkList chunks = decode(message, static_cast<uint32_t>(message.raw().size()));
    EXPECT_EQ(chunks.read_count, mask & 1 ? 1u : 0u);
    EXPECT_EQ(chunks.write_count, mask & 2 ? 1u : 0u);
    EXPECT_EQ(chunks.has_reply, (mask & 4) != 0);
    EXPECT_EQ(header_bytes(chunks), message.raw().size());
  }
}

// Proves RPCRDMA-4.3.1-6, RPCRDMA-3.4.5-6: any order comes in, ascending order goes on, equal Positions keep their
// order
TEST(DecodeChunks, ReadSegmentsAreSortedByPositionAndKeepListOrderWithin) {
  const HeaderBytes message = HeaderBytes(1, kMsg).read(200, 1).read(40, 2).read(200, 3).read(0, 4).read(40, 5).end().end().end();
  const ChunkList chunks = decode(message, static_cast<uint32_t>(message.raw().size()));
  const uint32_t expected[][2] = {{0, 4}, {40, 2}, {40, 5}, {200, 1}, {200, 3}};
  ASSERT_EQ(chunks.read_count, 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(chunks.read[i].position, expected[i][0]);
    EXPECT_EQ(chunks.read[i].segment.length, expected[i][1]);
  }
  EXPECT_TRUE(chunks.has_position_zero());
}

TEST(DecodeChunks, ReplacesWhatTheListHeldBefore) {
  ChunkList chunks = decode(HeaderBytes(1, kMsg).read(8, 100).end().chunk({1}).end().chunk({7}), 16 + 28 + 28 + 24);
  const HeaderBytes none = HeaderBytes(2, kMsg).end().end().end();
  ASSERT_TRUE(decode_chunks(none, ChunkLimits{}, chunks).ok());
  EXPECT_EQ(chunks.read_count + chunks.write_count + chunks.segment_count, 0u);
  EXPECT_FALSE(chunks.has_reply);
  EXPECT_EQ(chunks.reply.segment_count, 0u);
  EXPECT_EQ(chunks.read_bytes, 0u);
}

// RPCRDMA-4.5.2-1, RPCRDMA-4.1.2-3
TEST(DecodeChunks, TruncatedAtEveryLength) {
  const HeaderBytes message = HeaderBytes(1, kMsg).read(8, 100).read(16, 8).end().chunk({1, 2}).chunk({}).end().chunk({7});
  for (size_t length = 0; length < message.raw().size(); ++length) {
    EXPECT_EQ(refuse(Bytes(message).first(length)), HeaderError::kTruncated) << length;
  }
}

// Presence words (docs/architecture.md)
TEST(DecodeChunks, PresenceWordOtherThanZeroOrOneIsRefused) {
  for (const uint32_t word : {2u, 0x100u, 0xFFFFFFFFu}) {
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).word(word).end().end()), HeaderError::kBadDiscriminant);
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).end().word(word).end()), HeaderError::kBadDiscriminant);
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).end().end().word(word)), HeaderError::kBadDiscriminant);
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).read(8, 4).word(word).end().end()), HeaderError::kBadDiscriminant);
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).end().chunk({4}).word(word).end()), HeaderError::kBadDiscriminant);
  }
}

HeaderBytes with_reads(uint32_t count) {
  HeaderBytes message(1, kMsg);
  for (uint32_t i = 0; i < count; ++i) {
    message.read(4 * (i + 1), 4);
  }
  return message.end().end().end();
}

HeaderBytes with_write_chunks(uint32_t count) {
  HeaderBytes message(1, kMsg);
  message.end();
  for (uint32_t i = 0; i < count; ++i) {
    message.chunk({4});
  }
  return message.end().end();
}

// `in_write` segments in one Write chunk, `in_reply` in the Reply chunk.
HeaderBytes with_segments(uint32_t in_write, uint32_t in_reply) {
  HeaderBytes message(1, kMsg);
  message.end().word(1).word(in_write);
  for (uint32_t i = 0; i < in_write; ++i) {
    message.segment(4);
  }
  message.end().word(1).word(in_reply);
  for (uint32_t i = 0; i < in_reply; ++i) {
    message.segment(4);
  }
  return message;
}

TEST(DecodeChunks, ReadSegmentLimit) {
  ChunkLimits limits;
  limits.read_segments_max = 3;
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(with_reads(2), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(with_reads(3), limits, chunks).ok());
  EXPECT_EQ(refuse(with_reads(4), limits), HeaderError::kTooManyReadSegments);
}

TEST(DecodeChunks, WriteChunkLimit) {
  ChunkLimits limits;
  limits.write_chunks_max = 2;
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(with_write_chunks(1), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(with_write_chunks(2), limits, chunks).ok());
  EXPECT_EQ(refuse(with_write_chunks(3), limits), HeaderError::kTooManyWriteChunks);
}

TEST(DecodeChunks, SegmentLimitCountsWriteListAndReplyChunkTogether) {
  ChunkLimits limits;
  limits.plain_segments_max = 5;
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(with_segments(2, 2), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(with_segments(2, 3), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(with_segments(5, 0), limits, chunks).ok());
  EXPECT_EQ(refuse(with_segments(3, 3), limits), HeaderError::kTooManySegments);
  EXPECT_EQ(refuse(with_segments(6, 0), limits), HeaderError::kTooManySegments);
}

TEST(DecodeChunks, ConfiguredLimitsNeverExceedTheCeilings) {
  const ChunkLimits huge{.read_segments_max = UINT32_MAX, .plain_segments_max = UINT32_MAX, .write_chunks_max = UINT32_MAX};
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(with_reads(kReadSegmentsMax), huge, chunks).ok());
  EXPECT_EQ(chunks.read_count, kReadSegmentsMax);
  EXPECT_EQ(refuse(with_reads(kReadSegmentsMax + 1), huge), HeaderError::kTooManyReadSegments);
  EXPECT_TRUE(decode_chunks(with_write_chunks(kWriteChunksMax), huge, chunks).ok());
  EXPECT_EQ(refuse(with_write_chunks(kWriteChunksMax + 1), huge), HeaderError::kTooManyWriteChunks);
  EXPECT_TRUE(decode_chunks(with_segments(kPlainSegmentsMax, 0), huge, chunks).ok());
  EXPECT_EQ(refuse(with_segments(kPlainSegmentsMax, 1), huge), HeaderError::kTooManySegments);
}

// RPCRDMA-3.4.4-3
TEST(DecodeChunks, ReadBytesLimit) {
  ChunkLimits limits;
  limits.read_bytes_max = 1000;
  const auto message = [](uint32_t second) { return HeaderBytes(1, kMsg).read(8, 500).read(8, second).end().end().end(); };
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(message(499), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(message(500), limits, chunks).ok());
  EXPECT_EQ(chunks.read_bytes, 1000u);
  EXPECT_EQ(refuse(message(501), limits), HeaderError::kReadTooLong);
}

TEST(DecodeChunks, PlainBytesLimitIsPerChunk) {
  ChunkLimits limits;
  limits.plain_bytes_max = 1000;
  const auto message = [](uint32_t write, uint32_t reply) {
    return HeaderBytes(1, kMsg).end().chunk({500, write}).chunk({1000}).end().chunk({500, reply});
  };
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(message(499, 499), limits, chunks).ok());
  EXPECT_TRUE(decode_chunks(message(500, 500), limits, chunks).ok());
  EXPECT_EQ(refuse(message(501, 500), limits), HeaderError::kChunkTooLong);
  EXPECT_EQ(refuse(message(500, 501), limits), HeaderError::kChunkTooLong);
}

// Proves RPCRDMA-3.4.4-1: sums have 64 bits
TEST(DecodeChunks, LengthsAreSummedIn64Bits) {
  ChunkLimits limits;
  limits.read_bytes_max = UINT64_MAX;
  limits.plain_bytes_max = UINT64_MAX;
  ChunkList chunks;
  const HeaderBytes message =
      HeaderBytes(1, kMsg).read(8, UINT32_MAX).read(8, UINT32_MAX).end().chunk({UINT32_MAX, UINT32_MAX}).end().end();
  ASSERT_TRUE(decode_chunks(message, limits, chunks).ok());
  EXPECT_EQ(chunks.read_bytes, 2 * uint64_t{UINT32_MAX});
  EXPECT_EQ(chunks.write[0].capacity_bytes, 2 * uint64_t{UINT32_MAX});
  EXPECT_EQ(refuse(message), HeaderError::kReadTooLong);
}

// Each segment is looked at, not only the first of its chunk.
TEST(DecodeChunks, ALaterSegmentMayNotWrapEither) {
  constexpr uint64_t kWraps = UINT64_MAX - 0xFFE;
  EXPECT_EQ(refuse(HeaderBytes(1, kMsg).read(8, 0x1000, 0).read(8, 0x1000, kWraps).end().end().end()), HeaderError::kOffsetWraps);
  EXPECT_EQ(refuse(HeaderBytes(1, kMsg).end().word(1).word(2).segment(0x1000, 0).segment(0x1000, kWraps).end().end()),
            HeaderError::kOffsetWraps);
  EXPECT_EQ(refuse(HeaderBytes(1, kMsg).end().end().word(1).word(3).segment(4, 0).segment(4, 0).segment(0x1000, kWraps)),
            HeaderError::kOffsetWraps);
}

TEST(DecodeChunks, RegionMayEndAtTheTopOfTheAddressSpaceButNotWrap) {
  const auto with_offset = [](uint64_t read_offset, uint64_t write_offset) {
    return HeaderBytes(1, kMsg).read(8, 0x1000, read_offset).end().word(1).word(1).segment(0x1000, write_offset).end().end();
  };
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(with_offset(UINT64_MAX - 0x1000, 0), ChunkLimits{}, chunks).ok());
  EXPECT_TRUE(decode_chunks(with_offset(UINT64_MAX - 0xFFF, UINT64_MAX - 0xFFF), ChunkLimits{}, chunks).ok());
  EXPECT_EQ(refuse(with_offset(UINT64_MAX - 0xFFE, 0)), HeaderError::kOffsetWraps);
  EXPECT_EQ(refuse(with_offset(0, UINT64_MAX - 0xFFE)), HeaderError::kOffsetWraps);
  EXPECT_TRUE(decode_chunks(HeaderBytes(1, kMsg).read(8, 0, UINT64_MAX).end().end().end(), ChunkLimits{}, chunks).ok());
}

// Proves RPCRDMA-3.4.5-10.
TEST(DecodeChunks, PositionIsAMultipleOfFour) {
  for (const uint32_t position : {41u, 42u, 43u, 1u, UINT32_MAX}) {
    EXPECT_EQ(refuse(HeaderBytes(1, kMsg).read(position, 8).end().end().end()), HeaderError::kPositionAlignment);
  }
}

TEST(HeaderErrors, HaveDistinctNames) {
  std::set<std::string> names;
  for (uint8_t i = 0; i < static_cast<uint8_t>(HeaderError::kCount); ++i) {
    names.insert(to_string(static_cast<HeaderError>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(HeaderError::kCount));
  EXPECT_EQ(names.count("unknown"), 0u);
}

ChunkList some_chunks() {
  const HeaderBytes message =
      HeaderBytes(1, kMsg).read(8, 100).read(16, 8).end().chunk({1000, 1000, 1000}).chunk({}).end().chunk({4096, 4096});
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(message, ChunkLimits{}, chunks).ok());
  return chunks;
}

// Proves RPCRDMA-4-1.
TEST(EncodeHeader, CallRoundTripsToTheSameBytes) {
  const HeaderBytes message =
      HeaderBytes(0xDEADBEEF, kMsg).read(8, 100).read(16, 8).end().chunk({1000, 1000, 1000}).chunk({}).end().chunk({4096, 4096});
  ChunkList chunks;
  ASSERT_TRUE(decode_chunks(message, ChunkLimits{}, chunks).ok());
  ByteVector out(512, 0xEE);
  const auto written = write_call_header(out, FixedHeader::parse(message).value(), chunks);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, header_bytes(chunks));
  out.resize(*written);
  EXPECT_EQ(out, message.raw());
}

// Proves RPCRDMA-3.4.6-6, RPCRDMA-3.4.6-7, RPCRDMA-4.3.1-4, RPCRDMA-4.3.2.3-4, RPCRDMA-4.3.3-6, RPCRDMA-4.3.3-7: every chunk
// returns
TEST(EncodeHeader, ReplyReturnsEveryChunkWithTheLengthsUsedAndNoReadList) {
  const ChunkList chunks = some_chunks();
  const uint32_t lengths[] = {1000, 500, 0, 4096, 904};
  ByteVector out(512, 0xEE);
  const auto written = write_reply_header(out, {.xid = 9, .credit = 64, .proc = kNomsg}, chunks, lengths);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, reply_header_bytes(chunks));
  out.resize(*written);
  EXPECT_EQ(out, HeaderBytes(9, kNomsg, 1, 64).end().chunk({1000, 500, 0}).chunk({}).end().chunk({4096, 904}).raw());
}

TEST(EncodeHeader, RefusesTheWrongNumberOfLengthsAndTooLittleRoom) {
  const ChunkList chunks = some_chunks();
  const uint32_t lengths[] = {1, 2, 3, 4};
  ByteVector out(512);
  EXPECT_EQ(write_reply_header(out, {}, chunks, lengths).error(), Error::kBadValue);
  for (size_t room = 0; room < reply_header_bytes(chunks); ++room) {
    EXPECT_EQ(write_reply_header(MutableBytes(out).first(room), {}, chunks, {}).error(), Error::kNoSpace);
  }
  for (size_t room = 0; room < header_bytes(chunks); ++room) {
    EXPECT_EQ(write_call_header(MutableBytes(out).first(room), {}, chunks).error(), Error::kNoSpace);
  }
}

// Proves RPCRDMA-4.5-6, RPCRDMA-4.5-8, RPCRDMA-4.1.2-11, RPCRDMA-4.2.4-11, RPCRDMA-4.1.2-9.
TEST(EncodeError, ChunkErrorIs20Bytes) {
  ByteVector out(64, 0xEE);
  ASSERT_EQ(write_chunk_error(out, 0xDEADBEEF, 32).value(), kChunkErrorBytes);
  out.resize(kChunkErrorBytes);
  EXPECT_EQ(out, test::hex("deadbeef 00000001 00000020 00000004 00000002"));
  const auto error = parse_error(out);
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->code, RdmaErrorCode::kChunk);
}

// Proves RPCRDMA-4.5.1-1, RPCRDMA-4.5.1-3, RPCRDMA-4.5-7, RPCRDMA-4.1.2-10, RPCRDMA-4.2.4-11, RPCRDMA-4.1.2-9: ERR_VERS echoes
// the version
TEST(EncodeError, VersionErrorEchoesTheForeignVersion) {
  ByteVector out(64, 0xEE);
  ASSERT_EQ(write_version_error(out, 0x11223344, 2, 32).value(), kVersionErrorBytes);
  out.resize(kVersionErrorBytes);
  EXPECT_EQ(out, test::hex("11223344 00000002 00000020 00000004 00000001 00000001 00000001"));
  const auto error = parse_error(out);
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->code, RdmaErrorCode::kVersion);
  EXPECT_EQ(error->version_low, 1u);
  EXPECT_EQ(error->version_high, 1u);
}

TEST(EncodeError, NeedsRoom) {
  ByteVector out(kVersionErrorBytes - 1);
  EXPECT_EQ(write_version_error(out, 1, 2, 3).error(), Error::kNoSpace);
  EXPECT_EQ(write_chunk_error(MutableBytes(out).first(kChunkErrorBytes - 1), 1, 3).error(), Error::kNoSpace);
}

// Proves RPCRDMA-4.5-11, RPCRDMA-4.1.2-9.
TEST(ParseError, RefusesUnknownCodesAndShortMessages) {
  for (const uint32_t code : {0u, 3u, UINT32_MAX}) {
    EXPECT_EQ(parse_error(HeaderBytes(1, 4).word(code).word(1).word(1)).error(), Error::kBadValue);
  }
  const HeaderBytes version = HeaderBytes(1, 4).word(1).word(1).word(1);
  for (size_t length = 0; length < kVersionErrorBytes; ++length) {
    EXPECT_EQ(parse_error(Bytes(version).first(length)).error(), Error::kTruncated);
  }
  const HeaderBytes chunk = HeaderBytes(1, 4).word(2);
  EXPECT_TRUE(parse_error(chunk).ok());
}

}  // namespace
}  // namespace cw::rpcrdma
