// Why a queue pair is in Error: said once, where it was decided, with the PSN and who is to blame. "Retry exceeded" without a
// peer, a PSN and a cause is the most common complaint in the field.
#pragma once

#include <cstdint>

#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

enum class QpErrorCause : uint8_t {
  kNone,    // not in Error
  kClosed,  // our owner closed it
  // Our requester gave up
  kRetryExceeded,     // no answer, or only sequence NAKs, retry_count times
  kRnrRetryExceeded,  // the peer had no receive posted, rnr_retry times
  kPeerSilent,        // idle, and none of retry_count + 1 keep-alives was answered
  kBadResponse,       // a READ response did not fit its request
  // The peer refused a request of ours
  kNakInvalidRequest,
  kNakRemoteAccess,
  kNakRemoteOperation,
  // We refused a request of the peer
  kOpcodeSequence,       // first/middle/last in a wrong order
  kOperationNotAllowed,  // READ, WRITE, atomic: not enabled on this queue pair
  kPacketLength,         // payload length does not fit its place in the message
  kMessageTooLong,       // SEND longer than receive_bytes_max, or READ longer than 2^31
  kWriteLength,          // WRITE carried more or less than it announced
  kMemoryAccess,         // rkey, domain, bounds or permission
  kMisalignedAtomic,     // address of an atomic is not a multiple of 8
  kMemoryGone,           // a region was withdrawn while a READ of it was being answered
};
[[nodiscard]] const char* to_string(QpErrorCause cause) noexcept;

enum class QpErrorOrigin : uint8_t {
  kNone,
  kOwner,      // we closed
  kRequester,  // while sending our requests
  kResponder,  // while executing the peer's
};
[[nodiscard]] const char* to_string(QpErrorOrigin origin) noexcept;

struct QpError {
  QpErrorCause cause = QpErrorCause::kNone;
  QpErrorOrigin origin = QpErrorOrigin::kNone;
  wire::Psn psn;                                       // of the packet that decided it, or the oldest unacknowledged
  wire::Opcode opcode = wire::Opcode::kRcAcknowledge;  // of that packet, when origin is kResponder or a response decided it
  friend bool operator==(const QpError&, const QpError&) = default;
};

}  // namespace cw::rc
