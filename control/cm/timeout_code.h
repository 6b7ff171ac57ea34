// IBA time-out codes: 5 bits, 4.096 us x 2^code (IBA 9.9.2, 12.7). Codes from the wire are always held against a limit of our
// own, since code 31 means two and a half hours.
#pragma once

#include <cstdint>

#include "rocev2/base/time.h"

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

static_assert(timeout_of(20).to_ns() == 4'294'967'296);
static_assert(timeout_code_for(Duration::seconds(1)) == 18);

}  // namespace cw::cm
