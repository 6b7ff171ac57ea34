#include "rocev2/gsi/gsi_qp.h"

#include "base/assert.h"

namespace cw::gsi {
namespace {

using wire::DropReason;

constexpr uint16_t kPkeyMask = 0x7fff;  // without the membership bit

wire::Path reply_path(const wire::PacketView& view, uint16_t port) {
  wire::Path path;
  path.local_mac = view.destination_mac();
  path.remote_mac = view.source_mac();
  path.local = view.destination();
  path.remote = view.source();
  path.vlan = view.vlan;
  path.port = port;
  return path;
}

}  // namespace

Result<GsiDatagram, DropReason> GsiQp::on_packet(const wire::PacketView& view, uint16_t port) {
  if (view.traits->kind != wire::OpcodeKind::kDatagram) {
    return fail(count(DropReason::kNotDatagram));
  }
  if (view.bth.destination.value() != kGsiQpn) {
    return fail(count(DropReason::kUnknownQp));
  }
  if (((view.bth.pkey ^ pkey_) & kPkeyMask) != 0) {
    return fail(count(DropReason::kPkey));
  }
  const wire::Deth deth = view.deth();
  if (deth.qkey != wire::kGsiQkey) {
    return fail(count(DropReason::kQkey));
  }
  // Immediate data have no meaning here, and management comes from QP1 (IBA 13.5.1).
  const bool plain_send = view.traits->immdt == wire::OpcodeTraits::kAbsent;
  if (!plain_send || deth.source.value() != kGsiQpn || view.payload.size() != kMadBytes) {
    return fail(count(DropReason::kMalformedMad));
  }
  ++stats_.datagrams_in;
  GsiDatagram datagram{};
  datagram.mad = view.payload;
  datagram.reply_path = reply_path(view, port);
  datagram.source_qpn = deth.source;
  datagram.pkey = view.bth.pkey;
  return datagram;
}

void GsiQp::build(wire::TxPacket& packet, const wire::Path& path, verbs::Qpn destination, Bytes mad) {
  CW_ASSERT(mad.size() == kMadBytes);
  wire::Bth bth;
  bth.opcode = wire::Opcode::kUdSendOnly;
  bth.pkey = pkey_;
  bth.destination = destination;
  bth.ack_request = true;  // means nothing to a datagram, but every peer seen sets it
  bth.psn = next_psn_;
  next_psn_ = next_psn_.next();
  wire::Extensions extensions;
  extensions.deth.qkey = wire::kGsiQkey;
  extensions.deth.source = verbs::Qpn(kGsiQpn);
  wire::build_packet(packet, wire::PathHeader(path), ip_identification_++, bth, extensions, mad);
  ++stats_.datagrams_out;
}

DropReason GsiQp::count(DropReason reason) {
  ++stats_.discards[static_cast<size_t>(reason)];
  return reason;
}

}  // namespace cw::gsi
