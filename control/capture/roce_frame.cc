#include "control/capture/roce_frame.h"

#include <algorithm>

#include "rocev2/wire/opcode.h"

namespace cw::control::capture {
namespace {

constexpr uint32_t kEthernetBytes = 14;
constexpr uint32_t kVlanBytes = 4;
constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kIpv6Bytes = 40;
constexpr uint32_t kUdpBytes = 8;
constexpr uint32_t kBthBytes = 12;
constexpr uint8_t kUdp = 17;
constexpr uint16_t kRocePort = 4791;
constexpr uint32_t kRpcRdmaFixedBytes = 16;
constexpr uint32_t kRkeyInReth = 8;

wire::IpAddress v6_at(Bytes frame, uint32_t at) {
  return wire::IpAddress::v6(std::span<const uint8_t, 16>(frame.data() + at, 16));
}

}  // namespace

std::optional<RoceFrame> locate_roce(Bytes frame) {
  uint32_t at = kEthernetBytes;
  if (frame.size() < at) {
    return std::nullopt;
  }
  uint16_t type = load_be16(frame.data() + at - 2);
  if (type == 0x8100) {
    at += kVlanBytes;
    if (frame.size() < at) {
      return std::nullopt;
    }
    type = load_be16(frame.data() + at - 2);
  }
  RoceFrame out;
  const bool is_v4 = type == 0x0800 && frame.size() > at && (frame[at] & 0xf0) == 0x40;
  const uint32_t ip_bytes = is_v4 ? (frame[at] & 0x0f) * 4u : kIpv6Bytes;
  if ((!is_v4 && type != 0x86dd) || frame.size() < at + ip_bytes + kUdpBytes + kBthBytes || (is_v4 && ip_bytes < kIpv4Bytes)) {
    return std::nullopt;
  }
  if (frame[at + (is_v4 ? 9 : 6)] != kUdp || load_be16(frame.data() + at + ip_bytes + 2) != kRocePort) {
    return std::nullopt;
  }
  out.source = is_v4 ? wire::IpAddress::v4(load_be32(frame.data() + at + 12)) : v6_at(frame, at + 8);
  out.destination = is_v4 ? wire::IpAddress::v4(load_be32(frame.data() + at + 16)) : v6_at(frame, at + 24);
  at += ip_bytes + kUdpBytes;
  out.opcode = frame[at];
  out.destination_qpn = load_be24(frame.data() + at + 5);
  out.extensions_at = at + kBthBytes;
  out.payload_at = out.extensions_at + wire::traits_of(static_cast<wire::Opcode>(out.opcode)).extension_bytes;
  return out;
}

uint32_t redact(MutableBytes frame) {
  const uint32_t size = static_cast<uint32_t>(frame.size());
  const std::optional<RoceFrame> roce = locate_roce(frame);
  if (!roce) {
    return size;
  }
  const wire::OpcodeTraits& traits = wire::traits_of(static_cast<wire::Opcode>(roce->opcode));
  if (traits.kind == wire::OpcodeKind::kDatagram) {
    return size;
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
