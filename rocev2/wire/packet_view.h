// A received frame with every RoCEv2 header found and every length proved. After parse() no accessor can read out of bounds.
//
// parse() proves: Ethernet II with at most one 802.1Q tag; IPv4 with a right header checksum, without options and not a fragment,
// or IPv6 without extension headers and without IPv4-mapped addresses; IP and UDP lengths that agree with each other and fit the
// frame (trailing Ethernet padding is allowed and cut off); UDP destination port 4791; both destinations one station;
// transport version 0; a known opcode; room for BTH, its extension headers, padding and iCRC. It does not check the iCRC
// (verify_icrc does), nor the UDP checksum (the iCRC covers the same bytes), nor anything that needs a queue pair; whether
// an opcode without payload came with one is the queue pair's to judge (traits->may_carry_payload).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "rocev2/wire/aeth.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/drop_reason.h"
#include "rocev2/wire/ieth.h"
#include "rocev2/wire/immdt.h"
#include "rocev2/wire/mac_address.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/reth.h"
#include "rocev2/wire/udp.h"

namespace cw::wire {

struct PacketView {
  Bytes frame;                 // whole frame, Ethernet padding cut off
  const OpcodeTraits* traits;  // of bth.opcode; never reserved after parse()
  Bth bth;
  uint16_t vlan = 0;         // VLAN id, 0 when untagged
  uint16_t source_port = 0;  // UDP
  uint8_t ecn = 0;           // 2 bits of TOS / traffic class
  uint8_t ttl = 0;
  uint16_t ip_offset = 0;  // of the IP header in frame
  uint16_t bth_offset = 0;
  Bytes payload;  // behind the extension headers, padding and iCRC removed

  [[nodiscard]] static Result<PacketView, DropReason> parse(Bytes frame);

  // Addresses are read from the frame by whoever wants them: a packet of a queue pair is only compared with its path.
  [[nodiscard]] MacAddress source_mac() const;
  [[nodiscard]] MacAddress destination_mac() const;
  [[nodiscard]] IpAddress source() const;  // IPv4 or IPv6
  [[nodiscard]] IpAddress destination() const;
  // The network was congested on the way (RFC 3168: CE).
  [[nodiscard]] bool is_marked() const { return ecn == 3; }
  [[nodiscard]] bool is_ipv6() const { return frame[ip_offset] >> 4 == 6; }

  // Extension headers. Precondition: traits says the opcode carries it.
  [[nodiscard]] Reth reth() const;
  [[nodiscard]] Aeth aeth() const;
  [[nodiscard]] AtomicEth atomic_eth() const;
  [[nodiscard]] AtomicAckEth atomic_ack_eth() const;
  [[nodiscard]] uint32_t immediate() const;
  [[nodiscard]] verbs::Rkey invalidate_rkey() const;
  [[nodiscard]] Deth deth() const;
};

// The queue pair that a frame seems to be for. Proves nothing: for hints to the cache. Nothing when it does not look like RoCE.
[[nodiscard]] std::optional<verbs::Qpn> peek_destination(Bytes frame);

// True when the frame's last four bytes are the right invariant CRC.
[[nodiscard]] bool verify_icrc(const PacketView& view);

}  // namespace cw::wire
