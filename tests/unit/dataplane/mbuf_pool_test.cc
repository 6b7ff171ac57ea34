// Buffers and Chains over mbufs: what holds on the heap holds here, and everything comes back to its pool.
#include "dataplane/dpdk/mbuf_pool.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace cw::dataplane {
namespace {

using ByteVector = std::vector<uint8_t>;

ByteVector pattern(size_t bytes) {
  ByteVector out(bytes);
  std::iota(out.begin(), out.end(), uint8_t{1});
  return out;
}
ByteVector content(const Chain& chain) {
  ByteVector out(chain.bytes());
  chain.copy_to(0, out);
  return out;
}

class MbufPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    pools =
        MbufPools::create({.packet_buffers = 511, .packet_data_bytes = 2048 + 128, .large_buffers = 127, .views = 511}, error);
    ASSERT_NE(pools, nullptr) << error;
  }
  void TearDown() override {
    for (const MbufPools::Usage& usage : {pools->packet_usage(), pools->large_usage(), pools->view_usage()}) {
      EXPECT_EQ(usage.available, usage.size);
    }
  }
  Chain chain_of(BufferPool& pool, const ByteVector& raw) {
    Chain chain;
    EXPECT_TRUE(chain.append_copy(pool, raw));
    return chain;
  }
  std::unique_ptr<MbufPools> pools;
};

// A virtual processor may lack the instruction (QEMU's -cpu max,-cx16), and DPDK's driver without locks then ends the process by
// SIGILL.
TEST(MbufPoolDriver, NeedsNoInstructionThatTheProcessorLacks) {
  EXPECT_STREQ(pool_driver(true), "lf_stack");
  EXPECT_STREQ(pool_driver(false), "stack");
}

// The check of a configuration knows what the pools take of DPDK's memory: nothing less, and little more.
TEST(MbufPoolMemory, IsWhatTheConfigurationIsCheckedAgainst) {
  const auto taken = [] {
    rte_malloc_socket_stats stats{};
    EXPECT_EQ(rte_malloc_get_socket_stats(0, &stats), 0);
    return stats.heap_allocsz_bytes;
  };
  for (const MbufPoolSizes& sizes :
       {MbufPoolSizes{.packet_buffers = 2047, .packet_data_bytes = 2048 + 128, .large_buffers = 200, .views = 4095},
        MbufPoolSizes{.packet_buffers = 3000, .packet_data_bytes = 4672, .large_buffers = 127, .views = 511},
        MbufPoolSizes{.packet_buffers = 4000, .packet_data_bytes = 1024, .large_buffers = 64, .views = 9000},
        MbufPoolSizes{
            .packet_buffers = 1023, .packet_data_bytes = 2048, .a_page_each = true, .large_buffers = 127, .views = 511}}) {
    std::string error;
    const size_t before = taken();
    const auto pools = MbufPools::create(sizes, error);
    ASSERT_NE(pools, nullptr) << error;
    const double used = static_cast<double>(taken() - before);
    const double planned = static_cast<double>(control::pool_bytes(sizes, rte_eal_has_hugepages() != 0));
    EXPECT_LE(used, planned) << sizes.packet_data_bytes;
    EXPECT_GT(used, planned * 0.97) << sizes.packet_data_bytes;
  }
}

// What DPDK's AF_XDP driver takes for granted: buffers back to back, as many bytes as count times their size.
TEST(MbufPoolOfPages, HasEachBufferInAPageOfItsOwnWithoutGaps) {
  constexpr uint32_t kCount = 1023;
  constexpr uintptr_t kPage = 4096;
  std::string error;
  const auto pools = MbufPools::create(
      {.packet_buffers = kCount, .packet_data_bytes = 2048 + 128, .a_page_each = true, .large_buffers = 127, .views = 511},
      error);
  ASSERT_NE(pools, nullptr) << error;
  EXPECT_GE(pools->packets().buffer_bytes(), 3400u + 18 + 256);
  std::vector<uintptr_t> pages;
  std::vector<Buffer*> buffers(pools->packet_usage().available);
  ASSERT_TRUE(pools->packets().allocate(buffers));
  for (Buffer* buffer : buffers) {
    const auto begin = reinterpret_cast<uintptr_t>(mbuf_of(buffer));
    const auto end = reinterpret_cast<uintptr_t>(buffer->data) + buffer->capacity_bytes - 1;
    EXPECT_EQ(begin / kPage, end / kPage);
    pages.push_back(begin / kPage);
    release_buffers(buffer);
  }
  std::ranges::sort(pages);
  EXPECT_EQ(pages.back() - pages.front(), kCount - 1);
  EXPECT_EQ(std::ranges::adjacent_find(pages), pages.end());
}

TEST(MbufPoolOfPages, RefusesBuffersLongerThanAPage) {
  std::string error;
  const MbufPoolSizes sizes{
      .packet_buffers = 511, .packet_data_bytes = 9216, .a_page_each = true, .large_buffers = 127, .views = 511};
  EXPECT_EQ(MbufPools::create(sizes, error), nullptr);
  EXPECT_NE(error.find("a page"), std::string::npos) << error;
}

TEST_F(MbufPoolTest, GivesEmptyBuffersOfTheSizeItSays) {
  for (BufferPool* pool : {&pools->packets(), &pools->large()}) {
    Buffer* buffer = pool->allocate_one();
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->size, 0u);
    EXPECT_EQ(buffer->next, nullptr);
    EXPECT_EQ(buffer->pool, pool);
    EXPECT_EQ(buffer->tailroom().size(), pool->buffer_bytes());
    EXPECT_EQ(buffer_of(mbuf_of(buffer)), buffer);
    std::fill_n(buffer->data, buffer->capacity_bytes, uint8_t{0xee});  // its whole length is its own
    release_buffers(buffer);
  }
  EXPECT_EQ(pools->packets().buffer_bytes(), 2048u);
  EXPECT_EQ(pools->large().buffer_bytes(), kLargeBufferBytes);
}

TEST_F(MbufPoolTest, AllocatesAllOrNothing) {
  std::vector<Buffer*> all(511);
  ASSERT_TRUE(pools->packets().allocate(all));
  EXPECT_EQ(pools->packets().allocate_one(), nullptr);
  for (size_t i = 0; i < 100; ++i) {
    release_buffers(all.back());
    all.pop_back();
  }
  std::vector<Buffer*> too_many(101);
  EXPECT_FALSE(pools->packets().allocate(too_many));
  EXPECT_EQ(pools->packet_usage().available, 100u);
  EXPECT_EQ(pools->packet_usage().refused, 2u);
  EXPECT_EQ(pools->large_usage().refused, 0u);
  std::vector<Buffer*> rest(100);
  EXPECT_TRUE(pools->packets().allocate(rest));
  all.insert(all.end(), rest.begin(), rest.end());
  for (Buffer* buffer : all) {
    release_buffers(buffer);
  }
}

TEST_F(MbufPoolTest, SplitsSharesAndTrimsLikeAnyChain) {
  const ByteVector raw = pattern(10'000);
  Chain chain = chain_of(pools->packets(), raw);
  EXPECT_EQ(chain.buffer_count(), 5u);
  Chain front;
  ASSERT_TRUE(chain.split_front(3'000, front));  // in the middle of a buffer
  EXPECT_EQ(content(front), ByteVector(raw.begin(), raw.begin() + 3'000));
  EXPECT_EQ(content(chain), ByteVector(raw.begin() + 3'000, raw.end()));
  Chain views;
  ASSERT_TRUE(chain.share_range(1'000, 4'000, views));
  chain.clear();  // the views keep the storage
  EXPECT_EQ(content(views), ByteVector(raw.begin() + 4'000, raw.begin() + 8'000));
  EXPECT_LT(pools->packet_usage().available, 511u);
  Chain nested;
  ASSERT_TRUE(views.share_range(500, 3'000, nested));  // views of views
  views.clear();
  EXPECT_EQ(content(nested), ByteVector(raw.begin() + 4'500, raw.begin() + 7'500));
  nested.trim_front(700);
  nested.trim_back(700);
  EXPECT_EQ(content(nested), ByteVector(raw.begin() + 5'200, raw.begin() + 6'800));
  nested.append(std::move(front));
}

TEST_F(MbufPoolTest, AViewAcceptsNoMoreBytes) {
  Chain chain = chain_of(pools->large(), pattern(100));
  Chain view;
  ASSERT_TRUE(chain.share_range(10, 50, view));
  EXPECT_TRUE(view.tail()->tailroom().empty());
  ASSERT_TRUE(view.append_copy(pools->packets(), pattern(7)));
  EXPECT_EQ(view.buffer_count(), 2u);
  EXPECT_EQ(content(chain), pattern(100));
}

TEST_F(MbufPoolTest, SaysWhenViewsRunOut) {
  Chain chain = chain_of(pools->large(), pattern(1'000));
  std::vector<Chain> views(511);
  for (Chain& view : views) {
    ASSERT_TRUE(chain.share_range(1, 10, view));
  }
  Chain one_more;
  EXPECT_FALSE(chain.share_range(1, 10, one_more));
  EXPECT_TRUE(one_more.empty());
  Chain front;
  EXPECT_FALSE(chain.split_front(500, front));
  EXPECT_EQ(content(chain), pattern(1'000));
  EXPECT_EQ(pools->attach(*chain.head(), chain.head()->data, 10), nullptr);
  EXPECT_EQ(pools->view_usage().refused, 3u);
}

// What transmission does: the device's mbuf keeps the bytes after their owner has let go.
TEST_F(MbufPoolTest, AnAttachedMbufOutlivesItsOwner) {
  const ByteVector raw = pattern(30'000);
  Chain chain = chain_of(pools->large(), raw);
  rte_mbuf* attached = pools->attach(*chain.head(), chain.head()->data + 20'000, 4'096);
  ASSERT_NE(attached, nullptr);
  chain.clear();
  EXPECT_EQ(pools->large_usage().available, 126u);
  EXPECT_EQ(rte_pktmbuf_data_len(attached), 4'096);
  EXPECT_EQ(attached->pkt_len, 4'096u);
  EXPECT_EQ(attached->nb_segs, 1);
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(attached, const uint8_t*), raw.data() + 20'000, 4'096), 0);
  rte_pktmbuf_free(attached);
  EXPECT_EQ(pools->large_usage().available, 127u);
  rte_mbuf* trailer = pools->allocate_small();
  ASSERT_NE(trailer, nullptr);
  EXPECT_GE(rte_pktmbuf_tailroom(trailer), 16);
  rte_pktmbuf_free(trailer);
}

TEST_F(MbufPoolTest, AdoptsAReceivedFrame) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pools->packet_mempool());
  ASSERT_NE(mbuf, nullptr);
  const ByteVector raw = pattern(1'500);
  std::memcpy(rte_pktmbuf_append(mbuf, 1'500), raw.data(), 1'500);
  Chain chain(MbufPools::adopt(mbuf));
  EXPECT_EQ(content(chain), raw);
  chain.trim_front(58);
  Chain view;
  ASSERT_TRUE(chain.share_range(0, 1'000, view));
  chain.clear();
  EXPECT_EQ(content(view), ByteVector(raw.begin() + 58, raw.begin() + 1'058));
}

TEST_F(MbufPoolTest, ReleasesListsOfSeveralPools) {
  Chain chain = chain_of(pools->packets(), pattern(5'000));
  chain.append(chain_of(pools->large(), pattern(50'000)));
  Chain views;
  ASSERT_TRUE(chain.share_range(100, 40'000, views));
  chain.append(std::move(views));
  release_buffers(chain.detach());
}

// Poll core and worker: buffers made here are let go there, views and their storage on different threads.
TEST_F(MbufPoolTest, BuffersMayBeReleasedByAnotherThread) {
  for (int round = 0; round < 50; ++round) {
    Chain chain = chain_of(pools->large(), pattern(100'000));
    std::vector<Chain> views(20);
    for (Chain& view : views) {
      ASSERT_TRUE(chain.share_range(5'000, 60'000, view));
    }
    std::thread other([&views] {
      for (Chain& view : views) {
        view.clear();
      }
    });
    chain.clear();
    other.join();
  }
}

// Else all of the pool would pass through the processor's caches, a buffer with each call.
TEST_F(MbufPoolTest, WhatAnotherThreadReleasesIsUsedNext) {
  for (BufferPool* pool : {&pools->packets(), &pools->large()}) {
    std::set<const Buffer*> seen;
    for (int round = 0; round < 100; ++round) {
      std::array<Buffer*, 8> burst{};
      ASSERT_TRUE(pool->allocate(burst));
      seen.insert(burst.begin(), burst.end());
      std::thread([&] {
        for (Buffer* buffer : burst) {
          pool->release(buffer);
        }
      }).join();
    }
    EXPECT_LE(seen.size(), 32u);
  }
}

TEST_F(MbufPoolTest, SaysWhichPoolCannotBeMade) {
  pools.reset();
  std::string error;
  EXPECT_EQ(MbufPools::create({.packet_buffers = 1u << 20}, error), nullptr);
  EXPECT_NE(error.find("cw_packets"), std::string::npos) << error;
  SetUp();  // the names are free again
}

}  // namespace
}  // namespace cw::dataplane
