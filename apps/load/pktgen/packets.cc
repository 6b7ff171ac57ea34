#include "apps/load/pktgen/packets.h"

#include <algorithm>

#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::pktgen {
namespace {

wire::Opcode send_opcode(bool first, bool last) {
  if (first) {
    return last ? wire::Opcode::kRcSendOnly : wire::Opcode::kRcSendFirst;
  }
  return last ? wire::Opcode::kRcSendLast : wire::Opcode::kRcSendMiddle;
}

}  // namespace

ByteVector PacketMaker::packet(const wire::Path& path, const wire::Bth& bth, const wire::Extensions& extensions, Bytes payload) {
  wire::TxBatch batch(pool_);
  wire::TxPacket* packet = batch.add();
  CW_ASSERT(packet != nullptr);
  wire::build_packet(*packet, wire::PathHeader(path), ip_identification_++, bth, extensions, payload);
  return packet->raw();
}

wire::Bth PacketMaker::datagram_bth() {
  wire::Bth bth;
  bth.opcode = wire::Opcode::kUdSendOnly;
  bth.destination = verbs::Qpn(1);
  return bth;
}

wire::Extensions PacketMaker::datagram_extensions() {
  wire::Extensions extensions;
  extensions.deth = {.qkey = wire::kGsiQkey, .source = verbs::Qpn(1)};
  return extensions;
}

ByteVector PacketMaker::datagram(const wire::Path& path, Bytes mad) {
  return packet(path, datagram_bth(), datagram_extensions(), mad);
}

std::vector<ByteVector> PacketMaker::send(const Target& target, verbs::Qpn qpn, wire::Psn& psn, Bytes message) {
  std::vector<ByteVector> packets;
  size_t sent = 0;
  do {
    const size_t bytes = std::min<size_t>(message.size() - sent, target.path_mtu_bytes);
    const bool last = sent + bytes == message.size();
    wire::Bth bth;
    bth.opcode = send_opcode(sent == 0, last);
    bth.destination = qpn;
    bth.psn = psn;
    bth.ack_request = last;
    packets.push_back(packet(target.path, bth, {}, message.subspan(sent, bytes)));
    psn = psn.next();
    sent += bytes;
  } while (sent < message.size());
  return packets;
}

Offsets offsets_of(const wire::Path& path) {
  Offsets at;
  at.ip = path.vlan != 0 ? 18 : 14;
  at.udp = at.ip + (path.remote.is_v4() ? wire::Ipv4::kSize : wire::Ipv6::kSize);
  at.bth = at.udp + wire::Udp::kSize;
  return at;
}

void repair_ipv4_checksum(ByteVector& frame, size_t ip) {
  store_be16(&frame[ip + 10], 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, wire::Ipv4::kSize>(&frame[ip], wire::Ipv4::kSize));
  store_be16(&frame[ip + 10], static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
}

void repair_icrc(ByteVector& frame, size_t ip) {
  const size_t end = frame.size() - wire::kIcrcBytes;
  store_le32(&frame[end], wire::Icrc(Bytes(frame).subspan(ip, end - ip)).value());
}

void repair(ByteVector& frame, const wire::Path& path) {
  const Offsets at = offsets_of(path);
  const auto udp_bytes = static_cast<uint16_t>(frame.size() - at.udp);
  store_be16(&frame[at.udp + 4], udp_bytes);
  if (path.remote.is_v4()) {
    store_be16(&frame[at.ip + 2], static_cast<uint16_t>(frame.size() - at.ip));
    repair_ipv4_checksum(frame, at.ip);
  } else {
    store_be16(&frame[at.ip + 4], udp_bytes);
  }
  if (frame.size() >= at.bth + wire::Bth::kSize + wire::kIcrcBytes) {
    repair_icrc(frame, at.ip);
  }
}

}  // namespace cw::pktgen
