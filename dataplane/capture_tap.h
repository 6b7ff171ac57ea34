// A stage of the poll loop: offers frames to whoever captures, and costs a look at a pointer when nobody does.
#pragma once

#include <atomic>
#include <span>

#include "base/time.h"
#include "control/capture/capture_ring.h"
#include "rocev2/wire/tx_batch.h"

struct rte_mbuf;

namespace cw::dataplane {

class CaptureTap {
 public:
  // Any thread. nullptr ends it; the ring lives until the core has turned after that.
  void set(control::capture::CaptureRing* ring) { ring_.store(ring, std::memory_order_release); }

  void received(Instant now, std::span<rte_mbuf* const> mbufs) {
    if (control::capture::CaptureRing* ring = ring_.load(std::memory_order_acquire); ring != nullptr) [[unlikely]] {
      offer_received(now, mbufs, *ring);
    }
  }
  void sent(Instant now, std::span<const wire::TxPacket> packets) {
    if (control::capture::CaptureRing* ring = ring_.load(std::memory_order_acquire); ring != nullptr) [[unlikely]] {
      offer_sent(now, packets, *ring);
    }
  }

 private:
  static void offer_received(Instant now, std::span<rte_mbuf* const> mbufs, control::capture::CaptureRing& ring);
  static void offer_sent(Instant now, std::span<const wire::TxPacket> packets, control::capture::CaptureRing& ring);

  std::atomic<control::capture::CaptureRing*> ring_{nullptr};
};

}  // namespace cw::dataplane
