// Frames of the small protocols, written byte by byte and without the code under test.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "rocev2/wire/mac_address.h"

namespace cw::link::test {

using ByteVector = std::vector<uint8_t>;

inline constexpr wire::MacAddress kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

inline void append(ByteVector& to, Bytes more) {
  to.insert(to.end(), more.begin(), more.end());
}
inline void append16(ByteVector& to, uint32_t value) {
  to.push_back(static_cast<uint8_t>(value >> 8));
  to.push_back(static_cast<uint8_t>(value));
}

// The one's complement sum of everything, folded and inverted; 0 over bytes that contain their right checksum.
inline uint16_t internet_checksum(Bytes raw) {
  uint64_t sum = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{raw[i]} << 8 : raw[i];
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(~sum);
}

inline ByteVector ethernet(const wire::MacAddress& to, const wire::MacAddress& from, uint16_t type, Bytes content,
                           uint16_t vlan = 0) {
  ByteVector frame;
  append(frame, to.raw);
  append(frame, from.raw);
  if (vlan != 0) {
    append16(frame, 0x8100);
    append16(frame, vlan);
  }
  append16(frame, type);
  append(frame, content);
  return frame;
}

inline ByteVector arp(uint16_t operation, const wire::MacAddress& sender_mac, uint32_t sender, const wire::MacAddress& target_mac,
                      uint32_t target) {
  ByteVector out{0, 1, 8, 0, 6, 4};
  append16(out, operation);
  append(out, sender_mac.raw);
  append16(out, sender >> 16);
  append16(out, sender & 0xffff);
  append(out, target_mac.raw);
  append16(out, target >> 16);
  append16(out, target & 0xffff);
  return out;
}

inline ByteVector ipv4(uint8_t protocol, uint32_t source, uint32_t destination, Bytes content) {
  ByteVector out{0x45, 0};
  append16(out, static_cast<uint32_t>(20 + content.size()));
  append16(out, 0x1234);
  append16(out, 0x4000);
  out.push_back(7);
  out.push_back(protocol);
  append16(out, 0);
  for (const uint32_t address : {source, destination}) {
    append16(out, address >> 16);
    append16(out, address & 0xffff);
  }
  const uint16_t sum = internet_checksum(out);
  store_be16(out.data() + 10, sum);
  append(out, content);
  return out;
}

inline ByteVector ipv6(uint8_t next_header, const IpAddress& source, const IpAddress& destination, Bytes content,
                       uint8_t hop_limit = 255) {
  ByteVector out{0x60, 0, 0, 0};
  append16(out, static_cast<uint32_t>(content.size()));
  out.push_back(next_header);
  out.push_back(hop_limit);
  append(out, source.raw);
  append(out, destination.raw);
  append(out, content);
  return out;
}

// What the checksum of an ICMPv6 message in `packet` (an IPv6 packet) is taken over, the message's own field included.
inline uint16_t icmp6_checksum(Bytes packet) {
  ByteVector covered(packet.begin() + 8, packet.begin() + 40);
  append16(covered, 0);
  append16(covered, static_cast<uint32_t>(packet.size() - 40));
  append16(covered, 0);
  append16(covered, 58);
  append(covered, packet.subspan(40));
  return internet_checksum(covered);
}

inline ByteVector echo(uint8_t type, size_t data_bytes) {
  ByteVector out{type, 0, 0, 0, 0xab, 0xcd, 0, 7};
  for (size_t i = 0; i < data_bytes; ++i) {
    out.push_back(static_cast<uint8_t>(i * 3 + 1));
  }
  return out;
}

inline ByteVector icmp4_packet(uint32_t source, uint32_t destination, ByteVector icmp) {
  store_be16(icmp.data() + 2, 0);
  store_be16(icmp.data() + 2, internet_checksum(icmp));
  return ipv4(1, source, destination, icmp);
}

inline ByteVector icmp6_packet(const IpAddress& source, const IpAddress& destination, const ByteVector& icmp,
                               uint8_t hop_limit = 255) {
  ByteVector out = ipv6(58, source, destination, icmp, hop_limit);
  store_be16(out.data() + 42, 0);
  store_be16(out.data() + 42, icmp6_checksum(out));
  return out;
}

// Neighbour solicitation (135) or advertisement (136); `option` is what follows the target.
inline ByteVector neighbour(uint8_t type, const IpAddress& target, const ByteVector& option, uint8_t flags = 0) {
  ByteVector out{type, 0, 0, 0, flags, 0, 0, 0};
  append(out, target.raw);
  append(out, option);
  return out;
}
inline ByteVector link_address(uint8_t type, const wire::MacAddress& mac) {
  ByteVector out{type, 1};
  append(out, mac.raw);
  return out;
}

}  // namespace cw::link::test
