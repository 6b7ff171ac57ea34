// How long a packet that others have overtaken may still be on its way. What is missing when something sent later has arrived may
// be lost or only late: fabrics that spray packets over paths of unequal length deliver them out of order without losing any.
// So a packet is lost when something sent later has arrived and this window has passed since (the idea of RACK, RFC 8985).
//
// The window learns: a packet that came late, before or after it was sent again, was late by so much, and the window grows to a
// quarter more than that. A round trip with a repetition that was needed, as far as one can know, takes a sixteenth off. On a
// path that has never reordered, loss shows at once: three packets sent later are proof (kDupThresh, RFC 8985 section 6.2), and
// fewer after a fourth of a round trip. One per queue pair; a requester uses it for what it sends and for the responses to what
// it asks for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace cw::rc {

class ReorderWindow {
 public:
  // So many packets sent later prove a loss where packets keep their order.
  static constexpr uint32_t kDupThresh = 3;
  // The window is never longer than a round trip or this, whichever is longer: a peer that delays its packets on purpose cannot
  // delay recovery for longer.
  static constexpr Duration kMost = Duration::us(200);
  static constexpr Duration kLeast = Duration::us(5);     // below it the timer decides
  static constexpr Duration kUnknown = Duration::us(50);  // while no round trip has been measured

  // Packets have come late; else kDupThresh holds.
  [[nodiscard]] bool reorders() const { return late_ns_ > 0; }
  // Time from when something sent later arrived until the packet is lost. `srtt`: 0 when it has not been measured.
  [[nodiscard]] Duration wait(Duration srtt) const {
    if (!reorders()) {
      return srtt == Duration() ? kUnknown : std::max(srtt / 4, kLeast);
    }
    return std::clamp(Duration::ns(late_ns_), kLeast, std::max(srtt, kMost));
  }
  // A packet arrived `late` after one that was sent later.
  void on_late(Duration late) {
    const int64_t ns = late.to_ns() + late.to_ns() / 4;
    late_ns_ = static_cast<uint32_t>(std::clamp<int64_t>(ns, std::max(late_ns_, kForgetNs), kLateNsMax));
  }
  // A repetition was the first to arrive: what it repeats was lost. It may have been later still, so that this counts little.
  void on_lost(Instant now, Duration srtt) {
    const auto now_us = static_cast<uint32_t>(now.to_ns() / 1000);
    if (late_ns_ > 0 && now_us - shrunk_at_us_ >= static_cast<uint32_t>(srtt.to_us())) {
      shrunk_at_us_ = now_us;
      late_ns_ -= late_ns_ / 16;
      late_ns_ = late_ns_ < kForgetNs ? 0 : late_ns_;
    }
  }

 private:
  static constexpr uint32_t kForgetNs = 1'000;  // less than this is no reordering
  static constexpr uint32_t kLateNsMax = 1'000'000'000;

  uint32_t late_ns_ = 0;       // 0: nothing has come late
  uint32_t shrunk_at_us_ = 0;  // modulo 2^32
};

}  // namespace cw::rc
