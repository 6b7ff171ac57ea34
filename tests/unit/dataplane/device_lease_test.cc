#include "dataplane/dpdk/device_lease.h"

#include <gtest/gtest.h>

#include <thread>

namespace cw::dataplane {
namespace {

TEST(DeviceLease, IsTheCoresUntilTheKeeperAsksAndTheCoreHasSeenIt) {
  DeviceLease lease;
  EXPECT_TRUE(lease.use());
  lease.ask();
  EXPECT_FALSE(lease.is_keepers());
  EXPECT_FALSE(lease.use());
  EXPECT_TRUE(lease.is_keepers());
  EXPECT_FALSE(lease.use());
  lease.give_back();
  EXPECT_TRUE(lease.is_cores());
  EXPECT_TRUE(lease.use());
}

// The sanitizers and the sum watch: at any time one of them has the device.
TEST(DeviceLease, NeverHasTwoHolders) {
  constexpr int kRounds = 1000;
  DeviceLease lease;
  std::atomic<bool> done{false};
  int device = 0;  // what both touch, unguarded but for the lease
  int by_core = 0;
  std::thread core([&] {
    while (!done.load(std::memory_order_relaxed)) {
      if (lease.use()) {
        ++device;
        ++by_core;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    lease.ask();
    while (!lease.is_keepers()) {
      std::this_thread::yield();
    }
    ++device;
    lease.give_back();
  }
  done = true;
  core.join();
  EXPECT_EQ(device, by_core + kRounds);
}

}  // namespace
}  // namespace cw::dataplane
