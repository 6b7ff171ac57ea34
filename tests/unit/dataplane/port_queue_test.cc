// What happens to packets when the device takes no more: a device of DPDK's that is a ring, whose other end we are.
#include "dataplane/dpdk/port_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

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

// Bytes of a packet in the message's own Buffer, and what they lie among.
struct InPlace {
  explicit InPlace(MbufPools& pools) : message(pools.packets().allocate_one()) {
    const std::vector<uint8_t> raw(100, 7);
    EXPECT_EQ(message->append(raw), raw.size());
    packet.piece_count = 1;
    packet.pieces[0] = {message, message->data - 4, 112};
  }
  Buffer* message;
  wire::TxPacket packet;
};

TEST_F(PortQueueTest, AFrameInPlaceIsCopiedForAReaderInThisProcess) {
  const Instant now = Instant() + Duration::ms(1000);
  const uint32_t before = pools->packet_usage().available;
  InPlace sent(*pools);
  queues[0]->tx(now, {&sent.packet, 1});
  std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
  ASSERT_EQ(queues[0]->rx(now, mbufs), 1u);
  EXPECT_NE(mbufs[0], mbuf_of(sent.message));
  EXPECT_EQ(rte_mbuf_refcnt_read(mbuf_of(sent.message)), 1u);
  ASSERT_EQ(rte_pktmbuf_data_len(mbufs[0]), 112u);
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(mbufs[0], const uint8_t*), sent.message->data - 4, 112), 0);
  rte_pktmbuf_free(mbufs[0]);
  release_buffers(sent.message);
  EXPECT_EQ(pools->packet_usage().available, before);
}

// As ixgbe, igb and e1000e leave the last bytes of a frame that a whole buffer would hold.
TEST_F(PortQueueTest, AFrameInTwoBuffersIsPutTogetherWhenOneHoldsIt) {
  const Instant now = Instant() + Duration::ms(1000);
  const uint32_t before = pools->packet_usage().available;
  const auto send_in_two = [&](uint32_t first, uint32_t second) {
    std::array<Buffer*, 2> buffers{};
    ASSERT_TRUE(pools->packets().allocate(buffers));
    rte_mbuf* head = mbuf_of(buffers[0]);
    rte_mbuf* rest = mbuf_of(buffers[1]);
    std::memset(rte_pktmbuf_append(head, static_cast<uint16_t>(first)), 1, first);
    std::memset(rte_pktmbuf_append(rest, static_cast<uint16_t>(second)), 2, second);
    ASSERT_EQ(rte_pktmbuf_chain(head, rest), 0);
    ASSERT_EQ(rte_eth_tx_burst(port->id(), 0, &head, 1), 1);
  };
  std::array<rte_mbuf*, PortQueue::kBurst> mbufs;
  send_in_two(1024, 490);
  ASSERT_EQ(queues[0]->rx(now, mbufs), 1u);
  ASSERT_EQ(mbufs[0]->nb_segs, 1u);
  ASSERT_EQ(rte_pktmbuf_data_len(mbufs[0]), 1514u);
  const std::string frame(rte_pktmbuf_mtod(mbufs[0], const char*), 1514);
  EXPECT_EQ(frame, std::string(1024, '\1') + std::string(490, '\2'));
  rte_pktmbuf_free(mbufs[0]);
  EXPECT_EQ(queues[0]->stats().rx_oversize, 0u);

  send_in_two(2000, 1000);
  EXPECT_EQ(queues[0]->rx(now, mbufs), 0u);
  EXPECT_EQ(queues[0]->stats().rx_oversize, 1u);
  EXPECT_EQ(pools->packet_usage().available, before);
}

// A device that lets go of what it was given at once, or keeps it.
class NullPortTest : public test::RingPortTest {
 protected:
  void SetUp() override { open("net_null7"); }
};

TEST_F(NullPortTest, AFrameInPlaceIsSentFromTheMessagesOwnMbuf) {
  class Keeper final : public FrameFilter {
   public:
    void received(Instant, rte_mbuf* frame) override { rte_pktmbuf_free(frame); }
    rte_mbuf* poll_received(Instant) override { return nullptr; }
    void sending(Instant, rte_mbuf* frame) override { kept = frame; }
    rte_mbuf* poll_sending(Instant) override { return nullptr; }
    Instant next_deadline() const override { return Instant::never(); }
    rte_mbuf* kept = nullptr;
  };
  const Instant now = Instant() + Duration::ms(1000);
  const uint32_t before = pools->packet_usage().available;
  InPlace gone(*pools);
  queues[0]->tx(now, {&gone.packet, 1});
  EXPECT_EQ(queues[0]->stats().tx_packets, 1u);
  EXPECT_EQ(rte_mbuf_refcnt_read(mbuf_of(gone.message)), 1u) << "the device has let go";
  EXPECT_EQ(gone.message->bytes().size(), 100u);
  release_buffers(gone.message);
  EXPECT_EQ(pools->packet_usage().available, before);

  Keeper keeper;
  queues[0]->set_filter(keeper);
  InPlace kept(*pools);
  queues[0]->tx(now, {&kept.packet, 1});
  ASSERT_EQ(keeper.kept, mbuf_of(kept.message));
  EXPECT_EQ(rte_pktmbuf_pkt_len(keeper.kept), 112u);
  EXPECT_EQ(rte_pktmbuf_mtod(keeper.kept, const uint8_t*), kept.message->data - 4);
  release_buffers(kept.message);
  EXPECT_EQ(pools->packet_usage().available, before - 1) << "the peer has acknowledged, and the device has it yet";
  rte_pktmbuf_free(keeper.kept);
  EXPECT_EQ(pools->packet_usage().available, before);
}

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
