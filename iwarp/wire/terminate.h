// The Terminate message (RFC 5040 4.8): the last one of a stream, which says what its sender found wrong.
//
//   | layer 4 | type 4 | code 8 | M D R | 0, 13 bits |   Terminate Control
//   | DDP segment length, 2 |   if M or D: of the segment that was found wrong, its header included
//   | DDP header, 14 or 18  |   if D: of that segment
//   | RDMAP header, 28      |   if R: of a Read Request
//
// Linux's siw (6.1 to 6.12) lays the bit fields out from the low end: layer in the low four bits, M D R in the low three. Both
// forms are read; ours is the RFC's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "iwarp/wire/ddp_header.h"
#include "iwarp/wire/read_request.h"

namespace cw::iwarp {

// Layer, type and code in 4, 4 and 8 bits. More values occur in what a peer sends.
enum class TerminateCause : uint16_t {
  kRdmapLocalCatastrophic = 0x0000,
  // RDMAP, remote protection (RFC 5040 4.8)
  kProtectionInvalidStag = 0x0100,
  kProtectionBounds = 0x0101,
  kProtectionAccess = 0x0102,
  kProtectionOtherStream = 0x0103,
  kProtectionWrap = 0x0104,
  kProtectionNotInvalidated = 0x0109,
  kProtectionUnspecified = 0x01ff,
  // RDMAP, remote operation
  kOperationVersion = 0x0205,
  kOperationOpcode = 0x0206,
  kOperationCatastrophicStream = 0x0207,
  kOperationCatastrophicGlobal = 0x0208,
  kOperationNotInvalidated = 0x0209,
  kOperationUnspecified = 0x02ff,
  // DDP (RFC 5041 8)
  kDdpLocalCatastrophic = 0x1000,
  kTaggedInvalidStag = 0x1100,
  kTaggedBounds = 0x1101,
  kTaggedOtherStream = 0x1102,
  kTaggedWrap = 0x1103,
  kTaggedVersion = 0x1104,
  kUntaggedQueue = 0x1201,
  kUntaggedNoBuffer = 0x1202,
  kUntaggedMessage = 0x1203,
  kUntaggedOffset = 0x1204,
  kUntaggedTooLong = 0x1205,
  kUntaggedVersion = 0x1206,
  // MPA (RFC 5044 8, RFC 6581 8)
  kMpaClosed = 0x2001,
  kMpaCrc = 0x2002,
  kMpaLength = 0x2003,
  kMpaFrame = 0x2004,
  kMpaLocalCatastrophic = 0x2005,
  kMpaInsufficientIrd = 0x2006,
  kMpaNoReadyToReceive = 0x2007,
  kNone = 0xffff,  // there was no Terminate
};
// All of the above but kNone, in that order.
inline constexpr std::array kTerminateCauses = {TerminateCause::kRdmapLocalCatastrophic,
                                                TerminateCause::kProtectionInvalidStag,
                                                TerminateCause::kProtectionBounds,
                                                TerminateCause::kProtectionAccess,
                                                TerminateCause::kProtectionOtherStream,
                                                TerminateCause::kProtectionWrap,
                                                TerminateCause::kProtectionNotInvalidated,
                                                TerminateCause::kProtectionUnspecified,
                                                TerminateCause::kOperationVersion,
                                                TerminateCause::kOperationOpcode,
                                                TerminateCause::kOperationCatastrophicStream,
                                                TerminateCause::kOperationCatastrophicGlobal,
                                                TerminateCause::kOperationNotInvalidated,
                                                TerminateCause::kOperationUnspecified,
                                                TerminateCause::kDdpLocalCatastrophic,
                                                TerminateCause::kTaggedInvalidStag,
                                                TerminateCause::kTaggedBounds,
                                                TerminateCause::kTaggedOtherStream,
                                                TerminateCause::kTaggedWrap,
                                                TerminateCause::kTaggedVersion,
                                                TerminateCause::kUntaggedQueue,
                                                TerminateCause::kUntaggedNoBuffer,
                                                TerminateCause::kUntaggedMessage,
                                                TerminateCause::kUntaggedOffset,
                                                TerminateCause::kUntaggedTooLong,
                                                TerminateCause::kUntaggedVersion,
                                                TerminateCause::kMpaClosed,
                                                TerminateCause::kMpaCrc,
                                                TerminateCause::kMpaLength,
                                                TerminateCause::kMpaFrame,
                                                TerminateCause::kMpaLocalCatastrophic,
                                                TerminateCause::kMpaInsufficientIrd,
                                                TerminateCause::kMpaNoReadyToReceive};
// For counters: the place in kTerminateCauses, or the one behind it for any other value.
inline constexpr uint32_t kTerminateCauseCount = kTerminateCauses.size() + 1;
[[nodiscard]] uint32_t index_of(TerminateCause cause) noexcept;
// A metric label's word; of a value outside the enumeration "other".
[[nodiscard]] std::string_view to_string(TerminateCause cause) noexcept;

inline constexpr uint32_t kTerminateControlBytes = 4;
inline constexpr uint32_t kTerminateBytesMax = kTerminateControlBytes + 2 + kUntaggedHeaderBytes + kReadRequestBytes;

struct TerminateMessage {
  TerminateCause cause = TerminateCause::kNone;
  // M and D: of the segment that was found wrong. Without a header the length is not sent either.
  uint16_t segment_bytes = 0;
  Bytes ddp_header;   // kTaggedHeaderBytes, kUntaggedHeaderBytes, or none
  Bytes read_header;  // R: kReadRequestBytes, or none
};

// Returns how many bytes it took. Precondition: `out` has kTerminateBytesMax.
[[nodiscard]] uint32_t write(const TerminateMessage& message, MutableBytes out);
// As much as is there: what is cut short is left out. kNone: not even a Terminate Control. The views are of `raw`.
[[nodiscard]] TerminateMessage parse_terminate(Bytes raw);

}  // namespace cw::iwarp
