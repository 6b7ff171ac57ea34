#include "control/node/steering.h"

#include "control/cm/hash.h"
#include "control/cm/wire/mad_header.h"
#include "rocev2/gsi/gsi_qp.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::node {
namespace {

constexpr size_t kAttributeId = 16;                // in a MAD header
constexpr size_t kOurId = cm::kMadHeaderSize + 4;  // in every CM message but REQ, SIDR_REQ and SIDR_REP
constexpr size_t kRequestQpn = cm::kMadHeaderSize + 32;

// Where UDP begins and the sender's address lies; empty when the frame is not UDP.
struct Datagram {
  Bytes udp;
  Bytes source;
};

Datagram find_udp(Bytes frame) {
  size_t ip_offset = wire::Ethernet::kSize;
  if (frame.size() < ip_offset) {
    return {};
  }
  uint16_t ether_type = load_be16(frame.data() + 12);
  if (ether_type == wire::kEtherTypeVlan && frame.size() >= ip_offset + wire::VlanTag::kSize) {
    ether_type = load_be16(frame.data() + 16);
    ip_offset += wire::VlanTag::kSize;
  }
  const Bytes ip = frame.subspan(ip_offset);
  if (ether_type == wire::kEtherTypeIpv4 && ip.size() >= wire::Ipv4::kSize && ip[9] == wire::kIpProtocolUdp) {
    return {ip.subspan(wire::Ipv4::kSize), ip.subspan(12, 4)};
  }
  if (ether_type == wire::kEtherTypeIpv6 && ip.size() >= wire::Ipv6::kSize && ip[6] == wire::kIpProtocolUdp) {
    return {ip.subspan(wire::Ipv6::kSize), ip.subspan(8, 16)};
  }
  return {};
}

uint32_t sum_of_words(Bytes octets) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 4 <= octets.size(); i += 4) {
    sum += load_be32(octets.data() + i);
  }
  return sum;
}

}  // namespace

uint32_t Steering::owner_of(Bytes frame) const {
  const Datagram datagram = find_udp(frame);
  if (datagram.udp.size() < wire::Udp::kSize + wire::Bth::kSize || load_be16(datagram.udp.data() + 2) != wire::kRoceUdpPort) {
    return 0;
  }
  const Bytes bth = datagram.udp.subspan(wire::Udp::kSize);
  const verbs::Qpn qpn(load_be32(bth.data() + 4) & 0xff'ffff);
  if (qpn == verbs::Qpn(gsi::kGsiQpn)) {
    constexpr size_t kBefore = size_t{wire::Bth::kSize} + wire::Deth::kSize;
    return bth.size() < kBefore ? 0 : owner_of_mad(bth.subspan(kBefore), datagram.source);
  }
  const uint32_t core = codec_.core_of(qpn);
  return core < core_.count ? core : 0;
}

uint32_t Steering::owner_of_mad(Bytes mad, Bytes source) const {
  if (mad.size() < kRequestQpn + 4) {
    return 0;
  }
  const auto type = cm::message_type_of(load_be16(mad.data() + kAttributeId));
  if (!type || *type == cm::MessageType::kSidrReq || *type == cm::MessageType::kSidrRep) {
    return 0;
  }
  if (*type == cm::MessageType::kReq) {
    const uint32_t qpn = load_be32(mad.data() + kRequestQpn) >> 8;
    return static_cast<uint32_t>((cm::mix(sum_of_words(source)) + qpn) % core_.count);
  }
  const uint32_t core = load_be32(mad.data() + kOurId) & ((1u << core_.bits()) - 1);
  return core < core_.count ? core : 0;
}

}  // namespace cw::node
