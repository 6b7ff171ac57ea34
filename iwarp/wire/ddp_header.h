// DDP headers (RFC 5041 4) with the RDMAP control field in the byte that DDP leaves to it.
//
//   tagged, 14 bytes:    |T|L|0000|DV| RDMAP control | STag, 4 | tagged offset, 8 |
//   untagged, 18 bytes:  |T|L|0000|DV| RDMAP control | invalidate STag, 4 | QN, 4 | MSN, 4 | MO, 4 |
//
// T: tagged. L: last segment of its message. DV is 1. The four bits between are reserved: sent as zero and ignored (siw sets
// one of them for itself). The invalidate STag is zero unless the opcode invalidates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "iwarp/wire/opcode.h"

namespace cw::iwarp {

inline constexpr uint8_t kDdpVersion = 1;
inline constexpr uint32_t kTaggedHeaderBytes = 14;
inline constexpr uint32_t kUntaggedHeaderBytes = 18;

// Untagged queues (RFC 5040 4.2). More values occur in what a peer sends.
enum class QueueNumber : uint32_t { kSend = 0, kReadRequest = 1, kTerminate = 2 };
inline constexpr uint32_t kQueueCount = 3;

// What both kinds of headers begin with.
struct SegmentControl {
  bool tagged = false;
  bool last = true;
  uint8_t ddp_version = kDdpVersion;      // 2 bits
  uint8_t rdmap_version = kRdmapVersion;  // 2 bits
  Opcode opcode = Opcode::kSend;          // 4 bits
};

struct TaggedHeader {
  SegmentControl control{.tagged = true};
  uint32_t stag = 0;
  uint64_t offset = 0;  // TO: where in the buffer that the STag names
};

struct UntaggedHeader {
  SegmentControl control;
  uint32_t invalidate_stag = 0;
  QueueNumber queue = QueueNumber::kSend;
  uint32_t message = 1;  // MSN, from 1 in each queue, modulo 2^32
  uint32_t offset = 0;   // MO: where in the message
};

[[nodiscard]] constexpr SegmentControl parse_control(uint8_t ddp, uint8_t rdmap) {
  SegmentControl control;
  control.tagged = (ddp & 0x80) != 0;
  control.last = (ddp & 0x40) != 0;
  control.ddp_version = ddp & 0x3;
  control.rdmap_version = rdmap >> 6;
  control.opcode = static_cast<Opcode>(rdmap & 0xf);
  return control;
}

// Either header, and which it is. kTruncated: fewer bytes than that header has.
struct SegmentHeader {
  SegmentControl control;
  // Tagged
  uint32_t stag = 0;
  uint64_t tagged_offset = 0;
  // Untagged
  uint32_t invalidate_stag = 0;
  uint32_t queue = 0;
  uint32_t message = 0;
  uint32_t message_offset = 0;

  [[nodiscard]] constexpr uint32_t bytes() const { return control.tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes; }
};
[[nodiscard]] Result<SegmentHeader> parse_segment_header(Bytes segment);

// Precondition: `out` has the header's size.
void write(const TaggedHeader& header, MutableBytes out);
void write(const UntaggedHeader& header, MutableBytes out);

}  // namespace cw::iwarp
