// Queue pair 1, the general service interface: unreliable datagrams that carry management datagrams (MADs) for connection
// management.
//
// Inbound: checks that a UD packet is addressed to QP1 with the well-known Q_Key, from QP1, and holds exactly one MAD; what is in
// the MAD is the connection manager's business. Outbound: wraps a MAD into a UD SEND Only. Nothing is stored: a datagram is
// answered or forgotten. QP1's Q_Key is a public constant, so nothing here authenticates anybody.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "rocev2/wire/drop_reason.h"
#include "rocev2/wire/packet_builder.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/tx_batch.h"
#include "verbs/ids.h"

namespace cw::gsi {

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kMadBytes = 256;

// A received MAD and where an answer has to go.
struct GsiDatagram {
  Bytes mad;              // exactly kMadBytes, inside the received frame: valid as long as that
  wire::Path reply_path;  // addresses as seen by us: local is ours, remote the sender's; udp_source_port is ours to choose (0)
  verbs::Qpn source_qpn;  // from the DETH
  uint16_t pkey = 0;
};

struct GsiStats {
  uint64_t datagrams_in = 0;
  uint64_t datagrams_out = 0;
  std::array<uint64_t, wire::kDropReasonCount> discards{};
};

class GsiQp {
 public:
  // `pkey`: partition of all management traffic; both membership bits are accepted.
  explicit GsiQp(uint16_t pkey = wire::kDefaultPkey) : pkey_(pkey) {}

  // One parsed packet with a verified iCRC whose destination is QP1; `port` is where it came in.
  [[nodiscard]] Result<GsiDatagram, wire::DropReason> on_packet(const wire::PacketView& view, uint16_t port);
  // Fills `packet` (from TxBatch::add) with a UD SEND Only of `mad` to `destination` (QP1 in practice). Precondition: mad.size()
  // == kMadBytes.
  void build(wire::TxPacket& packet, const wire::Path& path, verbs::Qpn destination, Bytes mad);

  [[nodiscard]] const GsiStats& stats() const { return stats_; }

 private:
  wire::DropReason count(wire::DropReason reason);

  GsiStats stats_;
  wire::Psn next_psn_;
  uint16_t pkey_;
  uint16_t ip_identification_ = 0;
};

}  // namespace cw::gsi
