// IBA time-out codes: 5 bits, 4.096 us x 2^code (IBA 9.9.2, 12.7). Codes from the wire are always held against a limit of our
// own, since code 31 means two and a half hours.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace cw::cm {

[[nodiscard]] constexpr Duration timeout_of(uint8_t code) {
  return Duration::ns(int64_t{4096} << (code & 31));
}
// The smallest code that is at least as long as `wanted`.
[[nodiscard]] constexpr uint8_t timeout_code_for(Duration wanted) {
  uint8_t code = 0;
  while (code < 31 && timeout_of(code) < wanted) {
    ++code;
  }
  return code;
}

// What our requester has to wait for an ACK of a peer that says how long it may sit on one (REP's Target ACK Delay): `own_code`
// covers the path and nothing of the peer (IBA 12.7.34).
[[nodiscard]] constexpr uint8_t ack_timeout_towards(uint8_t own_code, uint8_t target_ack_delay_code) {
  return timeout_code_for(timeout_of(own_code) + timeout_of(target_ack_delay_code));
}

static_assert(timeout_of(20).to_ns() == 4'294'967'296);
static_assert(timeout_code_for(Duration::seconds(1)) == 18);
// 67 ms of our own and the 134 ms of which rdma_rxe tells.
static_assert(ack_timeout_towards(14, 15) == 16);

}  // namespace cw::cm
