// Headers that broke other implementations, each named after its origin, and R1 to R9 of tests/requirements/hostile.md.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>

#include "rpcrdma/wire/splice_plan.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/unit/rpcrdma/header_bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::HeaderBytes;
using test::kMsg;
using test::kNomsg;

// Decodes from memory that ends exactly with the message, so that a sanitizer sees a read past it.
Result<DecodedChunks, HeaderError> decode_tight(Bytes message, ChunkList& chunks, const ChunkLimits& limits = {}) {
  const auto tight = std::make_unique<uint8_t[]>(message.size());
  std::copy(message.begin(), message.end(), tight.get());
  return decode_chunks({tight.get(), message.size()}, limits, chunks);
}

HeaderError refusal_of(Bytes message) {
  ChunkList chunks;
  const auto decoded = decode_tight(message, chunks);
  EXPECT_FALSE(decoded.ok());
  EXPECT_EQ(chunks.read_count + chunks.segment_count + chunks.write_count, 0u);
  return decoded.ok() ? HeaderError::kCount : decoded.error();
}

// Header and Positions; the header must decode.
Result<uint64_t, HeaderError> check(RdmaProc proc, const HeaderBytes& message, uint64_t inline_bytes) {
  ChunkList chunks;
  EXPECT_TRUE(decode_tight(message, chunks).ok());
  return check_positions(proc, chunks, inline_bytes);
}

// A Write chunk that says `count` segments and brings `brought`.
HeaderBytes write_chunk_of(uint32_t count, uint32_t brought) {
  HeaderBytes message(1, kMsg);
  message.end().word(1).word(count);
  for (uint32_t i = 0; i < brought; ++i) {
    message.segment(4096);
  }
  return message.end().end();
}

TEST(HostileHeader, CVE_2022_49356_WriteChunkSegmentsEndWithTheMessage) {
  EXPECT_EQ(refusal_of(write_chunk_of(3, 2)), HeaderError::kTruncated);
  EXPECT_EQ(refusal_of(write_chunk_of(64, 0)), HeaderError::kTruncated);
}

// Proves RPCRDMA-4.1.2-4.
TEST(HostileHeader, CVE_2024_53151_SegmentCountOverflow) {
  for (const uint32_t count : {0x10000000u, 0x10000001u, 0x20000000u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(refusal_of(write_chunk_of(count, 2)), HeaderError::kTooManySegments);
    EXPECT_EQ(refusal_of(HeaderBytes(1, kMsg).end().end().word(1).word(count).segment(8)), HeaderError::kTooManySegments);
    // Behind a chunk that has used up part of the limit already.
    EXPECT_EQ(refusal_of(HeaderBytes(1, kMsg).end().chunk({1, 2}).word(1).word(count).segment(8)), HeaderError::kTooManySegments);
  }
}

TEST(HostileHeader, CVE_2025_68811_And_71068_PositionsCountBytesAndAreBounded) {
  // A Position is compared with the bytes that are there: page-sized ones past the body are refused.
  for (const uint32_t position : {4096u, 8192u, 1u << 20}) {
    EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(position, 64).end().end().end(), 200).error(),
              HeaderError::kPositionBeyond);
  }
}

TEST(HostileHeader, CVE_2026_89526_PositionAgainstInlineLengthAndOverlap) {
  EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(204, 64).end().end().end(), 200).error(),
            HeaderError::kPositionBeyond);
  EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(100, 64).read(104, 64).end().end().end(), 200).error(),
            HeaderError::kPositionBeyond);
  EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(104, 64).read(100, 64).end().end().end(), 200).error(),
            HeaderError::kPositionBeyond);
}

TEST(HostileHeader, CVE_2026_89528_SumOfLegalSegmentsIsBounded) {
  HeaderBytes message(1, kMsg);
  for (int i = 0; i < 5; ++i) {
    message.read(100, 1 << 20);
  }
  EXPECT_EQ(refusal_of(message.end().end().end()), HeaderError::kReadTooLong);
}

TEST(HostileHeader, CVE_2026_89529_OneOversizedReadSegmentIsRefused) {
  for (const uint32_t length : {(4u << 20) + 1, 0x80000000u, UINT32_MAX}) {
    EXPECT_EQ(refusal_of(HeaderBytes(1, kMsg).read(100, length).end().end().end()), HeaderError::kReadTooLong);
  }
}

TEST(HostileHeader, CVE_2026_89532_And_93228_SegmentCountZeroWrapsNoLoop) {
  ChunkList chunks;
  const HeaderBytes message = HeaderBytes(1, kMsg).end().chunk({}).chunk({}).end().chunk({});
  ASSERT_TRUE(decode_tight(message, chunks).ok());
  EXPECT_EQ(chunks.write_count, 2u);
  EXPECT_EQ(chunks.segment_count, 0u);
  EXPECT_TRUE(chunks.has_reply);
  EXPECT_TRUE(chunks.segments_of(chunks.reply).empty());
  ByteVector out(reply_header_bytes(chunks));
  EXPECT_EQ(write_reply_header(out, {.xid = 1, .proc = kMsg}, chunks, {}).value(), out.size());
}

TEST(HostileHeader, CVE_2026_89533_ChunkOnAnExactSegmentBoundaryOfTheLongCall) {
  SplicePlan plan;
  ChunkList chunks;
  const HeaderBytes message = HeaderBytes(1, kNomsg).read(0, 100).read(0, 100).read(100, 64).end().end().end();
  ASSERT_TRUE(decode_tight(message, chunks).ok());
  ASSERT_EQ(plan_splice(RdmaProc::kNomsg, chunks, 0, plan).value(), 264u);
  ASSERT_EQ(plan.count, 3u);
  EXPECT_EQ(plan.list[0].bytes, 100u);
  EXPECT_EQ(plan.list[1].bytes, 64u);
  EXPECT_EQ(plan.list[2].offset, 100u);
  EXPECT_EQ(plan.list[2].bytes, 100u);
}

// RPCRDMA-4.5-2: below 28 bytes no body decodes; the endpoint drops them without an answer
TEST(HostileHeader, R1_EveryLengthBelowTheSmallestHeader) {
  const HeaderBytes message = HeaderBytes(1, kMsg).end().end().end();
  for (size_t length = 0; length < 28; ++length) {
    EXPECT_EQ(refusal_of(Bytes(message).first(length)), HeaderError::kTruncated);
  }
}

// RPCRDMA-4.5.1-2: version, credit and procedure are read whatever they are; the body is not looked at
TEST(HostileHeader, R2_R3_R4_FixedWordsOfAnyValueAreReported) {
  for (const uint32_t word : {0u, 2u, 3u, 5u, UINT32_MAX}) {
    const auto header = FixedHeader::parse(HeaderBytes(word, word, word, word));
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->version, word);
    EXPECT_EQ(header->credit, word);
    EXPECT_EQ(header->proc, word);
  }
}

TEST(HostileHeader, R5_ReadListOf1025Entries) {
  HeaderBytes message(1, kMsg);
  for (uint32_t i = 0; i < 1025; ++i) {
    message.read(4, 1);
  }
  EXPECT_EQ(refusal_of(message.end().end().end()), HeaderError::kTooManyReadSegments);
}

TEST(HostileHeader, R5_DescendingAndDuplicatePositionsAreLegal) {
  EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(200, 8).read(100, 8).read(200, 8).end().end().end(), 208).value(),
            232u);
}

TEST(HostileHeader, R5_ZeroLengthSegmentsAndSumJustAtTheBudget) {
  ChunkList chunks;
  EXPECT_TRUE(decode_tight(HeaderBytes(1, kMsg).read(4, 0).read(4, 4 << 20).read(4, 0).end().end().end(), chunks).ok());
  EXPECT_EQ(refusal_of(HeaderBytes(1, kMsg).read(4, 4 << 20).read(4, 1).end().end().end()), HeaderError::kReadTooLong);
}

TEST(HostileHeader, R6_WriteListCutShortAtEveryByte) {
  const HeaderBytes message = HeaderBytes(1, kMsg).end().chunk({1, 2, 3}).chunk({4}).end().end();
  for (size_t length = 16; length < message.raw().size(); ++length) {
    EXPECT_EQ(refusal_of(Bytes(message).first(length)), HeaderError::kTruncated);
  }
}

TEST(HostileHeader, R7_ReplyChunkOfNoSegmentsIsPresentAndHoldsNothing) {
  ChunkList chunks;
  ASSERT_TRUE(decode_tight(HeaderBytes(1, kMsg).end().end().chunk({}), chunks).ok());
  EXPECT_TRUE(chunks.has_reply);
  EXPECT_EQ(chunks.reply.capacity_bytes, 0u);
}

TEST(HostileHeader, R8_PositionZeroTogetherWithAnInlineBody) {
  EXPECT_EQ(check(RdmaProc::kMsg, HeaderBytes(1, kMsg).read(0, 64).end().end().end(), 100).error(), HeaderError::kPositionMixed);
}

// RPCRDMA-4.5.2-3
TEST(HostileHeader, R8_NomsgWithoutPositionZero) {
  EXPECT_EQ(check(RdmaProc::kNomsg, HeaderBytes(1, kNomsg).end().end().end(), 0).error(), HeaderError::kPositionMixed);
  EXPECT_EQ(check(RdmaProc::kNomsg, HeaderBytes(1, kNomsg).end().chunk({8}).end().chunk({8}), 0).error(),
            HeaderError::kPositionMixed);
}

TEST(HostileHeader, R9_SameHandleInSeveralChunksIsKeptAsItCame) {
  ChunkList chunks;
  HeaderBytes message(1, kMsg);
  message.read(4, 8, 0x1000, 0x77).end().word(1).word(1).segment(8, 0x1000, 0x77).end().word(1).word(1).segment(8, 0x1000, 0x77);
  ASSERT_TRUE(decode_tight(message, chunks).ok());
  EXPECT_EQ(chunks.read[0].segment, chunks.segments[0]);
  EXPECT_EQ(chunks.segments[0], chunks.segments[1]);
}

// Whatever decodes is within every limit, and comes out again as what it meant.
void expect_sound(const ChunkList& chunks, const DecodedChunks& decoded, size_t message_bytes) {
  RC_ASSERT(decoded.header_bytes <= message_bytes);
  RC_ASSERT(header_bytes(chunks) == decoded.header_bytes);
  RC_ASSERT(chunks.read_count <= kReadSegmentsMax);
  RC_ASSERT(chunks.segment_count <= kPlainSegmentsMax);
  RC_ASSERT(chunks.write_count <= kWriteChunksMax);
  for (uint32_t i = 1; i < chunks.read_count; ++i) {
    RC_ASSERT(chunks.read[i - 1].position <= chunks.read[i].position);
  }
  ByteVector again(decoded.header_bytes);
  RC_ASSERT(write_call_header(again, {.xid = 1}, chunks).ok());
  ChunkList twice;
  RC_ASSERT(decode_chunks(again, ChunkLimits{}, twice).ok());
  ByteVector third(decoded.header_bytes);
  RC_ASSERT(write_call_header(third, {.xid = 1}, twice).ok());
  RC_ASSERT(again == third);
}

// RPCRDMA-4.5-1
TEST(HostileHeader, RandomBytesDecodeSoundlyOrNotAtAll) {
  EXPECT_TRUE(rc::check([] {
    const auto raw = *rc::gen::container<ByteVector>(rc::gen::arbitrary<uint8_t>());
    ChunkList chunks;
    if (const auto decoded = decode_tight(raw, chunks); decoded.ok()) {
      expect_sound(chunks, *decoded, raw.size());
    }
  }));
}

// Words that lists are made of, in any order: far more of these decode, or nearly.
TEST(HostileHeader, RandomListWordsDecodeSoundlyOrNotAtAll) {
  EXPECT_TRUE(rc::check([] {
    ByteVector raw = test::words({1, 1, 32, 0});
    const auto list = *rc::gen::container<std::vector<uint32_t>>(
        rc::gen::weightedElement<uint32_t>({{8, 0}, {8, 1}, {3, 2}, {2, 4}, {2, 64}, {1, 5}, {1, UINT32_MAX}, {1, 0x10000000}}));
    for (const uint32_t word : list) {
      test::add_word(raw, word);
    }
    raw.resize(raw.size() + *rc::gen::inRange<size_t>(0, 40));
    ChunkList chunks;
    if (const auto decoded = decode_tight(raw, chunks); decoded.ok()) {
      expect_sound(chunks, *decoded, raw.size());
      for (const RdmaProc proc : {RdmaProc::kMsg, RdmaProc::kNomsg}) {
        SplicePlan plan;
        const auto length = plan_splice(proc, chunks, raw.size() - decoded->header_bytes, plan);
        if (length.ok()) {
          RC_ASSERT(*length <= raw.size() + chunks.read_bytes + 3 * kReadSegmentsMax);
        }
      }
    }
  }));
}

ChunkList chunks_at_random() {
  ChunkList chunks;
  const auto segment = [] {
    const auto length = *rc::gen::inRange<uint32_t>(0, 60000);
    return Segment{verbs::Rkey(*rc::gen::arbitrary<uint32_t>()), length, *rc::gen::inRange<uint64_t>(0, UINT64_MAX - 60000)};
  };
  chunks.read_count = *rc::gen::inRange<uint32_t>(0, 8);
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    chunks.read[i] = {4 * i, segment()};
    chunks.read_bytes += chunks.read[i].segment.length;
  }
  const auto plain = [&] {
    PlainChunk chunk{.first_segment = static_cast<uint16_t>(chunks.segment_count),
                     .segment_count = *rc::gen::inRange<uint16_t>(0, 6)};
    for (uint32_t i = 0; i < chunk.segment_count; ++i) {
      chunks.segments[chunks.segment_count] = segment();
      chunk.capacity_bytes += chunks.segments[chunks.segment_count++].length;
    }
    return chunk;
  };
  chunks.write_count = *rc::gen::inRange<uint32_t>(0, 6);
  for (uint32_t i = 0; i < chunks.write_count; ++i) {
    chunks.write[i] = plain();
  }
  chunks.has_reply = *rc::gen::arbitrary<bool>();
  if (chunks.has_reply) {
    chunks.reply = plain();
  }
  return chunks;
}

void expect_same_chunk(const PlainChunk& a, const PlainChunk& b) {
  RC_ASSERT(a.first_segment == b.first_segment || a.segment_count == 0);
  RC_ASSERT(a.segment_count == b.segment_count);
  RC_ASSERT(a.capacity_bytes == b.capacity_bytes);
}

// Proves RPCRDMA-2.2.4-1.
TEST(HostileHeader, AnyChunkListRoundTrips) {
  EXPECT_TRUE(rc::check([] {
    const ChunkList chunks = chunks_at_random();
    ByteVector out(header_bytes(chunks));
    RC_ASSERT(out.size() % 4 == 0);
    RC_ASSERT(write_call_header(out, {.xid = 5}, chunks).value() == out.size());
    ChunkList back;
    const auto decoded = decode_tight(out, back);
    RC_ASSERT(decoded.ok());
    RC_ASSERT(decoded->header_bytes == out.size());
    RC_ASSERT(back.read_bytes == chunks.read_bytes);
    RC_ASSERT(std::equal(back.reads().begin(), back.reads().end(), chunks.reads().begin(), chunks.reads().end()));
    RC_ASSERT(back.segment_count == chunks.segment_count);
    for (uint32_t i = 0; i < chunks.segment_count; ++i) {
      RC_ASSERT(back.segments[i] == chunks.segments[i]);
    }
    RC_ASSERT(back.write_count == chunks.write_count);
    for (uint32_t i = 0; i < chunks.write_count; ++i) {
      expect_same_chunk(back.write[i], chunks.write[i]);
    }
    RC_ASSERT(back.has_reply == chunks.has_reply);
    if (chunks.has_reply) {
      expect_same_chunk(back.reply, chunks.reply);
    }
    RC_ASSERT(reply_header_bytes(chunks) + 24 * chunks.read_count == header_bytes(chunks));
    for (size_t length = 0; length < out.size(); length += 1 + length / 8) {
      ChunkList untouched;
      RC_ASSERT(!decode_tight(Bytes(out).first(length), untouched).ok());
    }
  }));
}

}  // namespace
}  // namespace cw::rpcrdma
