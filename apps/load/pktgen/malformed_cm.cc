// Datagrams to QP1 and messages of connection management that are refused.
#include "apps/load/pktgen/malformed.h"
#include "apps/load/pktgen/packets.h"
#include "apps/load/pktgen/requests.h"
#include "control/cm/cm_stats.h"
#include "control/cm/reject_reason.h"
#include "control/cm/wire/apr.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/rtu.h"
#include "rocev2/wire/drop_reason.h"

namespace cw::pktgen {
namespace {

using cm::CmDrop;
using cm::MessageType;
using cm::RejectReason;
using wire::DropReason;

// Of a connection that nobody has.
constexpr uint32_t kCommId = 0x0bad'c0de;
constexpr uint64_t kTransactionId = 0x0bad'0000'0000'0000ULL;
constexpr uint32_t kQpn = 0x0bad;

Count roce_discard(DropReason reason) {
  return {"causeway_roce_discards_total", {{"reason", to_string(reason)}}};
}
Count cm_discard(CmDrop reason) {
  return {"causeway_cm_discards_total", {{"reason", to_string(reason)}}};
}
Count message(const char* direction, MessageType type) {
  return {"causeway_cm_messages_total", {{"direction", direction}, {"type", to_string(type)}}};
}

cm::Mad bent(cm::Mad mad, const cm::MadHeader& header) {
  header.write(std::span<uint8_t, cm::kMadSize>(mad).first<cm::kMadHeaderSize>());
  return mad;
}

}  // namespace

void add_malformed_management(Profile& profile, const Target& target) {
  PacketMaker maker;
  const wire::Path& path = target.path;
  const cm::Mad good = mad_of(kTransactionId, request_from(target, kCommId, verbs::Qpn(kQpn), wire::Psn(1)));
  const auto bth = PacketMaker::datagram_bth();
  const auto extensions = PacketMaker::datagram_extensions();

  wire::Bth other = bth;
  other.pkey = 0x8123;
  add_frame(profile, "qp1_pkey", maker.packet(path, other, extensions, good), {roce_discard(DropReason::kPkey)});
  wire::Extensions other_key = extensions;
  other_key.deth.qkey ^= 1;
  add_frame(profile, "qp1_qkey", maker.packet(path, bth, other_key, good), {roce_discard(DropReason::kQkey)});
  other = bth;
  other.opcode = wire::Opcode::kRcSendOnly;
  add_frame(profile, "qp1_not_datagram", maker.packet(path, other, {}, good), {roce_discard(DropReason::kNotDatagram)});
  add_frame(profile, "qp1_malformed_mad", maker.datagram(path, Bytes(good).first(good.size() - 4)),
            {roce_discard(DropReason::kMalformedMad)});
  wire::Path elsewhere = path;
  elsewhere.remote.raw[15] ^= 0x40;
  add_frame(profile, "qp1_path_mismatch", maker.datagram(elsewhere, good), {roce_discard(DropReason::kPathMismatch)});

  const auto with_header = [&](const char* kind, CmDrop drop, auto&& change) {
    cm::MadHeader header;
    header.transaction_id = kTransactionId;
    header.attribute_id = cm::attribute_id_of(MessageType::kReq);
    change(header);
    add_frame(profile, kind, maker.datagram(path, bent(good, header)), {cm_discard(drop)});
  };
  with_header("cm_header", CmDrop::kHeader, [](cm::MadHeader& header) { header.management_class = 3; });
  with_header("cm_class_version", CmDrop::kClassVersion, [](cm::MadHeader& header) { header.class_version = 1; });
  with_header("cm_attribute", CmDrop::kAttribute, [](cm::MadHeader& header) { header.attribute_id = 1; });

  wire::Path nobody = path;
  nobody.local = path.local.is_v4() ? IpAddress::v4(0) : IpAddress{};
  add_frame(profile, "cm_source", maker.datagram(nobody, good), {cm_discard(CmDrop::kSource)});

  const cm::Rtu rtu{.local_comm_id = kCommId, .remote_comm_id = kCommId};
  add_frame(profile, "cm_unknown", maker.datagram(path, mad_of(kTransactionId, rtu)),
            {message("rx", MessageType::kRtu), cm_discard(CmDrop::kUnknown)});
  const cm::Dreq dreq{.local_comm_id = kCommId, .remote_comm_id = kCommId, .remote_qpn = verbs::Qpn(kQpn)};
  add_frame(profile, "cm_unknown_dreq", maker.datagram(path, mad_of(kTransactionId, dreq)),
            {message("rx", MessageType::kDreq), cm_discard(CmDrop::kUnknown), message("tx", MessageType::kDrep)});
  const cm::Apr apr{.local_comm_id = kCommId, .remote_comm_id = kCommId};
  add_frame(profile, "cm_out_of_state", maker.datagram(path, mad_of(kTransactionId, apr)),
            {message("rx", MessageType::kApr), cm_discard(CmDrop::kOutOfState)});
}

void add_malformed_requests(Profile& profile, const Target& target) {
  PacketMaker maker;
  uint32_t comm_id = kCommId;
  const auto refused = [&](const char* kind, RejectReason reason, auto&& change) {
    cm::Req req = request_from(target, ++comm_id, verbs::Qpn(kQpn), wire::Psn(1));
    change(req);
    add_frame(profile, kind, maker.datagram(target.path, mad_of(kTransactionId | comm_id, req)),
              {message("rx", MessageType::kReq),
               message("tx", MessageType::kRej),
               {"causeway_cm_rejects_total", {{"direction", "tx"}, {"reason", to_string(reason)}}}});
  };
  refused("req_service", RejectReason::kInvalidServiceId, [](cm::Req& req) { req.service = cm::ServiceId(~uint64_t{0}); });
  refused("req_transport", RejectReason::kInvalidTransportType,
          [](cm::Req& req) { req.transport = cm::TransportService::kUnreliableConnected; });
  refused("req_gid", RejectReason::kInvalidGid, [](cm::Req& req) { req.primary.local_gid.raw[15] ^= 0x40; });
  refused("req_path_mtu", RejectReason::kInvalidMtu, [](cm::Req& req) { req.path_mtu = static_cast<cm::PathMtu>(0); });
  refused("req_pkey", RejectReason::kUnsupported, [](cm::Req& req) { req.pkey = 0x8123; });
  refused("req_ip_cm", RejectReason::kConsumerDefined, [](cm::Req& req) { req.private_data[0] = 0xf0; });
}

}  // namespace cw::pktgen
