#include "rocev2/wire/packet_view.h"

#include <cstring>
#include <utility>

#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/frame_layout.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"

namespace cw::wire {
namespace {

using Verdict = Result<void, DropReason>;

// Next-header values that are extension headers (RFC 7045), the fragment header aside.
bool is_ipv6_extension(uint8_t next_header) {
  switch (next_header) {
    case 0:    // hop-by-hop options
    case 43:   // routing
    case 51:   // authentication
    case 60:   // destination options
    case 135:  // mobility
    case 139:  // host identity
    case 140:  // shim6
      return true;
    default:
      return false;
  }
}
constexpr uint8_t kIpv6FragmentHeader = 44;

// Each step proves one layer and says in a few words what the next needs. Nothing is copied before all is proved; then the view
// is made in one go, where the caller will find it.
struct Link {
  uint16_t ether_type = 0;
  uint16_t vlan = 0;
  uint32_t ip_offset = 0;
};

struct Network {
  uint32_t header_bytes = 0;
  uint32_t udp_bytes = 0;  // as IP says; proved to be there
};

Verdict read_link(Bytes frame, Link& link) {
  if (frame.size() < Ethernet::kSize) {
    return fail(DropReason::kRunt);
  }
  link.ether_type = load_be16(frame.data() + 12);
  link.ip_offset = Ethernet::kSize;
  if (link.ether_type == kEtherTypeVlan) [[unlikely]] {
    const Result<VlanTag> tag = VlanTag::parse(frame.subspan(Ethernet::kSize));
    if (!tag) {
      return fail(DropReason::kRunt);
    }
    link.vlan = tag->id;
    link.ether_type = tag->ether_type;
    link.ip_offset += VlanTag::kSize;
  }
  return {};
}

Verdict read_ipv4(Bytes from_ip, Network& network) {
  const auto ip = FixedReader<Ipv4::kSize>::from(from_ip);
  if (!ip) {
    return fail(DropReason::kRunt);
  }
  if (ip->u8<0>() >> 4 != 4) {
    return fail(DropReason::kIpHeader);
  }
  // Before the options: IGMP comes with a router alert, and the noise of every LAN must not look like an attack.
  if (ip->u8<9>() != kIpProtocolUdp) {
    return fail(DropReason::kNotRoce);
  }
  if (ip->u8<0>() != Ipv4::kVersionAndIhl) {
    return fail(DropReason::kIpHeader);
  }
  if ((ip->be16<6>() & (Ipv4::kMoreFragments | Ipv4::kFragmentOffset)) != 0) {
    return fail(DropReason::kFragment);
  }
  const uint32_t total_bytes = ip->be16<2>();
  if (total_bytes < Ipv4::kSize + Udp::kSize || !ipv4_checksum_ok(ip->raw<0, Ipv4::kSize>())) {
    return fail(DropReason::kIpHeader);
  }
  if (total_bytes > from_ip.size()) {
    return fail(DropReason::kRunt);
  }
  network = Network{Ipv4::kSize, total_bytes - uint32_t{Ipv4::kSize}};
  return {};
}

// A mapped address never travels in an IPv6 header (RFC 4291 2.5.5.2); here it would pass for the IPv4 peer of that address.
bool is_mapped(const uint8_t* address) {
  return load_be64(address) == 0 && load_be32(address + 8) == 0xffff;
}

Verdict read_ipv6(Bytes from_ip, Network& network) {
  const auto ip = FixedReader<Ipv6::kSize>::from(from_ip);
  if (!ip) {
    return fail(DropReason::kRunt);
  }
  if (ip->u8<0>() >> 4 != 6) {
    return fail(DropReason::kIpHeader);
  }
  const uint8_t next_header = ip->u8<6>();
  if (next_header != kIpProtocolUdp) {
    if (next_header == kIpv6FragmentHeader) {
      return fail(DropReason::kFragment);
    }
    // To a group it is multicast listener discovery, with its hop-by-hop header: noise of every LAN, not an attack.
    const bool to_group = ip->u8<24>() == 0xff;
    return fail(is_ipv6_extension(next_header) && !to_group ? DropReason::kIpHeader : DropReason::kNotRoce);
  }
  const uint32_t payload_bytes = ip->be16<4>();
  if (payload_bytes < Udp::kSize || is_mapped(ip->raw<8, 16>().data()) || is_mapped(ip->raw<24, 16>().data())) {
    return fail(DropReason::kIpHeader);
  }
  if (Ipv6::kSize + payload_bytes > from_ip.size()) {
    return fail(DropReason::kRunt);
  }
  network = Network{Ipv6::kSize, payload_bytes};
  return {};
}

Verdict check_udp(const uint8_t* udp, uint32_t udp_bytes) {
  if (load_be16(udp + 2) != kRoceUdpPort) {
    return fail(DropReason::kNotRoce);
  }
  return load_be16(udp + 4) == udp_bytes ? Verdict() : fail(DropReason::kUdpLength);
}

bool is_multicast(const uint8_t* frame, const uint8_t* ip, bool ipv6) {
  const bool ip_multicast = ipv6 ? ip[24] == 0xff : (ip[16] & 0xf0) == 0xe0 || load_be32(ip + 16) == 0xffff'ffff;
  return (frame[0] & 1) != 0 || ip_multicast;
}

// `payload_bytes`: what is left between the extension headers and the padding.
Verdict read_transport(Bytes from_bth, uint32_t& payload_bytes) {
  const auto bth = FixedReader<Bth::kSize>::from(from_bth);
  if (!bth) {
    return fail(DropReason::kRunt);
  }
  if ((bth->u8<1>() & 0xf) != 0) {
    return fail(DropReason::kTransportVersion);
  }
  const OpcodeTraits& traits = traits_of(static_cast<Opcode>(bth->u8<0>()));
  if (traits.kind == OpcodeKind::kReserved) {
    return fail(DropReason::kOpcode);
  }
  const size_t around_bytes = Bth::kSize + traits.extension_bytes + kIcrcBytes;
  if (from_bth.size() < around_bytes) {
    return fail(DropReason::kRunt);
  }
  const uint32_t padded_bytes = static_cast<uint32_t>(from_bth.size() - around_bytes);
  const uint32_t pad_count = (bth->u8<1>() >> 4) & 0x3;
  if (pad_count != 0 && pad_count >= padded_bytes) {
    return fail(DropReason::kPadCount);
  }
  payload_bytes = padded_bytes - pad_count;
  return {};
}

MacAddress mac_at(const uint8_t* p) {
  MacAddress address;
  std::memcpy(address.raw.data(), p, 6);
  return address;
}

IpAddress ipv4_at(const uint8_t* p) {
  IpAddress address;
  address.raw[10] = 0xff;
  address.raw[11] = 0xff;
  std::memcpy(address.raw.data() + 12, p, 4);
  return address;
}

IpAddress ipv6_at(const uint8_t* p) {
  IpAddress address;
  std::memcpy(address.raw.data(), p, 16);
  return address;
}

// Precondition of every accessor: the opcode carries the header, hence parse() has proved its room.
template <typename Header>
Header extension_at(const PacketView& view, uint8_t offset) {
  CW_DASSERT(offset != OpcodeTraits::kAbsent);
  return *Header::parse(view.frame.subspan(view.bth_offset + Bth::kSize + offset));
}

}  // namespace

Result<PacketView, DropReason> PacketView::parse(Bytes frame) {
  Link link;
  if (const Verdict verdict = read_link(frame, link); !verdict) {
    return fail(verdict.error());
  }
  const bool ipv6 = link.ether_type == kEtherTypeIpv6;
  if (!ipv6 && link.ether_type != kEtherTypeIpv4) {
    return fail(DropReason::kNotRoce);
  }
  const Bytes from_ip = frame.subspan(link.ip_offset);
  Network network;
  if (const Verdict verdict = ipv6 ? read_ipv6(from_ip, network) : read_ipv4(from_ip, network); !verdict) {
    return fail(verdict.error());
  }
  const uint8_t* ip = from_ip.data();
  const uint8_t* udp = ip + network.header_bytes;
  if (const Verdict verdict = check_udp(udp, network.udp_bytes); !verdict) {
    return fail(verdict.error());
  }
  // Asked only now, so that the broadcasts of other protocols count as what they are: not RoCE.
  if (is_multicast(frame.data(), ip, ipv6)) {
    return fail(DropReason::kMulticast);
  }
  const Bytes from_bth(udp + Udp::kSize, network.udp_bytes - Udp::kSize);
  uint32_t payload_bytes = 0;
  if (const Verdict verdict = read_transport(from_bth, payload_bytes); !verdict) {
    return fail(verdict.error());
  }
  const OpcodeTraits& traits = traits_of(static_cast<Opcode>(from_bth[0]));
  const uint32_t bth_offset = link.ip_offset + network.header_bytes + uint32_t{Udp::kSize};
  return Result<PacketView, DropReason>(std::in_place, [&] {
    return PacketView{.frame = frame.first(bth_offset + from_bth.size()),
                      .traits = &traits,
                      .bth = Bth::from(*FixedReader<Bth::kSize>::from(from_bth)),
                      .vlan = link.vlan,
                      .source_port = load_be16(udp),
                      .ecn = static_cast<uint8_t>((ipv6 ? ip[1] >> 4 : ip[1]) & 0x3),
                      .ttl = ipv6 ? ip[7] : ip[8],
                      .ip_offset = static_cast<uint16_t>(link.ip_offset),
                      .bth_offset = static_cast<uint16_t>(bth_offset),
                      .payload = from_bth.subspan(Bth::kSize + traits.extension_bytes, payload_bytes)};
  });
}

MacAddress PacketView::source_mac() const {
  return mac_at(frame.data() + 6);
}
MacAddress PacketView::destination_mac() const {
  return mac_at(frame.data());
}
IpAddress PacketView::source() const {
  const uint8_t* ip = frame.data() + ip_offset;
  return is_ipv6() ? ipv6_at(ip + 8) : ipv4_at(ip + 12);
}
IpAddress PacketView::destination() const {
  const uint8_t* ip = frame.data() + ip_offset;
  return is_ipv6() ? ipv6_at(ip + 24) : ipv4_at(ip + 16);
}
Reth PacketView::reth() const {
  return extension_at<Reth>(*this, traits->reth);
}
Aeth PacketView::aeth() const {
  return extension_at<Aeth>(*this, traits->aeth);
}
AtomicEth PacketView::atomic_eth() const {
  return extension_at<AtomicEth>(*this, traits->atomic_eth);
}
AtomicAckEth PacketView::atomic_ack_eth() const {
  return extension_at<AtomicAckEth>(*this, traits->atomic_ack_eth);
}
uint32_t PacketView::immediate() const {
  return extension_at<ImmDt>(*this, traits->immdt).data;
}
verbs::Rkey PacketView::invalidate_rkey() const {
  return extension_at<Ieth>(*this, traits->ieth).rkey;
}
Deth PacketView::deth() const {
  return extension_at<Deth>(*this, traits->deth);
}

std::optional<verbs::Qpn> peek_destination(Bytes frame) {
  const std::optional<RoceLayout> roce = find_roce(frame);
  return roce ? std::optional(verbs::Qpn(load_be24(frame.data() + roce->bth + 5))) : std::nullopt;
}

bool verify_icrc(const PacketView& view) {
  const Bytes covered = view.frame.subspan(view.ip_offset, view.frame.size() - view.ip_offset - kIcrcBytes);
  return Icrc(covered).value() == load_le32(view.frame.data() + view.frame.size() - kIcrcBytes);
}

}  // namespace cw::wire
