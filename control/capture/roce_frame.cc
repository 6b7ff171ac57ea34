#include "control/capture/roce_frame.h"

#include <algorithm>

#include "rocev2/wire/bth.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/frame_layout.h"
#include "rocev2/wire/opcode.h"

namespace cw::control::capture {
namespace {

constexpr uint32_t kRpcRdmaFixedBytes = 16;  // XID, version, credits, type; the chunk lists behind them name R_Keys
constexpr uint32_t kRkeyInReth = 8;          // and in AtomicETH: both begin with the address
constexpr uint16_t kEtherTypeArp = 0x0806;
constexpr uint8_t kIpProtocolIcmp6 = 58;
constexpr uint32_t kTransportBytes = 8;  // ports of TCP and UDP; type, code and numbers of ICMP; a fragment header

IpAddress address_at(Bytes frame, uint32_t v4_at, uint32_t v6_at, const wire::IpLayout& ip) {
  return ip.ipv6 ? IpAddress::v6(std::span<const uint8_t, 16>(frame.data() + ip.offset + v6_at, 16))
                 : IpAddress::v4(load_be32(frame.data() + ip.offset + v4_at));
}

bool is_neighbour_discovery(Bytes frame, const wire::IpLayout& ip) {
  const uint32_t icmp = ip.offset + ip.header_bytes;
  return ip.ipv6 && ip.protocol == kIpProtocolIcmp6 && frame.size() > icmp && frame[icmp] >= 133 && frame[icmp] <= 137;
}

// What may be shown of a frame that is not RoCE. A port of the kernel carries anything, and ICMP errors quote a packet.
uint32_t shown_of_others(Bytes frame) {
  const uint32_t size = static_cast<uint32_t>(frame.size());
  const std::optional<wire::IpLayout> ip = wire::find_ip(frame);
  if (ip) {
    const uint32_t behind = ip->is_later_fragment() ? 0 : kTransportBytes;
    return is_neighbour_discovery(frame, *ip) ? size : std::min(size, ip->offset + ip->header_bytes + behind);
  }
  const uint32_t link_bytes = std::min(size, uint32_t{wire::Ethernet::kSize});
  return link_bytes == wire::Ethernet::kSize && load_be16(frame.data() + link_bytes - 2) == kEtherTypeArp ? size : link_bytes;
}

}  // namespace

std::optional<RoceFrame> locate_roce(Bytes frame) {
  const std::optional<wire::RoceLayout> layout = wire::find_roce(frame);
  if (!layout) {
    return std::nullopt;
  }
  RoceFrame out;
  out.source = address_at(frame, 12, 8, layout->ip);
  out.destination = address_at(frame, 16, 24, layout->ip);
  out.opcode = frame[layout->bth];
  out.destination_qpn = load_be24(frame.data() + layout->bth + 5);
  out.extensions_at = layout->bth + uint32_t{wire::Bth::kSize};
  out.payload_at = out.extensions_at + wire::traits_of(static_cast<wire::Opcode>(out.opcode)).extension_bytes;
  return out;
}

uint32_t redact(MutableBytes frame) {
  const uint32_t size = static_cast<uint32_t>(frame.size());
  const std::optional<RoceFrame> roce = locate_roce(frame);
  if (!roce) {
    return shown_of_others(frame);
  }
  const wire::OpcodeTraits& traits = wire::traits_of(static_cast<wire::Opcode>(roce->opcode));
  if (traits.kind == wire::OpcodeKind::kDatagram) {
    return size;  // connection management, to QP1: there are no calls and no R_Keys in it
  }
  const auto blank = [&](uint32_t at) {
    const uint32_t end = std::min(at + 4, size);
    std::fill(frame.begin() + std::min(at, end), frame.begin() + end, uint8_t{0});
  };
  if (traits.reth != wire::OpcodeTraits::kAbsent) {
    blank(roce->extensions_at + traits.reth + kRkeyInReth);
  }
  if (traits.ieth != wire::OpcodeTraits::kAbsent) {
    blank(roce->extensions_at + traits.ieth);
  }
  if (traits.atomic_eth != wire::OpcodeTraits::kAbsent) {
    blank(roce->extensions_at + traits.atomic_eth + kRkeyInReth);
  }
  const bool begins_message = traits.kind == wire::OpcodeKind::kSend && traits.starts_message();
  return std::min(size, roce->payload_at + (begins_message ? kRpcRdmaFixedBytes : 0));
}

bool FrameFilter::wants(Bytes frame, bool received) const {
  if (wants_all()) {
    return true;
  }
  const std::optional<RoceFrame> roce = locate_roce(frame);
  if (!roce) {
    return false;
  }
  if (client && !client->contains(received ? roce->source : roce->destination)) {
    return false;
  }
  return !local_qpn || roce->destination_qpn == (received ? *local_qpn : remote_qpn);
}

}  // namespace cw::control::capture
