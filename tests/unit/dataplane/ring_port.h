// A port of DPDK's that is a ring: what is sent comes back, and its other end is the test. Or another device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/port_queue.h"

namespace cw::dataplane::test {

class RingPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // DPDK keeps the rings of a port that was closed, and takes their name once.
    static int ports = 0;
    open("net_ring" + std::to_string(ports++));
  }
  void open(const std::string& device) {
    const PortSettings settings{.device = device, .mtu = 1500};
    std::string error;
    pools = MbufPools::create({.packet_buffers = 4095,
                               .packet_data_bytes = control::packet_data_bytes(device, settings.mtu),
                               .large_buffers = 127,
                               .views = 511},
                              error);
    ASSERT_NE(pools, nullptr) << error;
    port = Port::open(settings, *pools, error);
    ASSERT_NE(port, nullptr) << error;
    queues.push_back(std::make_unique<PortQueue>(*port, uint16_t{0}, 0u, *pools, nullptr));
  }
  // Small packets that are nobody's, at most a batch.
  void send(Instant now, uint32_t count) {
    wire::TxBatch batch(pools->packets());
    for (uint32_t i = 0; i < count; ++i) {
      wire::TxPacket* packet = batch.add();
      ASSERT_NE(packet, nullptr);
      packet->head->size = 64;
      std::memset(packet->head->data, 0, packet->head->size);
    }
    queues[0]->tx(now, batch.packets());
    batch.reset();
  }

  std::unique_ptr<MbufPools> pools;
  std::unique_ptr<Port> port;
  std::vector<std::unique_ptr<PortQueue>> queues;  // one
};

}  // namespace cw::dataplane::test
