#include "dataplane/metric_sources.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

// Scrapes tell of the ports of the RDMA devices that listeners use, and of no others.
TEST(MetricSources, AVerbsListenerTellsOfItsDevice) {
  control::Config config;
  config.listeners.resize(4);
  config.listeners[1].transport = control::TransportKind::kIwarp;
  config.listeners[2].transport = control::TransportKind::kVerbs;
  config.listeners[2].device = "rxe0";
  config.listeners[3].transport = control::TransportKind::kVerbs;
  const telemetry::Limits limits = metric_limits(config);
  ASSERT_EQ(limits.listeners.size(), 4u);
  EXPECT_EQ(limits.listeners[0].rdma_device, std::nullopt);
  EXPECT_EQ(limits.listeners[1].rdma_device, std::nullopt);
  EXPECT_EQ(limits.listeners[2].rdma_device, "rxe0");
  EXPECT_EQ(limits.listeners[3].rdma_device, "") << "whatever device there is";
  EXPECT_TRUE(limits.listeners[0].needs_link);
  EXPECT_FALSE(limits.listeners[2].needs_link);
}

}  // namespace
}  // namespace cw::dataplane
