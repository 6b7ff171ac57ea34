// IPv4 or IPv6 address in one 16-byte value: IPv4 in the mapped form ::ffff:a.b.c.d, which is also its RoCEv2 GID.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cw {

struct IpAddress {
  alignas(8) std::array<uint8_t, 16> raw{};

  [[nodiscard]] static constexpr IpAddress v4(uint32_t host_order) {
    IpAddress address;
    address.raw[10] = 0xff;
    address.raw[11] = 0xff;
    store_be32(address.raw.data() + 12, host_order);
    return address;
  }
  [[nodiscard]] static constexpr IpAddress v6(std::span<const uint8_t, 16> raw) {
    IpAddress address;
    for (size_t i = 0; i < 16; ++i) {
      address.raw[i] = raw[i];
    }
    return address;
  }
  [[nodiscard]] constexpr bool is_v4() const {
    return load_native<uint64_t>(raw.data()) == 0 && load_be32(raw.data() + 8) == 0xffff;
  }
  [[nodiscard]] constexpr uint32_t to_v4() const { return load_be32(raw.data() + 12); }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_v4() ? (raw[12] & 0xf0) == 0xe0 || to_v4() == 0xffff'ffff : raw[0] == 0xff;
  }
  // In two words: every packet's addresses are compared.
  friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) {
    using Words = std::array<uint64_t, 2>;
    const Words left = std::bit_cast<Words>(a.raw);
    const Words right = std::bit_cast<Words>(b.raw);
    return ((left[0] ^ right[0]) | (left[1] ^ right[1])) == 0;
  }
};

// Text, NUL-terminated: dotted for IPv4, RFC 5952 for IPv6. INET6_ADDRSTRLEN bytes always suffice.
inline constexpr size_t kIpTextBytes = 46;
[[nodiscard]] std::array<char, kIpTextBytes> to_text(const IpAddress& address);

// The same with a port: "192.0.2.1:20049", "[2001:db8::1]:20049".
inline constexpr size_t kIpPortTextBytes = kIpTextBytes + 8;
[[nodiscard]] std::array<char, kIpPortTextBytes> to_text(const IpAddress& address, uint16_t port);

// "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1" (which is 192.0.2.1). No zone, no prefix length, no leading zeros in IPv4:
// kBadValue otherwise.
[[nodiscard]] Result<IpAddress> parse_ip(std::string_view text);

}  // namespace cw
