// What may stand between a device and its Port: sees every frame in both directions, and may keep, drop, double or delay it. For
// programs that test how the other end takes faults of the link; causewayd has none.
#pragma once

#include <rte_mbuf.h>

#include "base/time.h"

namespace cw::dataplane {

class FrameFilter {
 public:
  virtual ~FrameFilter() = default;
  // Frames own their mbufs: the filter's from the call on, the caller's when polled.
  virtual void received(Instant now, rte_mbuf* frame) = 0;
  [[nodiscard]] virtual rte_mbuf* poll_received(Instant now) = 0;
  virtual void sending(Instant now, rte_mbuf* frame) = 0;
  [[nodiscard]] virtual rte_mbuf* poll_sending(Instant now) = 0;
  // When either poll has something again.
  [[nodiscard]] virtual Instant next_deadline() const = 0;
};

}  // namespace cw::dataplane
