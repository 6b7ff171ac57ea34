// Ethernet station address.
#pragma once

#include <array>
#include <cstdint>

namespace cw::wire {

struct MacAddress {
  std::array<uint8_t, 6> octets{};
  [[nodiscard]] constexpr bool is_multicast() const { return (octets[0] & 1) != 0; }  // broadcast included
  friend constexpr bool operator==(const MacAddress&, const MacAddress&) = default;
};

}  // namespace cw::wire
