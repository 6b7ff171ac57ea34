#include "rocev2/wire/frame_layout.h"

#include "rocev2/wire/bth.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::wire {

std::optional<IpLayout> find_ip(Bytes frame) {
  uint32_t at = Ethernet::kSize;
  if (frame.size() < at + Ipv4::kSize) {
    return std::nullopt;
  }
  uint16_t ether_type = load_be16(frame.data() + at - 2);
  uint16_t vlan = 0;
  if (ether_type == kEtherTypeVlan) {
    vlan = load_be16(frame.data() + at) & 0xfff;
    at += VlanTag::kSize;
    ether_type = load_be16(frame.data() + at - 2);
  }
  const uint8_t* ip = frame.data() + at;
  if (ether_type == kEtherTypeIpv4) {
    const uint32_t header_bytes = (ip[0] & 0xfu) * 4;
    if (ip[0] >> 4 != 4 || header_bytes < Ipv4::kSize || frame.size() < at + header_bytes) {
      return std::nullopt;
    }
    const uint16_t fragment = load_be16(ip + 6) & (Ipv4::kMoreFragments | Ipv4::kFragmentOffset);
    return IpLayout{at, header_bytes, false, ip[9], fragment, vlan};
  }
  if (ether_type != kEtherTypeIpv6 || ip[0] >> 4 != 6 || frame.size() < at + Ipv6::kSize) {
    return std::nullopt;
  }
  return IpLayout{at, Ipv6::kSize, true, ip[6], 0, vlan};
}

std::optional<RoceLayout> find_roce(Bytes frame) {
  const std::optional<IpLayout> ip = find_ip(frame);
  if (!ip || ip->protocol != kIpProtocolUdp || ip->is_later_fragment()) {
    return std::nullopt;
  }
  const uint32_t udp = ip->offset + ip->header_bytes;
  const uint32_t bth = udp + uint32_t{Udp::kSize};
  if (frame.size() < bth + Bth::kSize || load_be16(frame.data() + udp + 2) != kRoceUdpPort) {
    return std::nullopt;
  }
  return RoceLayout{*ip, bth};
}

}  // namespace cw::wire
