#include "dataplane/heap_pools.h"

#include <gtest/gtest.h>

#include "control/config/memory_plan.h"

namespace cw::dataplane {
namespace {

// causewayctl doctor compares it with what the user may lock.
TEST(HeapPools, TheirMemoryIsWhatRdmaDevicesHaveRegistered) {
  control::Config config;
  config.dataplane.rx_buffers = 4096;
  config.limits.reply_bytes_max = 1 << 20;
  const HeapPools pools(control::pool_sizes(config));
  uint64_t bytes = 0;
  for (const MutableBytes& piece : pools.memory()) {
    bytes += piece.size();
  }
  EXPECT_EQ(control::registered_bytes(config), bytes);
}

}  // namespace
}  // namespace cw::dataplane
