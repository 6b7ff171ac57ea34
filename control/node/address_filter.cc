#include "control/node/address_filter.h"

#include <algorithm>
#include <cstring>

#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::node {
namespace {

bool is_roce(Bytes udp) {
  return udp.size() >= wire::Udp::kSize && load_be16(udp.data() + 2) == wire::kRoceUdpPort;
}

}  // namespace

bool AddressFilter::takes(Bytes frame) const {
  if (frame.size() < wire::Ethernet::kSize || (frame[0] & 1) != 0) {
    return false;
  }
  uint16_t ether_type = load_be16(frame.data() + 12);
  uint16_t vlan = 0;
  Bytes ip = frame.subspan(wire::Ethernet::kSize);
  if (ether_type == wire::kEtherTypeVlan) {
    if (ip.size() < wire::VlanTag::kSize) {
      return false;
    }
    vlan = load_be16(ip.data()) & 0xfff;
    ether_type = load_be16(ip.data() + 2);
    ip = ip.subspan(wire::VlanTag::kSize);
  }
  if (vlan != vlan_) {
    return false;
  }
  if (ether_type == wire::kEtherTypeIpv4) {
    if (ip.size() < wire::Ipv4::kSize || ip[0] >> 4 != 4 || ip[9] != wire::kIpProtocolUdp ||
        (load_be16(ip.data() + 6) & (wire::Ipv4::kMoreFragments | wire::Ipv4::kFragmentOffset)) != 0) {
      return false;
    }
    const size_t header_bytes = size_t{ip[0] & 0xfu} * 4;
    return header_bytes >= wire::Ipv4::kSize && header_bytes <= ip.size() && is_roce(ip.subspan(header_bytes)) &&
           is_own(wire::IpAddress::v4(load_be32(ip.data() + 16)));
  }
  if (ether_type == wire::kEtherTypeIpv6) {
    return ip.size() >= wire::Ipv6::kSize && ip[0] >> 4 == 6 && ip[6] == wire::kIpProtocolUdp &&
           is_roce(ip.subspan(wire::Ipv6::kSize)) &&
           is_own(wire::IpAddress::v6(std::span<const uint8_t, 16>(ip.data() + 24, 16)));
  }
  return false;
}

bool AddressFilter::is_own(const wire::IpAddress& address) const {
  return std::ranges::find(addresses_, address) != addresses_.end();
}

}  // namespace cw::node
