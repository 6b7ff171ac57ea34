// The clock of everything that is not a poll core: steps of the wall clock do not move it.
#pragma once

#include <chrono>

#include "base/time.h"

namespace cw::dataplane {

[[nodiscard]] inline Instant monotonic_now() {
  return Instant::from_ns(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace cw::dataplane
