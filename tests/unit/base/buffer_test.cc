#include "base/buffer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/heap_buffer_pool.h"

namespace cw {
namespace {

std::vector<uint8_t> counting(size_t count) {
  std::vector<uint8_t> raw(count);
  std::iota(raw.begin(), raw.end(), uint8_t{0});
  return raw;
}

std::vector<uint8_t> contents(const Chain& chain) {
  std::vector<uint8_t> raw(chain.bytes());
  chain.copy_to(0, raw);
  return raw;
}

class ChainTest : public ::testing::Test {
 protected:
  HeapBufferPool pool{16, 10, 8};
};

TEST_F(ChainTest, AppendCopySpansBuffers) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  EXPECT_EQ(chain.bytes(), 25u);
  EXPECT_EQ(chain.buffer_count(), 3u);
  EXPECT_EQ(contents(chain), counting(25));
}

TEST_F(ChainTest, AppendCopyIntoAnEmptyPoolLeavesTheChainAsItWas) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(5)));
  EXPECT_FALSE(chain.append_copy(pool, counting(200)));
  EXPECT_EQ(contents(chain), counting(5));
  EXPECT_EQ(pool.in_use(), 1u);
}

TEST_F(ChainTest, SplitInsideABufferSharesItsStorage) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  Chain front;
  ASSERT_TRUE(chain.split_front(13, front));
  EXPECT_EQ(front.bytes(), 13u);
  EXPECT_EQ(chain.bytes(), 12u);
  std::vector<uint8_t> all = contents(front);
  const std::vector<uint8_t> rest = contents(chain);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, counting(25));
  // The storage lives until its last view goes.
  const uint8_t* shared = chain.head()->data;
  front.clear();
  EXPECT_EQ(*shared, 13);
}

TEST_F(ChainTest, SplitAtABufferEdgeNeedsNoView) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(20)));
  Chain front;
  ASSERT_TRUE(chain.split_front(10, front));
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(front.buffer_count(), 1u);
  EXPECT_EQ(chain.buffer_count(), 1u);
}

TEST_F(ChainTest, SplitOfEverythingAndOfNothing) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(20)));
  Chain none;
  ASSERT_TRUE(chain.split_front(0, none));
  EXPECT_TRUE(none.empty());
  Chain all;
  ASSERT_TRUE(chain.split_front(20, all));
  EXPECT_TRUE(chain.empty());
  EXPECT_EQ(chain.tail(), nullptr);
  EXPECT_EQ(contents(all), counting(20));
}

TEST_F(ChainTest, InsertsBehindABufferAndAtTheFront) {
  Chain chain;
  const std::vector<uint8_t> raw = counting(4);
  std::vector<Buffer*> buffers(4);
  for (size_t i = 0; i < 4; ++i) {
    buffers[i] = pool.allocate_one();
    buffers[i]->append(Bytes(raw).subspan(i, 1));
  }
  chain.insert_after(nullptr, buffers[1]);
  chain.insert_after(buffers[1], buffers[3]);
  chain.insert_after(buffers[1], buffers[2]);
  chain.insert_after(nullptr, buffers[0]);
  EXPECT_EQ(contents(chain), raw);
  EXPECT_EQ(chain.tail(), buffers[3]);
  EXPECT_EQ(chain.buffer_count(), 4u);
}

TEST_F(ChainTest, CutsBehindABuffer) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  EXPECT_TRUE(chain.cut_after(chain.tail()).empty());
  const Chain rest = chain.cut_after(chain.head());
  EXPECT_EQ(contents(chain), counting(10));
  EXPECT_EQ(chain.tail(), chain.head());
  EXPECT_EQ(rest.bytes(), 15u);
  EXPECT_EQ(rest.buffer_count(), 2u);
  const Chain all = chain.cut_after(nullptr);
  EXPECT_TRUE(chain.empty());
  EXPECT_EQ(all.bytes(), 10u);
}

TEST_F(ChainTest, TrimFrontReleasesEmptyBuffers) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  chain.trim_front(10);
  EXPECT_EQ(pool.in_use(), 2u);
  chain.trim_front(3);
  EXPECT_EQ(chain.bytes(), 12u);
  EXPECT_EQ(chain.head()->data[0], 13);
  chain.trim_front(12);
  EXPECT_TRUE(chain.empty());
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ChainTest, TrimBackKeepsTheFront) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  chain.trim_back(16);
  EXPECT_EQ(contents(chain), counting(9));
  EXPECT_EQ(pool.in_use(), 1u);
  chain.trim_back(9);
  EXPECT_TRUE(chain.empty());
}

TEST_F(ChainTest, BytesGoInFrontWhereNobodyElseHasAny) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(5)));
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes);
  const MutableBytes front = chain.extend_front(3);
  std::fill(front.begin(), front.end(), uint8_t{9});
  EXPECT_EQ(contents(chain), (std::vector<uint8_t>{9, 9, 9, 0, 1, 2, 3, 4}));
  EXPECT_EQ(chain.bytes(), 8u);
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes - 3);
  EXPECT_EQ(chain.head()->tailroom().size(), 5u);

  Chain views;
  ASSERT_TRUE(chain.share_range(0, 8, views));
  EXPECT_EQ(views.head()->headroom_bytes, 0u);
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes - 3) << "who has a view sees what is valid only";
  Chain part;
  ASSERT_TRUE(chain.split_front(2, part));
  EXPECT_EQ(part.head()->headroom_bytes, 0u);
  EXPECT_EQ(chain.head()->headroom_bytes, 0u);
}

TEST_F(ChainTest, WhatWasCutOffIsSomebodysAndNoRoom) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(5)));
  chain.trim_front(1);
  EXPECT_EQ(chain.head()->headroom_bytes, 0u);
  Chain other;
  ASSERT_TRUE(other.append_copy(pool, counting(5)));
  other.trim_back(1);
  EXPECT_EQ(other.head()->headroom_bytes, 0u);
}

TEST_F(ChainTest, WhatIsGivenUpInFrontIsRoomWhereTheBufferIsItsOwners) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(15)));
  const uint8_t* begin = chain.head()->data;
  chain.give_up_front(4);
  EXPECT_EQ(chain.bytes(), 11u);
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes + 4);
  EXPECT_EQ(chain.extend_front(4).data(), begin);
  EXPECT_EQ(contents(chain), counting(15));
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes);
  chain.trim_front(1);  // somebody may see it
  chain.give_up_front(2);
  EXPECT_EQ(chain.head()->headroom_bytes, 0u);
  EXPECT_EQ(chain.bytes(), 12u);
  chain.give_up_front(8);  // the whole first Buffer, and one byte of the next
  EXPECT_EQ(chain.buffer_count(), 1u);
  EXPECT_EQ(contents(chain), (std::vector<uint8_t>{11, 12, 13, 14}));
}

TEST_F(ChainTest, ABufferThatComesBackHasItsHeadroomAgain) {
  HeapBufferPool one(1, 10, 0);
  Chain chain;
  ASSERT_TRUE(chain.append_copy(one, counting(5)));
  (void)chain.extend_front(20);
  chain.clear();
  ASSERT_TRUE(chain.append_copy(one, counting(10)));
  EXPECT_EQ(chain.head()->headroom_bytes, Buffer::kHeadroomBytes);
  EXPECT_EQ(contents(chain), counting(10));
}

TEST_F(ChainTest, ShareRangeLeavesTheOriginalWhole) {
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(25)));
  Chain views;
  ASSERT_TRUE(chain.share_range(8, 10, views));
  EXPECT_EQ(contents(chain), counting(25));
  const std::vector<uint8_t> all = counting(25);
  EXPECT_EQ(contents(views), std::vector<uint8_t>(all.begin() + 8, all.begin() + 18));
}

TEST_F(ChainTest, ShareRangeWithoutViewsLeftAddsNothing) {
  HeapBufferPool small(4, 10, 1);
  Chain chain;
  ASSERT_TRUE(chain.append_copy(small, counting(25)));
  Chain views;
  EXPECT_FALSE(chain.share_range(8, 10, views));
  EXPECT_TRUE(views.empty());
  EXPECT_EQ(small.in_use(), 3u);
}

TEST_F(ChainTest, BuffersOfTwoPoolsGoHome) {
  HeapBufferPool other(4, 10, 1);
  Chain chain;
  ASSERT_TRUE(chain.append_copy(pool, counting(20)));
  Chain more;
  ASSERT_TRUE(more.append_copy(other, counting(20)));
  chain.append(std::move(more));
  EXPECT_EQ(chain.bytes(), 40u);
  chain.clear();
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(other.in_use(), 0u);
}

}  // namespace
}  // namespace cw
