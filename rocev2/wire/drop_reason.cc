#include "rocev2/wire/drop_reason.h"

namespace cw::wire {

const char* to_string(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::kRunt:
      return "runt";
    case DropReason::kNotRoce:
      return "not_roce";
    case DropReason::kIpHeader:
      return "ip_header";
    case DropReason::kFragment:
      return "fragment";
    case DropReason::kUdpLength:
      return "udp_length";
    case DropReason::kTransportVersion:
      return "transport_version";
    case DropReason::kOpcode:
      return "opcode";
    case DropReason::kPadCount:
      return "pad_count";
    case DropReason::kMulticast:
      return "multicast";
    case DropReason::kIcrc:
      return "icrc";
    case DropReason::kPkey:
      return "pkey";
    case DropReason::kUnknownQp:
      return "unknown_qp";
    case DropReason::kPathMismatch:
      return "path_mismatch";
    case DropReason::kPsnStale:
      return "psn_stale";
    case DropReason::kDuplicate:
      return "duplicate";
    case DropReason::kOutOfSequence:
      return "out_of_sequence";
    case DropReason::kUnexpected:
      return "unexpected";
    case DropReason::kQkey:
      return "qkey";
    case DropReason::kNotDatagram:
      return "not_datagram";
    case DropReason::kMalformedMad:
      return "malformed_mad";
    case DropReason::kNoBuffer:
      return "no_buffer";
    case DropReason::kRateLimited:
      return "rate_limited";
    case DropReason::kPaused:
      return "paused";
    case DropReason::kCount:
      break;
  }
  return "unknown";
}

}  // namespace cw::wire
