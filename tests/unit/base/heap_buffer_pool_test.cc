// The pool of a gateway without DPDK: poll cores and workers take and give back at once.
#include "base/heap_buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

namespace cw {
namespace {

TEST(HeapBufferPool, AFailedAllocationTakesNothing) {
  HeapBufferPool pool(4, 16, 1);
  std::array<Buffer*, 5> five{};
  EXPECT_FALSE(pool.allocate(five));
  EXPECT_EQ(pool.buffer_usage().available, 4u);
  EXPECT_EQ(pool.buffer_usage().refused, 1u);
  EXPECT_TRUE(pool.allocate(std::span(five).first(4)));
  EXPECT_EQ(pool.buffer_usage().available, 0u);
  for (Buffer* each : std::span(five).first(4)) {
    pool.release(each);
  }
}

// Of as many as one go takes, and more.
TEST(HeapBufferPool, ListsComeBackWhole) {
  constexpr uint32_t kBuffers = 100;
  HeapBufferPool pool(kBuffers, 16, 2);
  for (const uint32_t count : {1u, 2u, 31u, 32u, 33u, 64u, 99u, kBuffers}) {
    std::vector<Buffer*> taken(count);
    ASSERT_TRUE(pool.allocate(taken)) << count;
    EXPECT_EQ(pool.in_use(), count);
    std::vector<Buffer*> sorted = taken;
    std::ranges::sort(sorted);
    EXPECT_TRUE(std::ranges::adjacent_find(sorted) == sorted.end());
    // Two of them are viewed: they are free when the views are, the last of which are in the list.
    Buffer* first = pool.share(*taken.front(), 0, 0);
    Buffer* second = pool.share(*taken.back(), 0, 0);
    ASSERT_TRUE(first != nullptr && second != nullptr);
    for (uint32_t i = 1; i < count; ++i) {
      taken[i - 1]->next = taken[i];
    }
    taken.back()->next = second;
    pool.release(taken.front());
    EXPECT_EQ(pool.in_use(), 1u);
    EXPECT_EQ(pool.buffer_usage().available, kBuffers - 1);
    pool.release(first);
    EXPECT_EQ(pool.buffer_usage().available, kBuffers);
    EXPECT_EQ(pool.in_use(), 0u);
  }
}

TEST(HeapBufferPool, ABufferComesBackWithItsLastView) {
  HeapBufferPool pool(1, 16, 1);
  Buffer* buffer = pool.allocate_one();
  const std::array<uint8_t, 3> bytes{1, 2, 3};
  buffer->append(bytes);
  Buffer* view = pool.share(*buffer, 1, 2);
  EXPECT_EQ(pool.share(*buffer, 1, 2), nullptr);
  EXPECT_EQ(pool.view_usage().refused, 1u);
  pool.release(buffer);
  EXPECT_EQ(pool.allocate_one(), nullptr);
  EXPECT_EQ(pool.buffer_usage().available, 0u);
  EXPECT_EQ(view->data[0], 2);
  pool.release(view);
  EXPECT_EQ(pool.buffer_usage().available, 1u);
  EXPECT_EQ(pool.view_usage().available, 1u);
}

TEST(HeapBufferPool, OverwritesWhatIsGivenBackWithItsLastView) {
  HeapBufferPool pool(1, 64, 1);
  pool.poison_released();
  Buffer* buffer = pool.allocate_one();
  ASSERT_NE(buffer, nullptr);
  const std::array<uint8_t, 4> bytes{1, 2, 3, 4};
  ASSERT_EQ(buffer->append(bytes), bytes.size());
  const uint8_t* where = buffer->data;
  Buffer* view = pool.share(*buffer, 0, 4);
  ASSERT_NE(view, nullptr);
  pool.release(buffer);
  EXPECT_EQ(where[0], 1);
  pool.release(view);
  EXPECT_NE(where[0], 1);
  EXPECT_EQ(where[0], where[3]);
}

TEST(HeapBufferPool, NoTwoThreadsHaveTheSameBuffer) {
  constexpr uint32_t kBuffers = 64;
  constexpr int kRounds = 20'000;
  HeapBufferPool pool(kBuffers, 16, kBuffers);
  std::atomic<int> clashes{0};
  const auto work = [&](uint8_t own) {
    std::array<Buffer*, 3> taken{};
    for (int i = 0; i < kRounds; ++i) {
      if (!pool.allocate(taken)) {
        continue;
      }
      for (Buffer* each : taken) {
        each->append(Bytes(&own, 1));
      }
      Buffer* view = pool.share(*taken[0], 0, 1);
      pool.release(taken[0]);
      for (const Buffer* each : std::span(taken).subspan(1)) {
        clashes += each->data[0] == own ? 0 : 1;
      }
      clashes += view != nullptr && view->data[0] == own ? 0 : 1;
      taken[1]->next = taken[2];
      pool.release(taken[1]);
      if (view != nullptr) {
        pool.release(view);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint8_t own = 1; own <= 4; ++own) {
    threads.emplace_back(work, own);
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(clashes.load(), 0);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.buffer_usage().available, kBuffers);
}

}  // namespace
}  // namespace cw
