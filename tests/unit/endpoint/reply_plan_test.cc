#include "rpcrdma/endpoint/reply_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "rpcrdma/wire/transport_header.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

class ReplyPlanTest : public ::testing::Test {
 protected:
  PlainChunk add_chunk(std::vector<uint32_t> lengths) {
    PlainChunk chunk{.first_segment = static_cast<uint16_t>(chunks.segment_count),
                     .segment_count = static_cast<uint16_t>(lengths.size())};
    for (const uint32_t length : lengths) {
      chunks.segments[chunks.segment_count++] = {.handle = verbs::Rkey(1), .length = length, .offset = 4096};
      chunk.capacity_bytes += length;
    }
    return chunk;
  }
  void add_write(std::vector<uint32_t> lengths) { chunks.write[chunks.write_count++] = add_chunk(std::move(lengths)); }
  void set_reply(std::vector<uint32_t> lengths) {
    chunks.reply = add_chunk(std::move(lengths));
    chunks.has_reply = true;
  }
  void add_item(uint64_t offset, uint32_t length) { items.items[items.count++] = {.offset = offset, .length = length}; }
  const ReplyPlan& decide(uint64_t reply_bytes) {
    plan = plan_reply(chunks, reply_bytes, items, limits, layout);
    return plan;
  }
  std::vector<uint32_t> lengths() const { return {layout.lengths.begin(), layout.lengths.begin() + chunks.segment_count}; }

  ChunkList chunks;
  ReducibleItems items;
  ReplyLimits limits{.send_bytes_max = 1024, .header_bytes_max = 2048, .reply_bytes_max = 1 << 20};
  ReplyPlan plan;
  ReplyLayout layout;
};

TEST_F(ReplyPlanTest, AShortReplyWithoutChunksIsInline) {
  EXPECT_EQ(decide(24).form, ReplyForm::kInline);
  EXPECT_EQ(plan.header_bytes, 28u);
  EXPECT_EQ(plan.kept_bytes, 24u);
  EXPECT_EQ(plan.placed_count, 0u);
}

// Proves RPCRDMA-3.3.2-4, RPCRDMA-4.2.4-16: header and payload count together; equal to the threshold fits.
TEST_F(ReplyPlanTest, TheSizeTestIncludesTheHeader) {
  EXPECT_EQ(decide(1024 - 28).form, ReplyForm::kInline);
  EXPECT_EQ(decide(1024 - 27).form, ReplyForm::kErrorChunk);
  set_reply({5000});
  EXPECT_EQ(decide(1024 - 28 - 20).form, ReplyForm::kInline);
  EXPECT_EQ(decide(1024 - 28 - 19).form, ReplyForm::kReplyChunk);
}

// Proves RPCRDMA-4.3.3-8, RPCRDMA-4.3.3-5: returned, with nothing in it.
TEST_F(ReplyPlanTest, AnUnusedReplyChunkComesBackEmpty) {
  set_reply({100, 200});
  decide(60);
  EXPECT_EQ(plan.form, ReplyForm::kInline);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{0, 0}));
}

// Proves RPCRDMA-3.4.6-5: segments are filled in order without gaps.
TEST_F(ReplyPlanTest, SegmentsAreFilledInOrder) {
  add_write({10, 0, 20, 30});
  add_item(28, 25);
  EXPECT_EQ(decide(28 + 28).form, ReplyForm::kInline);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{10, 0, 15, 0}));
  EXPECT_EQ(plan.kept_bytes, 28u);
  ASSERT_EQ(plan.placed_count, 1u);
  EXPECT_EQ(layout.placed[0].offset, 28u);
  EXPECT_EQ(layout.placed[0].bytes, 25u);
  EXPECT_EQ(layout.placed[0].chunk, 0u);
}

// Proves RPCRDMA-4.3.2.1-2, RPCRDMA-3.4.4.4-1: one item per chunk, in order, until either runs out; the rest stays inline.
TEST_F(ReplyPlanTest, ItemsTakeChunksInOrderAndTheRestStaysInline) {
  add_write({100});
  add_write({100});
  add_item(40, 7);
  add_item(60, 100);
  add_item(200, 50);
  decide(300);
  EXPECT_EQ(plan.form, ReplyForm::kInline);
  EXPECT_EQ(plan.placed_count, 2u);
  EXPECT_EQ(layout.placed[1].chunk, 1u);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{7, 100}));
  EXPECT_EQ(plan.kept_bytes, 300u - 8 - 100);
}

// Proves RPCRDMA-4.3.2.2-3, RPCRDMA-4.3.2.2-4: chunks that nothing consumed are unused ones.
TEST_F(ReplyPlanTest, ChunksWithoutItemsComeBackUnused) {
  add_write({100, 100});
  add_write({});
  add_write({5});
  decide(24);
  EXPECT_EQ(plan.form, ReplyForm::kInline);
  EXPECT_EQ(plan.header_bytes, 28u + 3 * 8 + 3 * 16);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{0, 0, 0}));
}

// Proves RPCRDMA-4.3.2.3-3, RPCRDMA-4.3.2.3-2, RPCRDMA-3.5.2-1: the item of an empty chunk is returned inline, the next item
// goes to the next chunk.
TEST_F(ReplyPlanTest, AnEmptyChunkKeepsItsItemInline) {
  add_write({});
  add_write({100});
  add_item(40, 20);
  add_item(80, 40);
  decide(120);
  ASSERT_EQ(plan.placed_count, 1u);
  EXPECT_EQ(layout.placed[0].offset, 80u);
  EXPECT_EQ(layout.placed[0].chunk, 1u);
  EXPECT_EQ(plan.kept_bytes, 80u);
}

// Empty result (docs/architecture.md) and ulb/binding.h: an item without content takes its chunk and leaves it unused.
TEST_F(ReplyPlanTest, AnItemWithoutContentUsesItsChunkUp) {
  add_write({100});
  add_write({100});
  add_item(40, 0);
  add_item(44, 40);
  decide(84);
  ASSERT_EQ(plan.placed_count, 1u);
  EXPECT_EQ(layout.placed[0].chunk, 1u);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{0, 40}));
}

// Chunk without room (docs/architecture.md): segments of length 0 are no request for an inline result.
TEST_F(ReplyPlanTest, AChunkWithoutCapacityIsNotAnEmptyChunk) {
  add_write({0, 0});
  add_item(28, 4);
  EXPECT_EQ(decide(32).form, ReplyForm::kErrorChunk);
}

// Proves RPCRDMA-4.5.3-4.
TEST_F(ReplyPlanTest, AnItemLongerThanItsChunkLeavesNoReply) {
  add_write({10, 10});
  set_reply({4000});
  add_item(28, 21);
  EXPECT_EQ(decide(28 + 24).form, ReplyForm::kErrorChunk);
  EXPECT_EQ(plan.header_bytes, kChunkErrorBytes);
  EXPECT_EQ(plan.placed_count, 0u);
}

// Proves RPCRDMA-3.5.3-9, RPCRDMA-3.5.3-10: reduce first; what is still too long goes through the Reply chunk, Write chunks stay
// used.
TEST_F(ReplyPlanTest, ALongRestGoesThroughTheReplyChunkBesideWriteChunks) {
  add_write({5000});
  set_reply({1000, 1000, 1000});
  add_item(28, 4001);
  decide(28 + 4004 + 2000);
  EXPECT_EQ(plan.form, ReplyForm::kReplyChunk);
  EXPECT_EQ(plan.kept_bytes, 2028u);
  EXPECT_EQ(lengths(), (std::vector<uint32_t>{4001, 1000, 1000, 28}));
}

TEST_F(ReplyPlanTest, AReplyChunkOfExactlyTheSizeServes) {
  set_reply({2000});
  EXPECT_EQ(decide(2000).form, ReplyForm::kReplyChunk);
  EXPECT_EQ(decide(2001).form, ReplyForm::kErrorChunk);
  EXPECT_EQ(lengths(), std::vector<uint32_t>{0});
}

// CVE-2026-89530: a reply that is larger than everything the client offers.
TEST_F(ReplyPlanTest, AHugeReplyWithoutAnyChunkIsAnError) {
  EXPECT_EQ(decide(1 << 20).form, ReplyForm::kErrorChunk);
  set_reply({1u << 24});
  EXPECT_EQ(decide(1 << 20).form, ReplyForm::kReplyChunk);
  EXPECT_EQ(decide((1 << 20) + 1).form, ReplyForm::kErrorChunk) << "over our own limit";
}

TEST_F(ReplyPlanTest, AHeaderThatDoesNotFitIsAnError) {
  for (int i = 0; i < 16; ++i) {
    add_write({1, 1, 1, 1});
  }
  EXPECT_GT(reply_header_bytes(chunks), 1024u);
  EXPECT_EQ(decide(24).form, ReplyForm::kErrorChunk);
  limits.send_bytes_max = 4096;
  EXPECT_EQ(decide(24).form, ReplyForm::kInline);
  limits.header_bytes_max = 1024;
  EXPECT_EQ(decide(24).form, ReplyForm::kErrorChunk);
}

TEST_F(ReplyPlanTest, ItemsThatContradictTheStreamEndTheReduction) {
  add_write({100});
  add_write({100});
  add_item(40, 8);
  add_item(44, 8);  // inside the one before
  decide(200);
  EXPECT_EQ(plan.placed_count, 1u);
  items.count = 0;
  add_item(196, 3);
  add_item(200, 1);  // its pad is past the end
  decide(202);
  EXPECT_EQ(plan.placed_count, 1u);
  items.count = 0;
  add_item(UINT64_MAX - 2, UINT32_MAX);
  decide(200);
  EXPECT_EQ(plan.placed_count, 0u);
  EXPECT_EQ(plan.form, ReplyForm::kInline);
}

// Proves RPCRDMA-8.1.4-3: whatever comes in: bytes are conserved, no segment is overfilled, and the SEND fits.
TEST_F(ReplyPlanTest, RandomPlansConserveBytes) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    chunks.clear();
    items.count = 0;
    for (uint32_t i = random.next_below(4); i > 0; --i) {
      std::vector<uint32_t> segments(random.next_below(5));
      for (uint32_t& length : segments) {
        length = random.next_below(400);
      }
      add_write(segments);
    }
    if (random.next_below(2) == 0) {
      set_reply({random.next_below(3000), random.next_below(3000)});
    }
    uint64_t offset = 24;
    for (uint32_t i = random.next_below(5); i > 0; --i) {
      offset += 4 + 4 * random.next_below(20);
      const uint32_t length = random.next_below(500);
      add_item(offset, length);
      offset += xdr_padded(length);
    }
    const uint64_t reply_bytes = offset + 4 * random.next_below(300);
    decide(reply_bytes);
    uint64_t placed = 0;
    uint64_t padded = 0;
    for (uint32_t i = 0; i < plan.placed_count; ++i) {
      placed += layout.placed[i].bytes;
      padded += xdr_padded(layout.placed[i].bytes);
    }
    uint64_t returned = 0;
    for (uint32_t i = 0; plan.has_payload() && i < chunks.segment_count; ++i) {
      ASSERT_LE(layout.lengths[i], chunks.segments[i].length);
      returned += layout.lengths[i];
    }
    switch (plan.form) {
      case ReplyForm::kInline:
        ASSERT_EQ(plan.kept_bytes + padded, reply_bytes);
        ASSERT_EQ(returned, placed);
        ASSERT_LE(plan.header_bytes + plan.kept_bytes, 1024u);
        break;
      case ReplyForm::kReplyChunk:
        ASSERT_EQ(plan.kept_bytes + padded, reply_bytes);
        ASSERT_EQ(returned, placed + plan.kept_bytes);
        ASSERT_GT(plan.header_bytes + plan.kept_bytes, 1024u);
        break;
      case ReplyForm::kErrorChunk:
        ASSERT_EQ(plan.placed_count, 0u);
        ASSERT_EQ(plan.kept_bytes, 0u);
        break;
      case ReplyForm::kErrorVersion:
        FAIL();
    }
  }
}

}  // namespace
}  // namespace cw::rpcrdma
