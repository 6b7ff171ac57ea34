// Frames on a link whose addresses a gateway shares with the kernel, and whose they are. What decides it twice, AddressFilter
// and the XDP program, is held against the same table.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/wire/frames.h"

namespace cw::node::test {

using ByteVector = std::vector<uint8_t>;

struct SharedFrame {
  std::string what;
  ByteVector frame;
  bool is_ours = false;
};

// The gateway's: 10.9.0.2 and fd09::2, to which wire::test's paths lead.
inline std::vector<IpAddress> shared_addresses() {
  return {wire::test::v4_path().remote, wire::test::v6_path().remote};
}

inline ByteVector roce(const wire::Path& path) {
  return wire::test::build_frame(path, wire::Opcode::kRcSendOnly, 64);
}

inline ByteVector with(ByteVector frame, size_t at, uint8_t value) {
  frame[at] = value;
  return frame;
}

// IPv4 options (no operations) behind the header.
inline ByteVector with_options(ByteVector frame, uint8_t words) {
  constexpr size_t kIp = 14;
  frame[kIp] = static_cast<uint8_t>(0x45 + words);
  frame.insert(frame.begin() + kIp + 20, size_t{words} * 4, uint8_t{1});
  return frame;
}

inline ByteVector cut(ByteVector frame, size_t bytes) {
  frame.resize(bytes);
  return frame;
}

// `vlan`: that of the gateway's addresses.
inline std::vector<SharedFrame> shared_frames(uint16_t vlan) {
  const ByteVector v4 = roce(wire::test::v4_path());
  const ByteVector v6 = roce(wire::test::v6_path());
  const ByteVector v4_tagged = roce(wire::test::v4_path(100));
  const ByteVector v6_tagged = roce(wire::test::v6_path(100));
  const bool untagged = vlan == 0;
  constexpr size_t kIp = 14;
  constexpr size_t kUdp4 = kIp + 20;
  constexpr size_t kUdp6 = kIp + 40;
  std::vector<SharedFrame> all = {
      {"IPv4", v4, untagged},
      {"IPv6", v6, untagged},
      {"IPv4 with a tag", v4_tagged, vlan == 100},
      {"IPv6 with a tag", v6_tagged, vlan == 100},
      {"a tag with a priority", with(v4_tagged, 14, 0xe0), vlan == 100},
      {"the tag of another VLAN", with(v4_tagged, 15, 101), false},
      {"a tag for priority only", with(v4_tagged, 15, 0), untagged},
      {"two tags", with(with(v4_tagged, 16, 0x81), 17, 0x00), false},
      {"another address", with(v4, kIp + 19, 3), false},
      {"another IPv6 address", with(v6, kIp + 39, 3), false},
      {"our address in another IPv6 one's place", with(v6, kIp + 24, 0xfe), false},
      {"another UDP port", with(v4, kUdp4 + 3, 0xb8), false},
      {"another UDP port over IPv6", with(v6, kUdp6 + 2, 0x13), false},
      {"from port 4791", with(with(with(v4, kUdp4, 0x12), kUdp4 + 1, 0xb7), kUdp4 + 3, 0), false},
      {"TCP", with(v4, kIp + 9, 6), false},
      {"ICMPv6", with(v6, kIp + 6, 58), false},
      {"hop-by-hop options", with(v6, kIp + 6, 0), false},
      {"an IPv6 fragment", with(v6, kIp + 6, 44), false},
      {"a first fragment", with(v4, kIp + 6, 0x20), false},
      {"a later fragment", with(v4, kIp + 7, 0x10), false},
      {"don't fragment", with(v4, kIp + 6, 0x40), untagged},
      {"options", with_options(v4, 1), untagged},
      {"the longest options", with_options(v4, 10), untagged},
      {"options to another port", with(with_options(v4, 3), kUdp4 + 12 + 3, 0), false},
      {"a header length too short", with(v4, kIp, 0x44), false},
      {"a header longer than the frame", with(cut(v4, kUdp4 + 8), kIp, 0x4f), false},
      {"version 6 under IPv4's type", with(v4, kIp, 0x65), false},
      {"version 4 under IPv6's type", with(v6, kIp, 0x40), false},
      {"ARP", with(with(v4, 12, 0x08), 13, 0x06), false},
      {"broadcast", with(v4, 0, 0xff), false},
      {"multicast", with(v6, 0, 0x33), false},
      {"a UDP header and no more", cut(v4, kUdp4 + 8), untagged},
      {"UDP lengths of any kind", with(v4, kUdp4 + 5, 0), untagged},
      {"an opcode that there is not", with(v4, kUdp4 + 8, 0xff), untagged},
  };
  for (const size_t bytes : {kIp, kIp + 1, kIp + 19, kUdp4, kUdp4 + 7}) {
    all.push_back({"IPv4 cut to " + std::to_string(bytes), cut(v4, bytes), false});
  }
  for (const size_t bytes : {kIp + 39, kUdp6, kUdp6 + 7}) {
    all.push_back({"IPv6 cut to " + std::to_string(bytes), cut(v6, bytes), false});
  }
  for (const size_t bytes : {size_t{16}, size_t{17}, kUdp4 + 4 + 7}) {
    all.push_back({"a tagged frame cut to " + std::to_string(bytes), cut(v4_tagged, bytes), false});
  }
  return all;
}

}  // namespace cw::node::test
