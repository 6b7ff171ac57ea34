// Why a received frame was not acted upon: each discarded frame counts under exactly one of these, and each is a value of the
// label `reason` of causeway_roce_discards_total. A fixed, closed list.
#pragma once

#include <cstdint>

namespace cw::wire {

enum class DropReason : uint8_t {
  // Frame (PacketView::parse)
  kRunt,              // shorter than its headers say
  kNotRoce,           // not UDP 4791 over IPv4 or IPv6 for us
  kIpHeader,          // IP version, header length, options, extension headers or lengths wrong
  kFragment,          // IP fragments are never reassembled
  kUdpLength,         // UDP length does not agree with IP
  kTransportVersion,  // BTH TVer is not 0
  kOpcode,            // reserved opcode
  kPadCount,          // padding longer than what is left, or on a packet without payload
  kMulticast,         // link or IP destination is not one station
  // Content
  kIcrc,  // invariant CRC wrong
  kPkey,  // P_Key is not ours
  // Queue pair
  kUnknownQp,      // no such QPN, or not in a state that receives
  kPathMismatch,   // port, VLAN or addresses are not those of the connection
  kPsnStale,       // outside the PSN window: neither expected, nor a duplicate, nor a plausible gap
  kDuplicate,      // an acknowledgement or response that changes nothing
  kOutOfSequence,  // a gap for which the NAK is already out, or data after it
  kUnexpected,     // response or acknowledgement that was not asked for
  kQkey,           // datagram with a wrong Q_Key
  kNotDatagram,    // datagram opcode for a connected QP, or the reverse
  kMalformedMad,   // QP1 payload that is not a management datagram of ours
  // Limits
  kNoBuffer,     // pool empty
  kRateLimited,  // CM request budget
  kPaused,       // message for the process that follows this one: its sender is told there to send it again
  kCount,
};

inline constexpr uint32_t kDropReasonCount = static_cast<uint32_t>(DropReason::kCount);

// The label value: lower case, words joined by '_'.
[[nodiscard]] const char* to_string(DropReason reason) noexcept;

}  // namespace cw::wire
