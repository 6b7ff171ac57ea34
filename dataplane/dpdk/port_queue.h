// One poll core's way through a Port: frames in as mbufs, TxBatches out.
//
// Ownership: rx() hands mbufs to the caller. tx() takes every head of the batch; attached pieces get references of their own,
// so that the queue pair may free its payload upon the peer's ACK while the device still reads. A device that takes no more
// keeps up to one burst waiting in this object; what does not fit behind it is dropped and counted: RoCE repairs it.
//
// Where the device has fewer queues than there are cores, one without a queue gives its packets to the core that has it, over
// the CoreExchange; the same waiting and the same bound hold for that ring.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "dataplane/core_exchange.h"
#include "dataplane/dpdk/frame_filter.h"
#include "dataplane/dpdk/port.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::dataplane {

struct PortQueueStats {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_oversize = 0;  // longer than the buffers made for this MTU
  uint64_t tx_dropped = 0;   // the device took no more
  uint64_t to_kernel = 0;    // frames by the exception path
  uint64_t from_kernel = 0;
  uint64_t to_kernel_dropped = 0;    // its ring was full
  uint64_t from_kernel_dropped = 0;  // the device took no more
  uint64_t tx_no_view = 0;           // no indirect mbuf or trailer left, or no room to copy
};

enum class LinkEvent : uint8_t { kNone, kLost, kRestored };

class PortQueue {
 public:
  static constexpr uint16_t kBurst = 32;

  // Of core `core` on port `index`. `exchange` may be null when the port has a queue for every core.
  PortQueue(Port& port, uint16_t index, uint32_t core, MbufPools& pools, CoreExchange* exchange);
  ~PortQueue();
  PortQueue(const PortQueue&) = delete;
  PortQueue& operator=(const PortQueue&) = delete;

  // Where the port has an exception path, rx() does not show the kernel's frames, and core 0 sends what the kernel has to send
  // with each flush(). Without one: a branch per burst.

  // Every frame passes `filter` from here on; it must outlive the queue's use. Without one: a branch per burst received and per
  // packet sent.
  void set_filter(FrameFilter& filter) { filter_ = &filter; }
  [[nodiscard]] uint16_t rx(Instant now, std::array<rte_mbuf*, kBurst>& mbufs);
  void tx(Instant now, std::span<wire::TxPacket> packets);
  // A packet of another core's, to leave by this queue with the next flush(). Precondition: !is_congested() since the last one,
  // and no more than kBurst for each of 64 other cores.
  void carry(rte_mbuf* mbuf);
  // The other end of a link without hardware is a program, and may be off its CPU for some tens of ms: what waits for it is kept.
  static constexpr Duration kStuckMax = Duration::ms(100);
  // Offers what is waiting again. A device that takes nothing for kStuckMax, such as a link whose other end is gone, costs what
  // waits for it: else retries would never run out, dead connections never end, and other ports would wait as well.
  void flush(Instant now);
  [[nodiscard]] bool is_congested() const { return pending_count_ > 0; }

  // A memif link has lost its other end, and has one again. Each change once. Other devices tell nothing.
  [[nodiscard]] LinkEvent poll_link_event() {
    const bool here = lease_.is_cores();
    if (here == was_here_) [[likely]] {
      return LinkEvent::kNone;
    }
    was_here_ = here;
    return here ? LinkEvent::kRestored : LinkEvent::kLost;
  }

  // The core has a queue of its own at the port.
  [[nodiscard]] bool receives() const { return core_ < port_.queues(); }
  [[nodiscard]] const Port& port() const { return port_; }
  [[nodiscard]] const PortQueueStats& stats() const { return stats_; }

 private:
  [[nodiscard]] rte_mbuf* assemble(const wire::TxPacket& packet);
  [[nodiscard]] rte_mbuf* refer(const wire::TxPacket& packet);
  [[nodiscard]] rte_mbuf* copy_pieces(const wire::TxPacket& packet, rte_mbuf* head);
  [[nodiscard]] uint16_t send(std::span<rte_mbuf*> mbufs);
  void take_from_kernel(Instant now);
  [[nodiscard]] uint16_t filter_received(Instant now, std::array<rte_mbuf*, kBurst>& mbufs, uint16_t count);
  void enqueue(Instant now, rte_mbuf* mbuf);
  void send_pending(Instant now);
  void drop_pending();
  static constexpr uint32_t kPendingMax = 2 * wire::TxBatch::kCapacity;

  Port& port_;
  uint16_t index_;
  uint32_t core_;
  MbufPools& pools_;
  CoreExchange* exchange_;
  DeviceLease& lease_;
  FrameFilter* filter_ = nullptr;
  ExceptionPath* exception_;
  PortQueueStats stats_;
  std::array<rte_mbuf*, kPendingMax> pending_{};
  uint32_t pending_count_ = 0;
  bool sends_one_segment_;  // pieces are copied behind their head
  bool gives_mbufs_away_;
  bool was_here_;                           // at the last poll_link_event()
  Instant stuck_since_ = Instant::never();  // the first refusal since the device last took a packet
};

}  // namespace cw::dataplane
