// How many connections a gateway may know at a time, half-open ones included.
//
// Each transport bounds its own half-open connections and lets the oldest make room. So the table has room for those of all of
// them: a flood on one wire refuses nobody on another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cw::gateway {

// Fewer than 2^kLinkSlotBits, since links tell the slot.
[[nodiscard]] constexpr uint32_t connection_slots(uint32_t connections_max, uint32_t half_open_max, size_t transports) {
  return connections_max + half_open_max * static_cast<uint32_t>(transports);
}

}  // namespace cw::gateway
