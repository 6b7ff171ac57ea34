#include "base/fixed_map.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace cw {
namespace {

TEST(FixedMap, RefusesASecondValueForAKeyAndMoreThanItsCapacity) {
  FixedMap<int> map(2, 7);
  EXPECT_TRUE(map.insert(1, 10));
  EXPECT_FALSE(map.insert(1, 11));
  EXPECT_TRUE(map.insert(2, 20));
  EXPECT_FALSE(map.insert(3, 30));
  EXPECT_EQ(*map.find(1), 10);
  EXPECT_EQ(map.find(3), nullptr);
}

TEST(FixedMap, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    FixedMap<uint32_t> map(40, random.next_u64());
    std::map<uint64_t, uint32_t> model;
    for (int step = 0; step < 2000; ++step) {
      const uint64_t key = random.next_below(64);
      if (random.next_below(2) == 0) {
        const bool fits = model.size() < 40 && !model.contains(key);
        ASSERT_EQ(map.insert(key, static_cast<uint32_t>(step)), fits) << "seed " << seed;
        if (fits) {
          model[key] = static_cast<uint32_t>(step);
        }
      } else {
        ASSERT_EQ(map.erase(key), model.erase(key) == 1) << "seed " << seed;
      }
      ASSERT_EQ(map.size(), model.size());
      for (const auto& [k, v] : model) {
        const uint32_t* found = map.find(k);
        ASSERT_NE(found, nullptr) << "seed " << seed << " key " << k;
        ASSERT_EQ(*found, v);
      }
    }
  }
}

}  // namespace
}  // namespace cw
