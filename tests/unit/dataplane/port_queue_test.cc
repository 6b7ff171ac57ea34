// What happens to packets when the device takes no more: a device of DPDK's that is a ring, whose other end we are.
#include "dataplane/dpdk/port_queue.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/dataplane/ring_port.h"

namespace cw::dataplane {
namespace {

class PortQueueTest : public test::RingPortTest {
 protected:
  // Until the device has refused a packet.
  void fill(Instant now) {
    for (int batches = 0; !queues[0]->is_congested(); ++batches) {
      ASSERT_LT(batches, 1000);
      send(now, wire::TxBatch::kCapacity);
    }
    queues[0]->flush(now);
  }
  uint32_t receive(Instant now) {
    uint32_t received = 0;
    std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
    while (const uint16_t count = queues[0]->rx(now, mbufs)) {
      rte_pktmbuf_free_bulk(mbufs.data(), count);
      received += count;
    }
    return received;
  }
};

TEST_F(PortQueueTest, KeepsWhatAReaderThatPausesHasNoRoomForAndDropsItForOneThatIsGone) {
  const Instant start = Instant() + Duration::ms(1000);
  fill(start);
  const uint64_t taken = queues[0]->stats().tx_packets;
  queues[0]->flush(start + (PortQueue::kStuckMax - Duration::ms(1)));
  EXPECT_TRUE(queues[0]->is_congested());
  EXPECT_EQ(queues[0]->stats().tx_dropped, 0u);

  Instant now = start + PortQueue::kStuckMax;
  EXPECT_EQ(receive(now), taken);
  queues[0]->flush(now);
  EXPECT_FALSE(queues[0]->is_congested());
  EXPECT_EQ(receive(now), queues[0]->stats().tx_packets - taken);
  EXPECT_EQ(queues[0]->stats().tx_dropped, 0u);

  // The pause counts from the last packet that was taken.
  fill(now);
  now = now + PortQueue::kStuckMax;
  queues[0]->flush(now);
  EXPECT_TRUE(queues[0]->is_congested());
  now = now + Duration::ms(1);
  queues[0]->flush(now);
  EXPECT_FALSE(queues[0]->is_congested()) << "other ports do not wait any longer";
  EXPECT_GT(queues[0]->stats().tx_dropped, 0u);
  (void)receive(now);
}

}  // namespace
}  // namespace cw::dataplane
