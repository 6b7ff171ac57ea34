#include "dataplane/value_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace cw::dataplane {
namespace {

struct Item {
  uint32_t producer;
  uint32_t number;
  uint64_t check;
};
uint64_t check_of(uint32_t producer, uint32_t number) {
  return (uint64_t{producer} << 32 | number) * 0x9e37'79b9'7f4a'7c15ULL;
}

TEST(ValueRing, HoldsItsCapacityAndSaysWhenItIsFull) {
  ValueRing<Item> ring("test", 7, RingProducers::kOne);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.room(), 7u);
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_TRUE(ring.push({0, i, 0}));
  }
  EXPECT_FALSE(ring.push({0, 7, 0}));
  EXPECT_EQ(ring.room(), 0u);
  EXPECT_FALSE(ring.empty());
  std::array<Item, 4> out;
  EXPECT_EQ(ring.pop(out), 4u);
  EXPECT_EQ(out[3].number, 3u);
  EXPECT_TRUE(ring.push({0, 7, 0}));
  EXPECT_EQ(ring.pop(out), 4u);
  EXPECT_EQ(out[0].number, 4u);
  EXPECT_EQ(out[3].number, 7u);
  EXPECT_EQ(ring.pop(out), 0u);
  EXPECT_TRUE(ring.empty());
}

TEST(ValueRing, RoundsItsCapacityUp) {
  ValueRing<uint32_t> ring("test", 100, RingProducers::kOne);
  EXPECT_EQ(ring.room(), 127u);
}

void exchange(RingProducers kind, uint32_t producers, uint32_t count) {
  ValueRing<Item> ring("test", 63, kind);
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&ring, producer, count] {
      for (uint32_t number = 0; number < count;) {
        if (ring.push({producer, number, check_of(producer, number)})) {
          ++number;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<uint32_t> next(producers);
  std::array<Item, 16> burst;
  for (uint32_t got = 0; got < producers * count;) {
    const uint32_t taken = ring.pop(burst);
    if (taken == 0) {
      std::this_thread::yield();
    }
    for (uint32_t i = 0; i < taken; ++i) {
      const Item& item = burst[i];
      ASSERT_LT(item.producer, producers);
      ASSERT_EQ(item.number, next[item.producer]++);  // each producer's order is kept
      ASSERT_EQ(item.check, check_of(item.producer, item.number));
    }
    got += taken;
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(ring.empty());
}

TEST(ValueRing, KeepsOrderBetweenTwoThreads) {
  exchange(RingProducers::kOne, 1, 50'000);
}

TEST(ValueRing, TakesValuesFromSeveralProducersOnceEach) {
  exchange(RingProducers::kMany, 3, 20'000);
}

}  // namespace
}  // namespace cw::dataplane
