#include "dataplane/shared_quota.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace cw::dataplane {
namespace {

TEST(SharedQuota, AreBoundedInAllAndPerListener) {
  SharedQuota places(3, std::array<uint32_t, 2>{2, 2});
  EXPECT_TRUE(places.take(0));
  EXPECT_TRUE(places.take(0));
  EXPECT_FALSE(places.take(0)) << "the listener has two";
  EXPECT_TRUE(places.take(1));
  EXPECT_FALSE(places.take(1)) << "there are three in all";
  places.give_back(0);
  EXPECT_TRUE(places.take(1)) << "a refused one has taken nothing";
  places.give_back(1);
  places.give_back(1);
  places.give_back(0);
  EXPECT_TRUE(places.take(0) && places.take(0) && places.take(1));
}

TEST(SharedQuota, MayBecomeFewerThanAreTaken) {
  SharedQuota places(8, std::array<uint32_t, 2>{3, UINT32_MAX});
  EXPECT_TRUE(places.take(0) && places.take(0) && places.take(1));
  places.set_max(0, 1);
  places.set_max(1, 2);
  EXPECT_FALSE(places.take(0));
  EXPECT_TRUE(places.take(1));
  EXPECT_FALSE(places.take(1));
  places.give_back(0);
  EXPECT_FALSE(places.take(0)) << "the one that there may be is out";
  places.set_max(0, 2);
  EXPECT_TRUE(places.take(0));
}

TEST(SharedQuota, NeverGiveOneTwice) {
  constexpr uint32_t kPlaces = 5;
  constexpr int kRounds = 20'000;
  SharedQuota places(kPlaces, std::array<uint32_t, 1>{kPlaces});
  std::atomic<uint32_t> out{0};
  std::atomic<bool> too_many{false};
  const auto core = [&] {
    for (int round = 0; round < kRounds; ++round) {
      uint32_t have = 0;
      while (have < 4 && places.take(0)) {
        ++have;
        too_many = too_many || out.fetch_add(1) + 1 > kPlaces;
      }
      for (; have > 0; --have) {
        out.fetch_sub(1);
        places.give_back(0);
      }
    }
  };
  std::thread other(core);
  core();
  other.join();
  EXPECT_FALSE(too_many);
  uint32_t left = 0;
  while (places.take(0)) {
    ++left;
  }
  EXPECT_EQ(left, kPlaces);
}

}  // namespace
}  // namespace cw::dataplane
