// What happens to packets when the device takes no more: a device of DPDK's that is a ring, whose other end we are.
#include "dataplane/dpdk/port_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

namespace cw::dataplane {
namespace {

constexpr PortSettings kRing{.device = "net_ring0", .mtu = 1500};

class PortQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    pools = MbufPools::create({.packet_buffers = 4095,
                               .packet_data_bytes = control::packet_data_bytes(kRing.device, kRing.mtu),
                               .large_buffers = 127,
                               .views = 511},
                              error);
    ASSERT_NE(pools, nullptr) << error;
    port = Port::open(kRing, *pools, error);
    ASSERT_NE(port, nullptr) << error;
    queue = std::make_unique<PortQueue>(*port, uint16_t{0}, 0u, *pools, nullptr);
  }
  // Small packets.
  void send(Instant now) {
    wire::TxBatch batch(pools->packets());
    while (!batch.full()) {
      wire::TxPacket* packet = batch.add();
      ASSERT_NE(packet, nullptr);
      packet->head->size = 64;
      std::memset(packet->head->data, 0, packet->head->size);
    }
    queue->tx(now, batch.packets());
    batch.reset();
  }
  // Until the device has refused a packet.
  void fill(Instant now) {
    for (int batches = 0; !queue->is_congested(); ++batches) {
      ASSERT_LT(batches, 1000);
      send(now);
    }
    queue->flush(now);
  }
  uint32_t receive(Instant now) {
    uint32_t received = 0;
    std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
    while (const uint16_t count = queue->rx(now, mbufs)) {
      rte_pktmbuf_free_bulk(mbufs.data(), count);
      received += count;
    }
    return received;
  }

  std::unique_ptr<MbufPools> pools;
  std::unique_ptr<Port> port;
  std::unique_ptr<PortQueue> queue;
};

TEST_F(PortQueueTest, KeepsWhatAReaderThatPausesHasNoRoomForAndDropsItForOneThatIsGone) {
  const Instant start = Instant() + Duration::ms(1000);
  fill(start);
  const uint64_t taken = queue->stats().tx_packets;
  queue->flush(start + (PortQueue::kStuckMax - Duration::ms(1)));
  EXPECT_TRUE(queue->is_congested());
  EXPECT_EQ(queue->stats().tx_dropped, 0u);

  Instant now = start + PortQueue::kStuckMax;
  EXPECT_EQ(receive(now), taken);
  queue->flush(now);
  EXPECT_FALSE(queue->is_congested());
  EXPECT_EQ(receive(now), queue->stats().tx_packets - taken);
  EXPECT_EQ(queue->stats().tx_dropped, 0u);

  // The pause counts from the last packet that was taken.
  fill(now);
  now = now + PortQueue::kStuckMax;
  queue->flush(now);
  EXPECT_TRUE(queue->is_congested());
  now = now + Duration::ms(1);
  queue->flush(now);
  EXPECT_FALSE(queue->is_congested()) << "other ports do not wait any longer";
  EXPECT_GT(queue->stats().tx_dropped, 0u);
  (void)receive(now);
}

}  // namespace
}  // namespace cw::dataplane
