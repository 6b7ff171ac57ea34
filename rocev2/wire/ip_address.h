// IPv4 or IPv6 address in one 16-octet value: IPv4 in the mapped form ::ffff:a.b.c.d, which is also its RoCEv2 GID.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "rocev2/base/bytes.h"

namespace cw::wire {

struct IpAddress {
  alignas(8) std::array<uint8_t, 16> octets{};

  [[nodiscard]] static constexpr IpAddress v4(uint32_t host_order) {
    IpAddress address;
    address.octets[10] = 0xff;
    address.octets[11] = 0xff;
    store_be32(address.octets.data() + 12, host_order);
    return address;
  }
  [[nodiscard]] static constexpr IpAddress v6(std::span<const uint8_t, 16> raw) {
    IpAddress address;
    for (size_t i = 0; i < 16; ++i) {
      address.octets[i] = raw[i];
    }
    return address;
  }
  [[nodiscard]] constexpr bool is_v4() const {
    for (size_t i = 0; i < 10; ++i) {
      if (octets[i] != 0) {
        return false;
      }
    }
    return octets[10] == 0xff && octets[11] == 0xff;
  }
  [[nodiscard]] constexpr uint32_t to_v4() const { return load_be32(octets.data() + 12); }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_v4() ? (octets[12] & 0xf0) == 0xe0 || to_v4() == 0xffff'ffff : octets[0] == 0xff;
  }
  friend constexpr bool operator==(const IpAddress&, const IpAddress&) = default;
};

}  // namespace cw::wire
