// Ethernet station address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace cw::wire {

struct MacAddress {
  std::array<uint8_t, 6> raw{};
  [[nodiscard]] constexpr bool is_multicast() const { return (raw[0] & 1) != 0; }  // broadcast included
  friend constexpr bool operator==(const MacAddress&, const MacAddress&) = default;
};

// "02:00:5e:00:53:01", NUL-terminated.
inline constexpr size_t kMacTextBytes = 18;
[[nodiscard]] std::array<char, kMacTextBytes> to_text(const MacAddress& address);

// Six pairs of hexadecimal digits, all separated by ':' or all by '-'. kBadValue otherwise.
[[nodiscard]] Result<MacAddress> parse_mac(std::string_view text);

}  // namespace cw::wire
