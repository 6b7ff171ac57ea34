#include "gateway/node/address_filter.h"

#include <algorithm>
#include <optional>

#include "rocev2/wire/frame_layout.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/udp.h"

namespace cw::node {
bool AddressFilter::takes(Bytes frame) const {
  const std::optional<wire::IpLayout> ip = wire::find_ip(frame);
  if (!ip || (frame[0] & 1) != 0 || ip->vlan != vlan_ || ip->protocol != wire::kIpProtocolUdp || ip->fragment != 0) {
    return false;
  }
  const Bytes udp = frame.subspan(ip->offset + ip->header_bytes);
  if (udp.size() < wire::Udp::kSize || load_be16(udp.data() + 2) != wire::kRoceUdpPort) {
    return false;
  }
  const uint8_t* addresses = frame.data() + ip->offset;
  return is_own(ip->ipv6 ? IpAddress::v6(std::span<const uint8_t, 16>(addresses + 24, 16))
                         : IpAddress::v4(load_be32(addresses + 16)));
}

bool AddressFilter::is_own(const IpAddress& address) const {
  return std::ranges::find(addresses_, address) != addresses_.end();
}

}  // namespace cw::node
