#include "dataplane/capture_tap.h"

#include <rte_mbuf.h>

#include <array>

namespace cw::dataplane {

void CaptureTap::offer_received(Instant now, std::span<rte_mbuf* const> mbufs, control::capture::CaptureRing& ring) {
  for (const rte_mbuf* mbuf : mbufs) {
    const Bytes frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_data_len(mbuf));
    ring.offer(now.to_ns(), {&frame, 1}, true);
  }
}

void CaptureTap::offer_sent(Instant now, std::span<const wire::TxPacket> packets, control::capture::CaptureRing& ring) {
  for (const wire::TxPacket& packet : packets) {
    std::array<Bytes, wire::TxPacket::kPiecesMax + 2> pieces;
    uint32_t count = 0;
    packet.for_each_run([&](Bytes run) { pieces[count++] = run; });
    ring.offer(now.to_ns(), {pieces.data(), count}, false);
  }
}

}  // namespace cw::dataplane
