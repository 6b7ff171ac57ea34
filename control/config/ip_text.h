// IP addresses, prefixes and endpoints as people write them, both ways. Names are never resolved: a gateway must start without
// DNS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ip_address.h"
#include "rocev2/wire/mac_address.h"

namespace cw::control {

// An address with the length of its network part: "192.0.2.1/24", "2001:db8::1/64". The host part is kept, since a port's own
// address is written this way too. The length counts in the address's own family: 0..32 or 0..128.
struct IpPrefix {
  IpAddress address;
  uint8_t length_bits = 0;
  // True when `other` is of the same family and shares the network part.
  [[nodiscard]] bool contains(const IpAddress& other) const;
  friend bool operator==(const IpPrefix&, const IpPrefix&) = default;
};

// An address and a TCP or UDP port: "127.0.0.1:9464", "[::1]:9464".
struct SocketAddress {
  IpAddress address;
  uint16_t port = 0;
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

[[nodiscard]] std::optional<IpAddress> parse_ip(std::string_view text);
// Without '/' the prefix is the one address (32 or 128 bits).
[[nodiscard]] std::optional<IpPrefix> parse_prefix(std::string_view text);
// The port is decimal, 1..65535; 0 is accepted when `allow_port_zero` (the system picks one: tests).
[[nodiscard]] std::optional<SocketAddress> parse_socket_address(std::string_view text, bool allow_port_zero = false);

[[nodiscard]] std::string to_string(const IpAddress& address);
[[nodiscard]] std::string to_string(const IpPrefix& prefix);
[[nodiscard]] std::string to_string(const SocketAddress& address);
[[nodiscard]] std::string to_string(const wire::MacAddress& address);

// 127.0.0.0/8 or ::1.
[[nodiscard]] bool is_loopback(const IpAddress& address);
// fe80::/10.
[[nodiscard]] bool is_link_local(const IpAddress& address);

}  // namespace cw::control
