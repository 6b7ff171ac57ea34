#include "rocev2/wire/packet_builder.h"

#include <algorithm>
#include <cstring>

#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ieth.h"
#include "rocev2/wire/immdt.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::wire {
namespace {

constexpr uint8_t kShortestBytes = Ethernet::kSize + Ipv4::kSize + Udp::kSize;
constexpr uint8_t kPreparedBytes = kShortestBytes + Bth::kSize;

template <typename Header>
void write_at(uint8_t* out, const Header& header) {
  header.write(std::span<uint8_t, Header::kSize>(out, Header::kSize));
}

void write_extensions(uint8_t* out, const OpcodeTraits& traits, const Extensions& extensions) {
  const auto write = [out](uint8_t offset, const auto& header) {
    if (offset != OpcodeTraits::kAbsent) {
      write_at(out + offset, header);
    }
  };
  write(traits.reth, extensions.reth);
  write(traits.aeth, extensions.aeth);
  write(traits.atomic_eth, extensions.atomic_eth);
  write(traits.atomic_ack_eth, extensions.atomic_ack_eth);
  write(traits.immdt, ImmDt{extensions.immediate});
  write(traits.ieth, Ieth{extensions.invalidate});
  write(traits.deth, extensions.deth);
}

// Ethernet .. extension headers.
uint32_t header_bytes_of(const PathHeader& path, Opcode opcode) {
  return path.bytes() + uint32_t{Bth::kSize} + traits_of(opcode).extension_bytes;
}

void write_headers(uint8_t* out, const PathHeader& path, uint16_t ip_identification, const Bth& bth, const Extensions& extensions,
                   uint32_t payload_bytes, uint8_t pad_count) {
  const OpcodeTraits& traits = traits_of(bth.opcode);
  CW_DASSERT(traits.kind != OpcodeKind::kReserved && (payload_bytes == 0 || traits.may_carry_payload));
  path.write(out, uint32_t{Bth::kSize} + traits.extension_bytes + payload_bytes + pad_count + uint32_t{kIcrcBytes},
             ip_identification);
  out += path.bytes();
  bth.write(std::span<uint8_t, Bth::kSize>(out, Bth::kSize), pad_count);
  if (traits.extension_bytes > 0) {
    write_extensions(out + Bth::kSize, traits, extensions);
  }
}

// The headers into the empty head; the head's size becomes theirs. `in_head_bytes` of payload, padding and iCRC must fit behind
// them: our heads are made for a full path MTU, so that anything else is our own mistake.
void start_head(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                const Extensions& extensions, uint32_t payload_bytes, uint8_t pad_count, uint32_t in_head_bytes) {
  Buffer& head = *packet.head;
  const uint32_t header_bytes = header_bytes_of(path, bth.opcode);
  CW_ASSERT(head.size == 0 && uint64_t{header_bytes} + in_head_bytes <= head.capacity_bytes);
  packet.port = path.port();
  write_headers(head.data, path, ip_identification, bth, extensions, payload_bytes, pad_count);
  head.size = header_bytes;
}

// The part of the head that the iCRC covers, as far as it is written.
Bytes covered(const TxPacket& packet, const PathHeader& path) {
  return packet.head->bytes().subspan(path.ip_offset());
}

// Padding and iCRC behind headers and payload that lie together. One pass over the whole frame, which has just been written and
// lies in the nearest cache. Says how long it is now.
uint32_t close_frame(uint8_t* frame, uint32_t bytes, const PathHeader& path, uint8_t pad_count) {
  if (pad_count > 0) {
    std::memset(frame + bytes, 0, pad_count);
    bytes += pad_count;
  }
  store_le32(frame + bytes, Icrc(Bytes(frame, bytes).subspan(path.ip_offset())).value());
  return bytes + kIcrcBytes;
}

void close_head(TxPacket& packet, const PathHeader& path, uint8_t pad_count) {
  packet.head->size = close_frame(packet.head->data, packet.head->size, path, pad_count);
}

// Where a payload lies: its runs of bytes, empty Buffers skipped. `complete` is false when kPiecesMax did not suffice.
struct Runs {
  std::array<TxPiece, TxPacket::kPiecesMax> pieces;
  uint32_t count = 0;
  bool complete = false;
};

Runs find_runs(const PayloadCursor& payload) {
  Runs runs;
  uint32_t offset = payload.offset;
  uint32_t left = payload.size;
  for (const Buffer* at = payload.buffer; left > 0; at = at->next) {
    CW_ASSERT(at != nullptr);
    if (offset >= at->size) {
      offset -= at->size;
      continue;
    }
    if (runs.count == TxPacket::kPiecesMax) {
      return runs;
    }
    const uint32_t run_bytes = std::min(left, at->size - offset);
    runs.pieces[runs.count++] = TxPiece{at, at->data + offset, run_bytes};
    offset = 0;
    left -= run_bytes;
  }
  runs.complete = true;
  return runs;
}

void copy_payload(Buffer& head, const PayloadCursor& payload) {
  uint32_t offset = payload.offset;
  uint32_t left = payload.size;
  for (const Buffer* at = payload.buffer; left > 0; at = at->next) {
    CW_ASSERT(at != nullptr);
    if (offset >= at->size) {
      offset -= at->size;
      continue;
    }
    const uint32_t run_bytes = std::min(left, at->size - offset);
    std::memcpy(head.data + head.size, at->data + offset, run_bytes);
    head.size += run_bytes;
    offset = 0;
    left -= run_bytes;
  }
}

// Padding and iCRC behind what `icrc` covers so far. Says how many bytes that is.
uint32_t write_trailer(uint8_t* out, Icrc icrc, uint8_t pad_count) {
  std::memset(out, 0, pad_count);
  icrc.update({out, pad_count});
  store_le32(out + pad_count, icrc.value());
  return pad_count + kIcrcBytes;
}

void attach_payload(TxPacket& packet, const PathHeader& path, const Runs& runs, uint8_t pad_count) {
  packet.pieces = runs.pieces;
  packet.piece_count = runs.count;
  Icrc icrc(covered(packet, path));
  for (uint32_t i = 0; i < runs.count; ++i) {
    icrc.update({runs.pieces[i].data, runs.pieces[i].size});
  }
  packet.trailer_bytes = write_trailer(packet.trailer.data(), icrc, pad_count);
}

}  // namespace

PathHeader::PathHeader(const Path& path) : port_(path.port), vlan_(path.vlan), ipv6_(!path.remote.is_v4()) {
  CW_ASSERT(path.local.is_v4() == path.remote.is_v4());
  const uint16_t ip_ether_type = ipv6_ ? kEtherTypeIpv6 : kEtherTypeIpv4;
  const uint8_t traffic_class = static_cast<uint8_t>((path.dscp << 2) | (path.ecn_capable ? 2 : 0));
  uint8_t* out = template_.data();
  write_at(out, Ethernet{path.remote_mac, path.local_mac, path.vlan != 0 ? kEtherTypeVlan : ip_ether_type});
  out += Ethernet::kSize;
  if (path.vlan != 0) {
    write_at(out, VlanTag{0, false, path.vlan, ip_ether_type});
    out += VlanTag::kSize;
  }
  ip_offset_ = static_cast<uint8_t>(out - template_.data());
  if (ipv6_) {
    write_at(out, Ipv6{traffic_class, 0, 0, kIpProtocolUdp, path.hop_limit, path.local.raw, path.remote.raw});
    out += Ipv6::kSize;
  } else {
    Ipv4 ip;
    ip.tos = traffic_class;
    ip.ttl = path.hop_limit;
    ip.source = path.local.to_v4();
    ip.destination = path.remote.to_v4();
    write_at(out, ip);
    ipv4_sum_ = fold_ones_complement(ipv4_sum(std::span<const uint8_t, Ipv4::kSize>(out, Ipv4::kSize)));
    out += Ipv4::kSize;
  }
  // The checksum stays 0, over IPv6 too: the iCRC protects the packet, and real peers send 0 (RFC 6936).
  write_at(out, Udp{path.udp_source_port, kRoceUdpPort, 0, 0});
  out += Udp::kSize;
  bytes_ = static_cast<uint8_t>(out - template_.data());
}

void PathHeader::prepare_sends(const Bth& bth) {
  CW_DASSERT(bth.opcode == Opcode::kRcSendOnly);
  if (ipv6_ || bytes_ != kShortestBytes) {
    return;
  }
  static_assert(kPreparedBytes <= sizeof(template_));
  bth.write(std::span<uint8_t, Bth::kSize>(template_.data() + bytes_, Bth::kSize), 0);
  prepared_bytes_ = kPreparedBytes;
  send_icrc_ = IcrcAlike(Bytes(template_).subspan(ip_offset_));
}

void PathHeader::build_send_in_place(TxPacket& packet, uint16_t ip_identification, Psn psn, bool ack_request,
                                     const Buffer& payload) const {
  CW_DASSERT(packet.is_in_place() && has_room_for_send(payload));
  const uint8_t pad_count = pad_count_for(payload.size);
  uint8_t* frame = payload.data - kPreparedBytes;
  std::memcpy(frame, template_.data(), kPreparedBytes);
  const uint32_t frame_bytes = kPreparedBytes + payload.size + pad_count + kIcrcBytes;
  const uint32_t ip_bytes = frame_bytes - uint32_t{Ethernet::kSize};
  uint8_t* ip = frame + Ethernet::kSize;
  store_be32(ip + 2, (ip_bytes << 16) | ip_identification);
  store_be16(ip + 10, static_cast<uint16_t>(~fold_short_sum(ipv4_sum_ + ip_bytes + ip_identification)));
  store_be16(ip + Ipv4::kSize + 4, static_cast<uint16_t>(ip_bytes - Ipv4::kSize));
  uint8_t* bth = ip + Ipv4::kSize + Udp::kSize;
  store_be32(bth + 8, (ack_request ? 0x8000'0000u : 0u) | psn.value());
  if (pad_count > 0) [[unlikely]] {
    bth[1] = static_cast<uint8_t>(bth[1] | (pad_count << 4));
    std::memset(payload.data + payload.size, 0, pad_count);
  }
  const Bytes covered(ip, ip_bytes - kIcrcBytes);
  store_le32(frame + frame_bytes - kIcrcBytes, send_icrc_.of(covered));
  packet.port = port_;
  packet.pieces[0] = TxPiece{&payload, frame, frame_bytes};
  packet.piece_count = 1;
}

void PathHeader::write(uint8_t* out, uint32_t udp_payload_bytes, uint16_t ip_identification) const {
  CW_DASSERT(bytes_ >= kShortestBytes && udp_payload_bytes + Udp::kSize + Ipv4::kSize <= 0xffff);
  std::memcpy(out, template_.data(), kShortestBytes);
  if (bytes_ != kShortestBytes) {
    std::memcpy(out + kShortestBytes, template_.data() + kShortestBytes, bytes_ - kShortestBytes);
  }
  const uint16_t udp_bytes = static_cast<uint16_t>(udp_payload_bytes + Udp::kSize);
  uint8_t* ip = out + ip_offset_;
  if (ipv6_) {
    store_be16(ip + 4, udp_bytes);
    store_be16(ip + Ipv6::kSize + 4, udp_bytes);
    return;
  }
  store_be16(ip + 2, static_cast<uint16_t>(udp_bytes + Ipv4::kSize));
  store_be16(ip + Ipv4::kSize + 4, udp_bytes);
  identify(out, udp_payload_bytes, ip_identification);
}

void PathHeader::identify(uint8_t* out, uint32_t udp_payload_bytes, uint16_t ip_identification) const {
  if (ipv6_) {
    return;
  }
  uint8_t* ip = out + ip_offset_;
  const uint32_t total_bytes = uint32_t{Ipv4::kSize} + Udp::kSize + udp_payload_bytes;
  store_be16(ip + 4, ip_identification);
  store_be16(ip + 10, static_cast<uint16_t>(~fold_short_sum(ipv4_sum_ + total_bytes + ip_identification)));
}

void build_packet(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                  const Extensions& extensions, const PayloadCursor& payload) {
  const uint8_t pad_count = pad_count_for(payload.size);
  if (payload.size >= kAttachThresholdBytes) {
    const Runs runs = find_runs(payload);
    if (runs.complete) {
      start_head(packet, path, ip_identification, bth, extensions, payload.size, pad_count, 0);
      attach_payload(packet, path, runs, pad_count);
      return;
    }
  }
  start_head(packet, path, ip_identification, bth, extensions, payload.size, pad_count, payload.size + pad_count + kIcrcBytes);
  copy_payload(*packet.head, payload);
  close_head(packet, path, pad_count);
}

bool has_room_for_frame(const PathHeader& path, Opcode opcode, const Buffer& payload) {
  return payload.headroom_bytes >= header_bytes_of(path, opcode) &&
         payload.capacity_bytes - payload.size >= pad_count_for(payload.size) + uint32_t{kIcrcBytes};
}

void build_in_place(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                    const Extensions& extensions, const Buffer& payload) {
  CW_DASSERT(packet.is_in_place() && has_room_for_frame(path, bth.opcode, payload));
  const uint8_t pad_count = pad_count_for(payload.size);
  const uint32_t header_bytes = header_bytes_of(path, bth.opcode);
  uint8_t* frame = payload.data - header_bytes;
  write_headers(frame, path, ip_identification, bth, extensions, payload.size, pad_count);
  packet.port = path.port();
  packet.pieces[0] = TxPiece{&payload, frame, close_frame(frame, header_bytes + payload.size, path, pad_count)};
  packet.piece_count = 1;
}

PacketRun::PacketRun(const PathHeader& path, const Bth& bth, uint32_t payload_bytes)
    : path_(path), bth_(bth), payload_bytes_(payload_bytes), header_bytes_(path.bytes() + Bth::kSize), icrc_([&] {
        path.write(header_.data(), Bth::kSize + payload_bytes + kIcrcBytes, 0);
        bth_.write(std::span<uint8_t, Bth::kSize>(header_.data() + path.bytes(), Bth::kSize), 0);
        store_be32(header_.data() + path.bytes() + Bth::kSize - 4, 0);
        return IcrcRun(Bytes(header_).subspan(path.ip_offset(), path.bytes() - path.ip_offset() + Bth::kSize));
      }()) {
  CW_DASSERT(traits_of(bth.opcode).extension_bytes == 0 && payload_bytes >= kAttachThresholdBytes && payload_bytes % 4 == 0);
}

// What all packets share is copied first: to the compiler each byte that is stored may be one of it.
uint32_t PacketRun::build(TxBatch& batch, const Row& row, const Buffer* payload, uint32_t offset) const {
  const Header header = header_;
  const IcrcRun icrc_run = icrc_;
  const uint32_t payload_bytes = payload_bytes_;
  const uint32_t header_bytes = header_bytes_;
  const uint32_t udp_payload_bytes = uint32_t{Bth::kSize} + payload_bytes + kIcrcBytes;
  const bool has_identification = path_.has_identification();
  const uint16_t port = path_.port();
  uint32_t built = 0;
  for (; built < row.count; ++built) {
    TxPacket* packet = batch.add();
    if (packet == nullptr) {
      break;
    }
    const auto ip_identification = static_cast<uint16_t>(row.ip_identification + built);
    const Psn psn = row.psn.plus(built);
    const bool ack_request = built == row.quiet;
    for (; offset >= payload->size; payload = payload->next) {
      offset -= payload->size;
    }
    if (payload->size - offset < payload_bytes) [[unlikely]] {
      // Runs on into other Buffers: how many, build_packet finds out.
      Bth bth = bth_;
      bth.psn = psn;
      bth.ack_request = ack_request;
      build_packet(*packet, path_, ip_identification, bth, Extensions{}, PayloadCursor{payload, offset, payload_bytes});
      offset += payload_bytes;
      continue;
    }
    Buffer& head = *packet->head;
    CW_ASSERT(head.size == 0 && sizeof(header) <= head.capacity_bytes);
    uint8_t* const out = head.data;
    std::memcpy(out, header.data(), sizeof(header));
    if (has_identification) {
      path_.identify(out, udp_payload_bytes, ip_identification);
    }
    const uint32_t psn_word = (ack_request ? 0x8000'0000u : 0u) | psn.value();
    store_be32(out + header_bytes - 4, psn_word);
    head.size = header_bytes;
    const uint8_t* const raw = payload->data + offset;
    Icrc icrc = icrc_run.after_header(has_identification ? ip_identification : uint16_t{0}, psn_word);
    icrc.update({raw, payload_bytes});
    packet->port = port;
    packet->pieces[0] = TxPiece{payload, raw, payload_bytes};
    packet->piece_count = 1;
    store_le32(packet->trailer.data(), icrc.value());
    packet->trailer_bytes = kIcrcBytes;
    offset += payload_bytes;
  }
  return built;
}

void build_packet(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                  const Extensions& extensions, Bytes payload) {
  const uint32_t payload_bytes = static_cast<uint32_t>(payload.size());
  const uint8_t pad_count = pad_count_for(payload_bytes);
  start_head(packet, path, ip_identification, bth, extensions, payload_bytes, pad_count, payload_bytes + pad_count + kIcrcBytes);
  Buffer& head = *packet.head;
  uint8_t* out = head.data + head.size;
  if (payload_bytes >= kAttachThresholdBytes) {
    // So much may lie in no near cache: it is read once.
    Icrc icrc(covered(packet, path));
    icrc.update_copying(payload, out);
    head.size += payload_bytes + write_trailer(out + payload_bytes, icrc, pad_count);
    return;
  }
  if (!payload.empty()) {
    std::memcpy(out, payload.data(), payload.size());
    head.size += payload_bytes;
  }
  close_head(packet, path, pad_count);
}

}  // namespace cw::wire
