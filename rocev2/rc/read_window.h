// How many READ responses a queue pair asks for at once: as many as its way to the peer holds, not as many as may be.
//
// Responses come at the peer's full speed and wait where they come in, in one line with what every other connection sends: with
// a window of 256 of 4096 bytes, a small call of a neighbour stood behind 250 of them (tests/bench/latency_bench.cc). What more
// than a round trip's worth is asked for early only lengthens that line. So the window follows the time that a READ request waits
// for its first response, against the least that it ever took, as TCP Vegas does with acknowledgements: about as long, and a
// request more may be under way; longer than twice that, a request less.
//
// The window begins short, because what is measured with a long one is its own line. A much shorter time than the least so far
// means that the least was none: the window begins again. The least is never raised by what others do to it; it is measured anew
// after a second without READs, because a way can change. Too small a least costs little: the window ends at kLeastPackets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace cw::rc {

class ReadWindow {
 public:
  // Two bursts of a poll core: it works on one while the other comes.
  static constexpr uint32_t kLeastPackets = 64;
  static constexpr Duration kForgetAfter = Duration::seconds(1);

  // Precondition: 1 <= packets_max < 2^16; request_packets, a power of two, <= packets_max.
  explicit ReadWindow(uint32_t packets_max = 1, uint32_t request_packets = 1)
      : packets_max_(static_cast<uint16_t>(packets_max)), request_packets_(static_cast<uint16_t>(request_packets)) {
    packets_ = packets_min();
  }

  [[nodiscard]] uint32_t packets() const { return packets_; }
  [[nodiscard]] uint32_t packets_max() const { return packets_max_; }
  // Responses that a READ request asks for, a power of two.
  [[nodiscard]] uint32_t request_packets() const { return request_packets_; }

  // The first response of a READ request has come, `delay` after the request left; nothing was sent again meanwhile. `alone`: no
  // response was awaited when it left. `late`: by so much responses come late on this way because others overtake them.
  void on_response(Instant now, Duration delay, bool alone, Duration late = Duration()) {
    const bool forget = alone && now - measured_at_ > kForgetAfter;
    measured_at_ = now;
    if (least_ == Duration() || forget) {
      least_ = delay;
      return;
    }
    if (delay < least_) {
      packets_ = delay * 4 < least_ * 3 ? packets_min() : packets_;
      least_ = delay;
    }
    // The small sums are what a poll core's turn takes, however short the way is.
    if (delay > least_ * 2 + late + Duration::us(5)) {
      packets_ = static_cast<uint16_t>(std::max(packets_ - request_packets_, int{packets_min()}));
    } else if (delay < least_ * 3 / 2 + late + Duration::us(2)) {
      packets_ = static_cast<uint16_t>(std::min(packets_ + request_packets_, int{packets_max_}));
    }
  }

 private:
  // Never a request alone: the loss of its last response would wait for a probe, and the line would be empty between two.
  [[nodiscard]] uint16_t packets_min() const {
    return static_cast<uint16_t>(std::min<uint32_t>(std::max(kLeastPackets, 2u * request_packets_), packets_max_));
  }

  uint16_t packets_ = 0;
  uint16_t packets_max_;
  uint16_t request_packets_;
  Duration least_;  // 0: nothing measured yet
  Instant measured_at_;
};

}  // namespace cw::rc
