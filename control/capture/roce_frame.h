// Where things lie in a captured frame, and how much of it may be shown. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "control/config/ip_text.h"

namespace cw::control::capture {

struct RoceFrame {
  IpAddress source;
  IpAddress destination;
  uint32_t destination_qpn = 0;
  uint8_t opcode = 0;
  uint32_t extensions_at = 0;  // end of the BTH
  uint32_t payload_at = 0;
};

// Nothing when it is no RoCEv2 frame, or is cut before the end of its BTH.
[[nodiscard]] std::optional<RoceFrame> locate_roce(Bytes frame);

// Takes out what must not leave the gateway: R_Keys of RETH and IETH become 0, and what is behind the headers is cut, but for the
// first words of an RPC-over-RDMA message (XID, version, credits, procedure; no chunk, so no handle) and for the datagrams of the
// connection manager. Of other frames ARP and neighbour discovery are left whole, IP ends 8 bytes behind its header (ports, ICMP
// type), and anything else ends with the Ethernet header. Returns how many bytes are left.
[[nodiscard]] uint32_t redact(MutableBytes frame);

// Which frames are wanted. `received`: by the gateway.
struct FrameFilter {
  std::optional<IpPrefix> client;  // of the other end
  std::optional<uint32_t> local_qpn;
  uint32_t remote_qpn = 0;  // with local_qpn: where the frames go that it sends
  [[nodiscard]] bool wants_all() const { return !client && !local_qpn; }
  [[nodiscard]] bool wants(Bytes frame, bool received) const;
};

}  // namespace cw::control::capture
