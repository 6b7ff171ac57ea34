#include "apps/load/pktgen/malformed.h"

#include "apps/load/pktgen/packets.h"
#include "rocev2/wire/drop_reason.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/opcode.h"

namespace cw::pktgen {
namespace {

using wire::DropReason;
using wire::Opcode;

constexpr uint32_t kReservedQpn = 0;  // QP0 is for subnet management, which Ethernet has not: no queue pair is ever called so
constexpr uint8_t kIpv6FragmentHeader = 44;
constexpr uint16_t kOtherUdpPort = 4792;
constexpr uint8_t kReservedOpcode = 0x3f;

Count discard(DropReason reason) {
  return {"causeway_roce_discards_total", {{"reason", to_string(reason)}}};
}

// The station looks at what is not RoCE, and does not want it either.
std::vector<Count> of_no_protocol(DropReason reason) {
  return {discard(reason), {"causeway_port_other_packets_total", {}}};
}

// A SEND that would be right if it had a queue pair, to be bent.
class GoodFrame {
 public:
  explicit GoodFrame(const Target& target) : path_(target.path), at_(offsets_of(target.path)) {
    PacketMaker maker;
    raw_ = maker.packet(path_, bth(), {}, ByteVector(64, 0x5a));
    short_ = maker.packet(path_, bth(), {}, {});
  }
  [[nodiscard]] static wire::Bth bth() {
    wire::Bth bth;
    bth.opcode = Opcode::kRcSendOnly;
    bth.destination = verbs::Qpn(kReservedQpn);
    return bth;
  }
  [[nodiscard]] const ByteVector& raw() const { return raw_; }

  [[nodiscard]] ByteVector runt() const {
    ByteVector frame = raw_;
    frame.resize(at_.bth + wire::Bth::kSize - 1);
    repair(frame, path_);
    return frame;
  }
  [[nodiscard]] ByteVector other_port() const {
    ByteVector frame = raw_;
    store_be16(&frame[at_.udp + 2], kOtherUdpPort);
    return frame;
  }
  // IPv4: a wrong checksum. IPv6: hop-by-hop options, which nobody sends in front of RoCE.
  [[nodiscard]] ByteVector bad_ip_header() const {
    ByteVector frame = raw_;
    if (path_.remote.is_v4()) {
      frame[at_.ip + 10] ^= 0xff;
    } else {
      frame[at_.ip + 6] = 0;
    }
    return frame;
  }
  [[nodiscard]] ByteVector fragment() const {
    ByteVector frame = raw_;
    if (path_.remote.is_v4()) {
      store_be16(&frame[at_.ip + 6], wire::Ipv4::kMoreFragments);
      repair_ipv4_checksum(frame, at_.ip);
    } else {
      frame[at_.ip + 6] = kIpv6FragmentHeader;
    }
    return frame;
  }
  [[nodiscard]] ByteVector bad_udp_length() const {
    ByteVector frame = raw_;
    store_be16(&frame[at_.udp + 4], static_cast<uint16_t>(frame.size() - at_.udp - 4));
    return frame;
  }
  [[nodiscard]] ByteVector other_transport_version() const {
    ByteVector frame = raw_;
    frame[at_.bth + 1] |= 1;
    repair_icrc(frame, at_.ip);
    return frame;
  }
  [[nodiscard]] ByteVector reserved_opcode() const {
    CW_ASSERT(wire::traits_of(static_cast<Opcode>(kReservedOpcode)).kind == wire::OpcodeKind::kReserved);
    ByteVector frame = raw_;
    frame[at_.bth] = kReservedOpcode;
    repair_icrc(frame, at_.ip);
    return frame;
  }
  [[nodiscard]] ByteVector padding_of_nothing() const {
    ByteVector frame = short_;
    frame[at_.bth + 1] |= 0x30;
    repair_icrc(frame, at_.ip);
    return frame;
  }
  [[nodiscard]] ByteVector to_group() const {
    wire::Path path = path_;
    if (path.remote.is_v4()) {
      path.remote = IpAddress::v4(0xe000'0001);
      path.remote_mac = {{0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}};
    } else {
      path.remote.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01};
      path.remote_mac = {{0x33, 0x33, 0x00, 0x00, 0x00, 0x01}};
    }
    return PacketMaker().packet(path, bth(), {}, ByteVector(64, 0x5a));
  }
  [[nodiscard]] ByteVector bad_icrc() const {
    ByteVector frame = raw_;
    frame.back() ^= 1;
    return frame;
  }

 private:
  wire::Path path_;
  Offsets at_;
  ByteVector raw_;
  ByteVector short_;
};

}  // namespace

void add_malformed_frames(Profile& profile, const Target& target) {
  const GoodFrame good(target);
  add_frame(profile, "runt", good.runt(), {discard(DropReason::kRunt)});
  add_frame(profile, "not_roce", good.other_port(), of_no_protocol(DropReason::kNotRoce));
  add_frame(profile, "ip_header", good.bad_ip_header(), {discard(DropReason::kIpHeader)});
  add_frame(profile, "fragment", good.fragment(), {discard(DropReason::kFragment)});
  add_frame(profile, "udp_length", good.bad_udp_length(), {discard(DropReason::kUdpLength)});
  add_frame(profile, "transport_version", good.other_transport_version(), {discard(DropReason::kTransportVersion)});
  add_frame(profile, "opcode", good.reserved_opcode(), {discard(DropReason::kOpcode)});
  add_frame(profile, "pad_count", good.padding_of_nothing(), {discard(DropReason::kPadCount)});
  add_frame(profile, "multicast", good.to_group(), of_no_protocol(DropReason::kMulticast));
  add_frame(profile, "icrc", good.bad_icrc(), {discard(DropReason::kIcrc)});
  add_frame(profile, "unknown_qp", good.raw(), {discard(DropReason::kUnknownQp)});
}

void add_malformed_at_qp(Profile& profile, const Target& target, const QueuePairTarget& qp) {
  PacketMaker maker;
  constexpr uint32_t kFarthest = (1u << 23) - 1;  // half of the PSN space, less one
  const ByteVector payload(64, 0x5a);
  const Count received{"causeway_roce_payload_bytes_total", {{"direction", "rx"}}, payload.size()};
  const auto bth = [&](Opcode opcode, wire::Psn psn) {
    wire::Bth out;
    out.opcode = opcode;
    out.destination = qp.qpn;
    out.psn = psn;
    out.ack_request = true;
    return out;
  };
  const wire::Bth next = bth(Opcode::kRcSendOnly, qp.first_psn);

  wire::Path elsewhere = target.path;
  elsewhere.local.raw[15] ^= 0x40;
  add_frame(profile, "qp_path_mismatch", maker.packet(elsewhere, next, {}, payload), {discard(DropReason::kPathMismatch)});
  wire::Bth other_partition = next;
  other_partition.pkey = 0x8123;
  add_frame(profile, "qp_pkey", maker.packet(target.path, other_partition, {}, payload), {discard(DropReason::kPkey)});
  add_frame(profile, "qp_not_datagram",
            maker.packet(target.path, bth(Opcode::kUdSendOnly, qp.first_psn), PacketMaker::datagram_extensions(), payload),
            {discard(DropReason::kNotDatagram), received});
  add_frame(profile, "qp_psn_stale",
            maker.packet(target.path, bth(Opcode::kRcSendOnly, qp.first_psn.plus(kFarthest)), {}, payload),
            {discard(DropReason::kPsnStale), received});
  // A READ that is behind us and was never answered.
  wire::Extensions read;
  read.reth = {.address = 0x1000, .rkey = verbs::Rkey(0x1234), .length = 64};
  add_frame(profile, "qp_duplicate", maker.packet(target.path, bth(Opcode::kRcReadRequest, qp.first_psn.minus(1)), read, {}),
            {discard(DropReason::kDuplicate), {"causeway_roce_duplicate_requests_total", {}}});
  // A gap report without a report.
  add_frame(profile, "qp_unexpected", maker.packet(target.path, bth(Opcode::kRcGapReport, qp.first_psn), {}, {}),
            {discard(DropReason::kUnexpected)});
  // From another source port nothing is kept behind a gap. Its NAK is owed, and spared when the same burst brings what was due.
  wire::Path other_port = target.path;
  other_port.udp_source_port = static_cast<uint16_t>(other_port.udp_source_port ^ 1);
  add_frame(profile, "qp_out_of_sequence", maker.packet(other_port, bth(Opcode::kRcSendOnly, qp.first_psn.plus(1)), {}, payload),
            {discard(DropReason::kOutOfSequence), received, {"causeway_roce_out_of_sequence_total", {}}});
}

Profile make_malformed(const Target& target, const std::optional<QueuePairTarget>& qp) {
  Profile profile{.name = "malformed", .kinds = {}, .frames = {}, .further_pass = {}, .remarks = {}};
  add_malformed_frames(profile, target);
  add_malformed_management(profile, target);
  add_malformed_requests(profile, target);
  profile.remarks = {
      "Not here, since no single frame meets them: no_buffer (an empty pool), rate_limited, paused (while it restarts), "
      "and of causeway_cm_discards_total malformed, unbound, qpn_mismatch, duplicate (a connection under way) "
      "and the rates (see the profile requests).",
      "Answers (REJ, DREP) are rationed: in a loop faster than 750 answers per second and network, "
      "what would be answered stands under prefix_answer_rate or answer_rate of causeway_cm_discards_total instead.",
  };
  if (!qp) {
    profile.further_pass = first_pass(profile);
    return profile;
  }
  add_malformed_at_qp(profile, target, *qp);
  add_malformed_headers(profile, target, *qp);
  profile.remarks.emplace_back(
      "For one pass: the RPC-over-RDMA headers use up PSNs, and come again as duplicates. "
      "causewayd answers most of them with RDMA_ERROR, which nobody acknowledges here, "
      "so that the queue pair is given up after its retries.");
  profile.remarks.emplace_back(
      "The RPC-over-RDMA counts are those of the default [limits], inline_bytes of 2048 or more and 16 credits or more.");
  return profile;
}

}  // namespace cw::pktgen
