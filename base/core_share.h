// Which of a process's poll cores this is. Numbers given to peers (QPNs, communication ids) and to workers (links) carry the
// index in `bits()` of their bits, so that whatever comes back finds its core.
#pragma once

#include <bit>
#include <cstdint>

namespace cw {

struct CoreShare {
  static constexpr uint32_t kCountMax = 256;
  uint32_t index = 0;  // < count
  uint32_t count = 1;  // 1..kCountMax, the same on all cores

  [[nodiscard]] constexpr uint32_t bits() const { return static_cast<uint32_t>(std::bit_width(count - 1)); }
  [[nodiscard]] constexpr bool is_valid() const { return count >= 1 && count <= kCountMax && index < count; }
};

}  // namespace cw
