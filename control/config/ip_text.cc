#include "control/config/ip_text.h"

#include <fmt/core.h>

#include <charconv>

namespace cw::control {
namespace {

std::optional<uint32_t> parse_number(std::string_view text, uint32_t max) {
  if (text.empty() || text.size() > 5) {
    return std::nullopt;
  }
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > max) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

bool IpPrefix::contains(const IpAddress& other) const {
  if (address.is_v4() != other.is_v4()) {
    return false;
  }
  const uint32_t bits = length_bits + (address.is_v4() ? 96u : 0u);
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t bits_here = bits >= (i + 1) * 8 ? 8 : bits > i * 8 ? bits - i * 8 : 0;
    const uint32_t mask = (0xff00u >> bits_here) & 0xffu;
    if (((address.raw[i] ^ other.raw[i]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

std::optional<IpAddress> parse_ip(std::string_view text) {
  const Result<IpAddress> address = cw::parse_ip(text);
  return address.ok() ? std::optional(address.value()) : std::nullopt;
}

std::optional<IpPrefix> parse_prefix(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<IpAddress> address = parse_ip(text.substr(0, slash));
  if (!address) {
    return std::nullopt;
  }
  const uint32_t length_max = address->is_v4() ? 32 : 128;
  if (slash == std::string_view::npos) {
    return IpPrefix{*address, static_cast<uint8_t>(length_max)};
  }
  const std::optional<uint32_t> length = parse_number(text.substr(slash + 1), length_max);
  if (!length) {
    return std::nullopt;
  }
  return IpPrefix{*address, static_cast<uint8_t>(*length)};
}

std::optional<SocketAddress> parse_socket_address(std::string_view text, bool allow_port_zero) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  const std::optional<IpAddress> address = parse_ip(host);
  const std::optional<uint32_t> port = parse_number(text.substr(colon + 1), 65535);
  // "::1:80" is an address, not an address and a port; "[127.0.0.1]:80" is nothing.
  if (!address || !port || address->is_v4() == bracketed || (*port == 0 && !allow_port_zero)) {
    return std::nullopt;
  }
  return SocketAddress{*address, static_cast<uint16_t>(*port)};
}

std::string to_string(const IpAddress& address) {
  return to_text(address).data();
}

std::string to_string(const IpPrefix& prefix) {
  return fmt::format("{}/{}", to_string(prefix.address), prefix.length_bits);
}

std::string to_string(const SocketAddress& address) {
  return to_text(address.address, address.port).data();
}

std::string to_string(const wire::MacAddress& address) {
  return to_text(address).data();
}

bool is_link_local(const IpAddress& address) {
  return !address.is_v4() && address.raw[0] == 0xfe && (address.raw[1] & 0xc0) == 0x80;
}

bool is_loopback(const IpAddress& address) {
  if (address.is_v4()) {
    return (address.to_v4() >> 24) == 127;
  }
  IpAddress one;
  one.raw[15] = 1;
  return address == one;
}

}  // namespace cw::control
