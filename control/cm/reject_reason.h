// Why a connection was refused: the Reason field of REJ (IBA 12.6.7.2, table 109).
#pragma once

#include <cstdint>

#include "verbs/connection.h"

namespace cw::cm {

// May hold a value outside the enumeration when it came from a peer.
enum class RejectReason : uint16_t {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,  // nobody listens: what a TCP RST to a SYN would say
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kRdcNotExist = 11,
  kInvalidGid = 12,
  kInvalidLid = 13,
  kInvalidSl = 14,
  kInvalidTrafficClass = 15,
  kInvalidHopLimit = 16,
  kInvalidPacketRate = 17,
  kInvalidAlternateGid = 18,
  kInvalidAlternateLid = 19,
  kInvalidAlternateSl = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kPortCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumerDefined = 28,  // the listener said no; its private data may say why
  kInvalidRnrRetry = 29,
  kDuplicateLocalCommId = 30,
  kInvalidClassVersion = 31,
  kInvalidFlowLabel = 32,
  kInvalidAlternateFlowLabel = 33,
  kVendorOptionNotSupported = 35,
};

// One more than the largest code: the size of an array that counts by reason. Codes from peers beyond it count under 0.
inline constexpr uint32_t kRejectReasonCount = 36;

// Lower case words joined by '_': the value of a metric label. Codes that IBA does not define are "unknown".
[[nodiscard]] const char* to_string(RejectReason reason) noexcept;
// In the words of all transports.
[[nodiscard]] verbs::Rejection rejection_of(RejectReason reason) noexcept;

}  // namespace cw::cm
