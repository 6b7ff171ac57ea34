// Where the items of a reply plan end. Each test stands for a change of reply_plan.cc that no other test noticed.
#include <gtest/gtest.h>

#include "rpcrdma/endpoint/reply_plan.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {
namespace {

class ReplyPlanBounds : public ::testing::Test {
 protected:
  ReplyPlanBounds() {
    for (uint16_t i = 0; i < 2; ++i) {
      chunks.segments[i] = {.handle = verbs::Rkey(1), .length = 100, .offset = 4096};
      chunks.write[i] = {.first_segment = i, .segment_count = 1, .capacity_bytes = 100};
    }
    chunks.segment_count = 2;
    chunks.write_count = 2;
  }
  const ReplyPlan& decide() {
    plan = plan_reply(chunks, 200, items, limits, layout);
    return plan;
  }

  ChunkList chunks;
  ReducibleItems items;
  ReplyLimits limits{.send_bytes_max = 1024, .header_bytes_max = 2048, .reply_bytes_max = 1 << 20};
  ReplyPlan plan;
  ReplyLayout layout;
};

// The array keeps items of an earlier reply behind those of this one.
TEST_F(ReplyPlanBounds, ItemsBehindTheCountAreNotLookedAt) {
  items.items[0] = {.offset = 28, .length = 12};
  items.items[1] = {.offset = 60, .length = 12};
  items.count = 1;
  EXPECT_EQ(decide().placed_count, 1u);
  EXPECT_EQ(plan.kept_bytes, 188u);
  EXPECT_EQ(layout.lengths[0], 12u);
  EXPECT_EQ(layout.lengths[1], 0u);
}

TEST_F(ReplyPlanBounds, AnItemMayBeginWhereTheLastOneEnded) {
  items.items[0] = {.offset = 28, .length = 11};  // and a byte of roundup
  items.items[1] = {.offset = 40, .length = 8};
  items.count = 2;
  EXPECT_EQ(decide().placed_count, 2u);
  EXPECT_EQ(plan.kept_bytes, 180u);
  EXPECT_EQ(layout.lengths[0], 11u);
  EXPECT_EQ(layout.lengths[1], 8u);
}

// A byte earlier would be an item inside the last one.
TEST_F(ReplyPlanBounds, AnItemThatBeginsInsideTheLastOneStaysInTheReply) {
  items.items[0] = {.offset = 28, .length = 12};
  items.items[1] = {.offset = 39, .length = 8};
  items.count = 2;
  EXPECT_EQ(decide().placed_count, 1u);
  EXPECT_EQ(plan.kept_bytes, 188u);
}

// A SEND that is the header alone may take all of the threshold, and all of the Buffer that holds it; not a byte more.
TEST_F(ReplyPlanBounds, AHeaderOfExactlyTheLimitsFits) {
  chunks.segments[2] = {.handle = verbs::Rkey(1), .length = 500, .offset = 4096};
  chunks.reply = {.first_segment = 2, .segment_count = 1, .capacity_bytes = 500};
  chunks.segment_count = 3;
  chunks.has_reply = true;
  const uint32_t header = reply_header_bytes(chunks);
  limits.send_bytes_max = header;
  limits.header_bytes_max = header;
  EXPECT_EQ(decide().form, ReplyForm::kReplyChunk);
  EXPECT_EQ(plan.header_bytes, header);
  limits.send_bytes_max = header - 1;
  EXPECT_EQ(decide().form, ReplyForm::kErrorChunk);
  limits = {.send_bytes_max = header, .header_bytes_max = header - 1, .reply_bytes_max = 1 << 20};
  EXPECT_EQ(decide().form, ReplyForm::kErrorChunk);
}

TEST_F(ReplyPlanBounds, AReplyOfExactlyItsLimitIsPlanned) {
  limits.reply_bytes_max = 200;
  EXPECT_EQ(decide().form, ReplyForm::kInline);
  limits.reply_bytes_max = 199;
  EXPECT_EQ(decide().form, ReplyForm::kErrorChunk);
}

}  // namespace
}  // namespace cw::rpcrdma
