// Who has been promised room in a completion queue, and when it is free again.
#include "rnic/completion_room.h"

#include <gtest/gtest.h>

namespace cw::rnic {
namespace {

TEST(RnicCompletionRoom, IsPromisedAsFarAsItGoes) {
  CompletionRoom room(1000);
  EXPECT_TRUE(room.reserve(640));
  EXPECT_FALSE(room.reserve(640));
  EXPECT_TRUE(room.reserve(360));
  EXPECT_FALSE(room.reserve(1));
  EXPECT_FALSE(room.reserve(UINT32_MAX));
  EXPECT_EQ(room.reserved(), 1000u);
}

TEST(RnicCompletionRoom, OfOneThatWasNotMadeItIsFreeAtOnce) {
  CompletionRoom room(640);
  ASSERT_TRUE(room.reserve(640));
  room.cancel(640);
  EXPECT_EQ(room.reserved(), 0u);
  EXPECT_TRUE(room.reserve(640));
}

// Its completions may be there yet.
TEST(RnicCompletionRoom, OfOneThatWasDestroyedItIsFreeWhenTheQueueWasFoundEmpty) {
  CompletionRoom room(1280);
  ASSERT_TRUE(room.reserve(640));
  ASSERT_TRUE(room.reserve(640));
  room.leave(640);
  EXPECT_EQ(room.reserved(), 1280u);
  EXPECT_FALSE(room.reserve(640));
  room.settle();
  EXPECT_EQ(room.reserved(), 640u);
  room.settle();
  EXPECT_EQ(room.reserved(), 640u) << "once";
  EXPECT_TRUE(room.reserve(640));
  EXPECT_FALSE(room.reserve(640));
}

}  // namespace
}  // namespace cw::rnic
