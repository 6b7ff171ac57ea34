// How long the device goes on for a peer that does not answer. The peer asks for it in its connection request, and could ask for
// ever: then its work would keep its place, its buffers and ours busy without end.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cw::rnic {

// As queue pairs of InfiniBand and RoCE have them (ibv_qp_attr); iWARP leaves them to TCP.
struct RetryTimes {
  uint8_t timeout = 0;  // sends again after 4.096 us x 2^n; 0: never
  uint8_t retries = 0;
  uint8_t rnr_retries = 0;  // of a peer that is not ready; 7: without end
};

struct RetryLimits {
  uint8_t timeout_min = 14;  // 67 ms: sooner, a network that is only slow would count as dead
  uint8_t retries_max = 7;
  uint8_t rnr_retries_max = 7;
};

// 4.3 s, as long as our own RoCE takes.
inline constexpr uint8_t kTimeoutMax = 20;

// What the peer asks for, within our limits. "Never" counts as the longest.
[[nodiscard]] constexpr RetryTimes within(const RetryTimes& asked, const RetryLimits& limits) {
  const uint8_t timeout = asked.timeout == 0 ? kTimeoutMax : asked.timeout;
  return {.timeout = std::clamp(timeout, std::min(limits.timeout_min, kTimeoutMax), kTimeoutMax),
          .retries = std::min(asked.retries, limits.retries_max),
          .rnr_retries = std::min(asked.rnr_retries, limits.rnr_retries_max)};
}

}  // namespace cw::rnic
