// What two Causeways tell each other over RoCEv2 beside RPC-over-RDMA, in the private data of the connection. The transport says
// and reads it; its user knows nothing of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "rpcrdma/wire/private_data.h"

namespace cw::node {

// What Causeway adds behind the RFC 8797 message: what it offers to another Causeway. Everybody else ignores bytes behind the
// message (CMPD-6-2; Linux looks at nothing but the message).
//
//    0                   1                   2                   3
//   +---------------------------------------------------------------+
//   |                     Identifier  0x43577931                    |
//   +---------------+-------------+-+-------------------------------+
//   |   Version 1   |  reserved   |S|         Hold Packets          |
//   +---------------+-------------+-+-------------------------------+
//
// S: selective recovery of lost packets, with gap reports (rocev2/wire/gap_report.h); Hold Packets: how many behind a gap the
// sender keeps. It is in force when both sides said S, from the first packet on; a server says it only to a client that did. A
// version that we do not know counts as no offer.
//
// The identifier is our own choice and is not registered. RFC 8797 wants a registered one (CMPD-6-3, CMPD-8-2). Nothing stops
// others from using the same number behind their message: only the version, S and the place tell the two apart. A client that
// does not offer it never sees it; roce.selective_recovery = false keeps it off the wire.
//
// False identification (CMPD-7-6, CMPD-8.1-1): the identifier is read directly behind an RFC 8797 message only. It cannot occur
// inside such a message, and no such message can be found inside an offer. A peer whose private data looks like an offer by
// accident gets gap reports that it does not understand, so its losses cost it time; that harms its own connection alone. The
// offer carries no payload and no secret. Who can change it can also change the RFC 8797 message and the PSNs.
struct CausewayOffer {
  static constexpr size_t kSize = 8;
  static constexpr uint32_t kIdentifier = 0x4357'7931;
  static constexpr uint8_t kVersion = 1;

  uint16_t hold_packets = 0;  // 0: no selective recovery

  // The offer behind the message of of_peer(), if there is one; else one of nothing.
  [[nodiscard]] static constexpr CausewayOffer of_peer(Bytes private_data) {
    CausewayOffer offer;
    if (private_data.size() < rpcrdma::PrivateData::kSize || !rpcrdma::PrivateData::parse(private_data).ok()) {
      return offer;
    }
    const auto reader = FixedReader<kSize>::from(private_data.subspan(rpcrdma::PrivateData::kSize));
    if (reader && reader->be32<0>() == kIdentifier && reader->u8<4>() == kVersion && (reader->u8<5>() & 1) != 0) {
      offer.hold_packets = reader->be16<6>();
    }
    return offer;
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(kIdentifier);
    writer.u8<4>(kVersion);
    writer.u8<5>(hold_packets > 0 ? 1 : 0);
    writer.be16<6>(hold_packets);
  }
  friend constexpr bool operator==(const CausewayOffer&, const CausewayOffer&) = default;
};

// What a user says, with the offer behind it. An offer of nothing is not sent, and nothing is sent behind what is no RFC 8797
// message: a peer of another protocol sees no byte that its user does not know.
class ExtendedPrivateData {
 public:
  // `message` outlives it.
  ExtendedPrivateData(Bytes message, const CausewayOffer& offer);
  [[nodiscard]] Bytes bytes() const { return extends_ ? Bytes(raw_) : message_; }

 private:
  Bytes message_;
  bool extends_ = false;
  std::array<uint8_t, rpcrdma::PrivateData::kSize + CausewayOffer::kSize> raw_{};
};

}  // namespace cw::node
