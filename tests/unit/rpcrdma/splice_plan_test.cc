#include "rpcrdma/wire/splice_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "rpcrdma/xdr/xdr_reader.h"
#include "tests/unit/rpcrdma/header_bytes.h"

namespace cw::rpcrdma {
namespace {

using test::ByteVector;
using test::HeaderBytes;
using Kind = SplicePiece::Kind;

struct Read {
  uint32_t position;
  uint32_t length;
};

ChunkList chunks_of(std::initializer_list<Read> reads) {
  HeaderBytes message(1, test::kMsg);
  for (const Read& read : reads) {
    message.read(read.position, read.length);
  }
  ChunkList chunks;
  EXPECT_TRUE(decode_chunks(message.end().end().end(), ChunkLimits{.read_bytes_max = UINT64_MAX}, chunks).ok());
  return chunks;
}

// Both functions, which must agree.
Result<uint64_t, HeaderError> check(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  SplicePlan plan;
  const auto checked = check_positions(proc, chunks, inline_bytes);
  const auto planned = plan_splice(proc, chunks, inline_bytes, plan);
  EXPECT_EQ(checked.ok(), planned.ok());
  if (checked.ok() && planned.ok()) {
    EXPECT_EQ(*checked, *planned);
    uint64_t sum = 0;
    for (const SplicePiece& piece : plan.pieces()) {
      EXPECT_GT(piece.bytes, 0u);
      sum += piece.bytes;
    }
    EXPECT_EQ(sum, *planned);
  } else if (!checked.ok() && !planned.ok()) {
    EXPECT_EQ(checked.error(), planned.error());
  }
  return checked;
}

HeaderError refuse(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  const auto result = check(proc, chunks, inline_bytes);
  EXPECT_FALSE(result.ok());
  return result.ok() ? HeaderError::kCount : result.error();
}

std::vector<SplicePiece> plan(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  SplicePlan result;
  EXPECT_TRUE(plan_splice(proc, chunks, inline_bytes, result).ok());
  return {result.pieces().begin(), result.pieces().end()};
}

void expect_piece(const SplicePiece& piece, Kind kind, uint64_t first, uint64_t bytes) {
  EXPECT_EQ(piece.kind, kind);
  EXPECT_EQ(piece.bytes, bytes);
  EXPECT_EQ(kind == Kind::kRead ? piece.first_segment : piece.offset, first);
}

// What an endpoint does with a plan, on plain bytes. `pulled` = contents of each read segment, in the order of ChunkList::read.
ByteVector splice(const SplicePlan& plan, const ByteVector& inline_bytes, const std::vector<ByteVector>& pulled) {
  ByteVector base = inline_bytes;
  if (plan.base_segments > 0) {
    base.clear();
    for (uint32_t i = 0; i < plan.base_segments; ++i) {
      test::add(base, pulled[i]);
    }
  }
  ByteVector stream;
  for (const SplicePiece& piece : plan.pieces()) {
    switch (piece.kind) {
      case Kind::kBase:
        test::add(stream, Bytes(base).subspan(piece.offset, piece.bytes));
        break;
      case Kind::kRead:
        for (uint32_t i = 0; i < piece.segment_count; ++i) {
          test::add(stream, pulled[piece.first_segment + i]);
        }
        break;
      case Kind::kPad:
        stream.resize(stream.size() + piece.bytes);
        break;
    }
  }
  return stream;
}

TEST(SplicePlan, WithoutChunksTheInlineBodyIsTheStream) {
  const auto pieces = plan(RdmaProc::kMsg, chunks_of({}), 100);
  ASSERT_EQ(pieces.size(), 1u);
  expect_piece(pieces[0], Kind::kBase, 0, 100);
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({}), 0).value(), 0u);
}

// Proves RPCRDMA-3.4.5-3, RPCRDMA-3.4.5-9: the kernel's 9009-byte WRITE: Position 180, GETATTR follows inline
TEST(SplicePlan, ChunkWithoutItsRoundupGetsZeros) {
  const auto pieces = plan(RdmaProc::kMsg, chunks_of({{180, 9009}}), 196);
  ASSERT_EQ(pieces.size(), 4u);
  expect_piece(pieces[0], Kind::kBase, 0, 180);
  expect_piece(pieces[1], Kind::kRead, 0, 9009);
  expect_piece(pieces[2], Kind::kPad, 0, 3);
  expect_piece(pieces[3], Kind::kBase, 180, 16);
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({{180, 9009}}), 196).value(), 196u + 9012);
}

// Proves RPCRDMA-3.4.5.2-2, RPCRDMA-3.4.5.2-4: roundup in the last segment or in one of its own
TEST(SplicePlan, ChunkWithItsRoundupIsTakenAsItIs) {
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({{180, 9012}}), 196).value(), 196u + 9012);
  const auto pieces = plan(RdmaProc::kMsg, chunks_of({{180, 9009}, {180, 3}}), 196);
  ASSERT_EQ(pieces.size(), 3u);
  expect_piece(pieces[1], Kind::kRead, 0, 9012);
  EXPECT_EQ(pieces[1].segment_count, 2);
}

// Proves RPCRDMA-3.4.5-5: Positions count earlier items and their roundup
TEST(SplicePlan, LaterPositionsCountEarlierItemsWithRoundup) {
  const auto pieces = plan(RdmaProc::kMsg, chunks_of({{100, 5}, {112, 8}}), 200);
  ASSERT_EQ(pieces.size(), 6u);
  expect_piece(pieces[0], Kind::kBase, 0, 100);
  expect_piece(pieces[1], Kind::kRead, 0, 5);
  expect_piece(pieces[2], Kind::kPad, 0, 3);
  expect_piece(pieces[3], Kind::kBase, 100, 4);  // the second item's length word
  expect_piece(pieces[4], Kind::kRead, 1, 8);
  expect_piece(pieces[5], Kind::kBase, 104, 96);
}

// Proves RPCRDMA-3.4.5-11, RPCRDMA-3.4.3-5.
TEST(SplicePlan, OddAndEmptySegmentsMakeOneChunk) {
  const auto pieces = plan(RdmaProc::kMsg, chunks_of({{64, 1}, {64, 0}, {64, 1}, {64, 2}}), 64);
  ASSERT_EQ(pieces.size(), 2u);
  expect_piece(pieces[1], Kind::kRead, 0, 4);
  EXPECT_EQ(pieces[1].segment_count, 4);
}

TEST(SplicePlan, ChunkAtTheVeryEndAndChunkOfNothing) {
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({{100, 8}}), 100).value(), 108u);
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({{100, 0}}), 100).value(), 100u);
  EXPECT_EQ(plan(RdmaProc::kMsg, chunks_of({{100, 0}}), 100).size(), 1u);
}

// RPCRDMA-3.5.3-4, RPCRDMA-4.2.4-2: bytes behind the lists of RDMA_NOMSG are ignored
TEST(SplicePlan, LongCallIsItsPositionZeroChunk) {
  SplicePlan result;
  const ChunkList chunks = chunks_of({{0, 1000}, {0, 24}, {0, 3072}});
  EXPECT_EQ(plan_splice(RdmaProc::kNomsg, chunks, 40, result).value(), 4096u);
  EXPECT_EQ(result.base_segments, 3u);
  EXPECT_EQ(result.base_bytes, 4096u);
  ASSERT_EQ(result.count, 1u);
  expect_piece(result.list[0], Kind::kBase, 0, 4096);
}

// Proves RPCRDMA-3.5.3-14.
TEST(SplicePlan, LongCallTakesFurtherChunksAtTheirPositions) {
  const auto pieces = plan(RdmaProc::kNomsg, chunks_of({{0, 2000}, {1200, 8192}}), 0);
  ASSERT_EQ(pieces.size(), 3u);
  expect_piece(pieces[0], Kind::kBase, 0, 1200);
  expect_piece(pieces[1], Kind::kRead, 1, 8192);
  expect_piece(pieces[2], Kind::kBase, 1200, 800);
}

// Position Zero beside an inline body (docs/architecture.md), RPCRDMA-4.5.2-3; R8 of tests/requirements/hostile.md
TEST(SplicePlan, PayloadBothInlineAndInAPositionZeroChunkIsRefused) {
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{0, 100}}), 200), HeaderError::kPositionMixed);
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{0, 100}}), 0), HeaderError::kPositionMixed);
  EXPECT_EQ(refuse(RdmaProc::kNomsg, chunks_of({}), 200), HeaderError::kPositionMixed);
  EXPECT_EQ(refuse(RdmaProc::kNomsg, chunks_of({{4, 100}}), 200), HeaderError::kPositionMixed);
}

// R5 of tests/requirements/hostile.md: Position past the body, overlapping, descending
TEST(SplicePlan, PositionPastTheBodyIsRefused) {
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{104, 8}}), 100), HeaderError::kPositionBeyond);
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{100, 8}, {112, 8}}), 100), HeaderError::kPositionBeyond);
  EXPECT_EQ(refuse(RdmaProc::kNomsg, chunks_of({{0, 96}, {100, 8}}), 1000), HeaderError::kPositionBeyond);
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{0xFFFFFFFC, UINT32_MAX}}), 100), HeaderError::kPositionBeyond);
}

TEST(SplicePlan, OverlappingChunksAreRefused) {
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{40, 8}, {44, 8}}), 100), HeaderError::kPositionBeyond);
  // Inside the roundup of the chunk before.
  EXPECT_EQ(check(RdmaProc::kMsg, chunks_of({{40, 5}, {48, 4}}), 100).value(), 112u);
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{40, 9}, {48, 4}}), 100), HeaderError::kPositionBeyond);
}

TEST(SplicePlan, LengthsNearTheTopOf32BitsDoNotWrap) {
  const auto result = check(RdmaProc::kMsg, chunks_of({{4, UINT32_MAX}, {4, UINT32_MAX}, {4, UINT32_MAX}}), 100);
  EXPECT_EQ(result.value(), 100 + xdr_padded(3 * uint64_t{UINT32_MAX}));
  EXPECT_EQ(refuse(RdmaProc::kMsg, chunks_of({{4, UINT32_MAX}, {8, 4}}), 100), HeaderError::kPositionBeyond);
}

TEST(SplicePlan, MostChunksThatAListCanHoldFitThePlan) {
  HeaderBytes message(1, test::kMsg);
  for (uint32_t i = 0; i < kReadSegmentsMax; ++i) {
    message.read(4 + 8 * i, 1);
  }
  ChunkList chunks;
  ASSERT_TRUE(decode_chunks(message.end().end().end(), ChunkLimits{}, chunks).ok());
  SplicePlan result;
  ASSERT_TRUE(plan_splice(RdmaProc::kMsg, chunks, 4 * kReadSegmentsMax + 4, result).ok());
  EXPECT_EQ(result.count, SplicePlan::kPiecesMax);
}

// A stream, reduced at random places, cut into segments at random, listed in random chunk order.
struct Reduced {
  ByteVector stream;
  ByteVector base;
  struct Cut {
    uint32_t position;
    ByteVector raw;
  };
  std::vector<Cut> cuts;
};

Reduced reduce_at_random() {
  Reduced made;
  const auto items = *rc::gen::inRange<uint32_t>(0, 6);
  const auto add_inline = [&made](uint32_t words) {
    for (uint32_t i = 0; i < words; ++i) {
      test::add_word(made.stream, 0xB0B0B0B0 + i);
      test::add_word(made.base, 0xB0B0B0B0 + i);
    }
  };
  for (uint32_t item = 0; item < items; ++item) {
    add_inline(*rc::gen::inRange<uint32_t>(1, 8));
    const auto length = *rc::gen::inRange<uint32_t>(0, 40);
    const uint32_t position = static_cast<uint32_t>(made.stream.size());
    ByteVector content(length);
    std::iota(content.begin(), content.end(), static_cast<uint8_t>(item * 50 + 1));
    test::add(made.stream, content);
    made.stream.resize(xdr_padded(made.stream.size()));
    if (*rc::gen::arbitrary<bool>()) {
      content.resize(xdr_padded(length));  // roundup travels in the chunk
    }
    while (!content.empty()) {
      const auto step = *rc::gen::inRange<size_t>(0, content.size() + 1);
      made.cuts.push_back({position, ByteVector(content.begin(), content.begin() + static_cast<ptrdiff_t>(step))});
      content.erase(content.begin(), content.begin() + static_cast<ptrdiff_t>(step));
      RC_PRE(made.cuts.size() < 40);
    }
  }
  add_inline(*rc::gen::inRange<uint32_t>(1, 8));
  return made;
}

// Proves RPCRDMA-3.4.4.1-3: opaque<>[] of two items of 3 and 4 bytes. The count of the outer array stays behind; the inner ones
// move whole, their own counts and roundup among them, and the stream is what it was.
TEST(SplicePlan, OfNestedArraysOnlyTheOuterCountStaysBehind) {
  const ByteVector header(40, 0x11);
  const ByteVector moved = test::hex("00000003aabbcc0000000004ddeeff11");
  const ByteVector behind = test::hex("0000beef");
  ByteVector base = header;
  test::add(base, test::words({2}));
  test::add(base, behind);
  ByteVector stream = header;
  test::add(stream, test::words({2}));
  test::add(stream, moved);
  test::add(stream, behind);
  for (const uint32_t cut : {0u, 4u, 7u, 8u, 15u}) {  // wherever its segments are cut
    const ChunkList chunks = chunks_of({{44, cut}, {44, static_cast<uint32_t>(moved.size()) - cut}});
    SplicePlan plan;
    ASSERT_EQ(plan_splice(RdmaProc::kMsg, chunks, base.size(), plan).value(), stream.size());
    const auto at = moved.begin() + static_cast<ptrdiff_t>(cut);
    EXPECT_EQ(splice(plan, base, {ByteVector(moved.begin(), at), ByteVector(at, moved.end())}), stream) << cut;
  }
}

// Proves RPCRDMA-6.1-7, RPCRDMA-3.4.5-8, RPCRDMA-3.4.1-1, RPCRDMA-4.3.1.1-1.
TEST(SplicePlan, RebuildsWhateverWasReducedHoweverItWasCut) {
  EXPECT_TRUE(rc::check([] {
    Reduced made = reduce_at_random();
    const bool long_call = *rc::gen::arbitrary<bool>();
    if (long_call) {
      const auto cut = *rc::gen::inRange<size_t>(0, made.base.size() + 1);
      const auto middle = made.base.begin() + static_cast<ptrdiff_t>(cut);
      made.cuts.push_back({0, ByteVector(made.base.begin(), middle)});
      made.cuts.push_back({0, ByteVector(middle, made.base.end())});
    }
    // Any order of chunks; within one the order of its segments stays.
    if (*rc::gen::arbitrary<bool>()) {
      std::stable_sort(made.cuts.begin(), made.cuts.end(), [](const auto& a, const auto& b) { return a.position > b.position; });
    }
    HeaderBytes message(1, long_call ? test::kNomsg : test::kMsg);
    for (uint32_t i = 0; i < made.cuts.size(); ++i) {
      message.read(made.cuts[i].position, static_cast<uint32_t>(made.cuts[i].raw.size()), 0x1000, i);
    }
    ChunkList chunks;
    RC_ASSERT(decode_chunks(message.end().end().end(), ChunkLimits{}, chunks).ok());
    std::vector<ByteVector> pulled;
    for (const ReadSegment& read : chunks.reads()) {
      pulled.push_back(made.cuts[read.segment.handle.value()].raw);
    }
    SplicePlan result;
    const auto planned = plan_splice(long_call ? RdmaProc::kNomsg : RdmaProc::kMsg, chunks, made.base.size(), result);
    RC_ASSERT(planned.ok());
    RC_ASSERT(*planned == made.stream.size());
    RC_ASSERT(splice(result, made.base, pulled) == made.stream);
  }));
}

}  // namespace
}  // namespace cw::rpcrdma
