// Where the headers of a frame begin, for those who only want to look: steering, hints to the cache, captures. Nothing is judged
// (PacketView::parse does that), nothing behind the frame's end is read, and a frame may be cut anywhere behind what is named.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace cw::wire {

struct IpLayout {
  uint32_t offset = 0;        // of the IP header
  uint32_t header_bytes = 0;  // IPv4: options included. IPv6: 40, extension headers are not walked
  bool ipv6 = false;
  uint8_t protocol = 0;   // IPv6: the next header
  uint16_t fragment = 0;  // IPv4: more fragments (bit 13) and offset; 0 = the datagram is whole
  uint16_t vlan = 0;      // id, 0 when untagged
  // What follows is the middle of a datagram.
  [[nodiscard]] bool is_later_fragment() const { return (fragment & 0x1fff) != 0; }
};

// Behind at most one 802.1Q tag. Nothing when it is not IP, or the header is not whole.
[[nodiscard]] std::optional<IpLayout> find_ip(Bytes frame);

struct RoceLayout {
  IpLayout ip;
  uint32_t bth = 0;  // offset of the base transport header, which is whole
};

// UDP to port 4791 with room for a BTH.
[[nodiscard]] std::optional<RoceLayout> find_roce(Bytes frame);

}  // namespace cw::wire
