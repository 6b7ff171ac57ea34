#include "iwarp/wire/terminate.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace cw::iwarp {
namespace {

constexpr uint8_t kM = 0x80;
constexpr uint8_t kD = 0x40;
constexpr uint8_t kR = 0x20;

// siw's order of the bits of HdrCt, and of the two halves of the first byte.
constexpr uint8_t kSiwM = 0x01;
constexpr uint8_t kSiwD = 0x02;
constexpr uint8_t kSiwR = 0x04;

struct Control {
  uint8_t layer_and_type = 0;
  uint8_t code = 0;
  bool has_length = false;
  bool has_ddp_header = false;
  bool has_read_header = false;
};

Control parse_control_word(const uint8_t* p) {
  const uint8_t flags = p[2];
  // The bits that one form uses are reserved, hence zero, in the other. siw sends none of them with an error of MPA, as of a CRC:
  // codes 1 to 4 would be of a remote operation otherwise, which has none below 5. Else the RFC's form is meant.
  const bool is_siws_mpa = p[0] == 0x02 && p[1] >= 1 && p[1] <= 4;
  if ((flags & 0xe0) == 0 && ((flags & 0x07) != 0 || is_siws_mpa)) {
    return {.layer_and_type = static_cast<uint8_t>(p[0] << 4 | p[0] >> 4),
            .code = p[1],
            .has_length = (flags & kSiwM) != 0,
            .has_ddp_header = (flags & kSiwD) != 0,
            .has_read_header = (flags & kSiwR) != 0};
  }
  return {.layer_and_type = p[0],
          .code = p[1],
          .has_length = (flags & kM) != 0,
          .has_ddp_header = (flags & kD) != 0,
          .has_read_header = (flags & kR) != 0};
}

}  // namespace

std::string_view to_string(TerminateCause cause) noexcept {
  switch (cause) {
    case TerminateCause::kRdmapLocalCatastrophic:
      return "rdmap_local_catastrophic";
    case TerminateCause::kProtectionInvalidStag:
      return "protection_invalid_stag";
    case TerminateCause::kProtectionBounds:
      return "protection_bounds";
    case TerminateCause::kProtectionAccess:
      return "protection_access";
    case TerminateCause::kProtectionOtherStream:
      return "protection_other_stream";
    case TerminateCause::kProtectionWrap:
      return "protection_wrap";
    case TerminateCause::kProtectionNotInvalidated:
      return "protection_not_invalidated";
    case TerminateCause::kProtectionUnspecified:
      return "protection_unspecified";
    case TerminateCause::kOperationVersion:
      return "operation_version";
    case TerminateCause::kOperationOpcode:
      return "operation_opcode";
    case TerminateCause::kOperationCatastrophicStream:
      return "operation_catastrophic_stream";
    case TerminateCause::kOperationCatastrophicGlobal:
      return "operation_catastrophic_global";
    case TerminateCause::kOperationNotInvalidated:
      return "operation_not_invalidated";
    case TerminateCause::kOperationUnspecified:
      return "operation_unspecified";
    case TerminateCause::kDdpLocalCatastrophic:
      return "ddp_local_catastrophic";
    case TerminateCause::kTaggedInvalidStag:
      return "tagged_invalid_stag";
    case TerminateCause::kTaggedBounds:
      return "tagged_bounds";
    case TerminateCause::kTaggedOtherStream:
      return "tagged_other_stream";
    case TerminateCause::kTaggedWrap:
      return "tagged_wrap";
    case TerminateCause::kTaggedVersion:
      return "tagged_version";
    case TerminateCause::kUntaggedQueue:
      return "untagged_queue";
    case TerminateCause::kUntaggedNoBuffer:
      return "untagged_no_buffer";
    case TerminateCause::kUntaggedMessage:
      return "untagged_message";
    case TerminateCause::kUntaggedOffset:
      return "untagged_offset";
    case TerminateCause::kUntaggedTooLong:
      return "untagged_too_long";
    case TerminateCause::kUntaggedVersion:
      return "untagged_version";
    case TerminateCause::kMpaClosed:
      return "mpa_closed";
    case TerminateCause::kMpaCrc:
      return "mpa_crc";
    case TerminateCause::kMpaLength:
      return "mpa_length";
    case TerminateCause::kMpaFrame:
      return "mpa_frame";
    case TerminateCause::kMpaLocalCatastrophic:
      return "mpa_local_catastrophic";
    case TerminateCause::kMpaInsufficientIrd:
      return "mpa_insufficient_ird";
    case TerminateCause::kMpaNoReadyToReceive:
      return "mpa_no_ready_to_receive";
    case TerminateCause::kNone:
      return "none";
  }
  return "other";
}

uint32_t index_of(TerminateCause cause) noexcept {
  return static_cast<uint32_t>(std::ranges::find(kTerminateCauses, cause) - kTerminateCauses.begin());
}

uint32_t write(const TerminateMessage& message, MutableBytes out) {
  CW_DASSERT(out.size() >= kTerminateBytesMax);
  CW_DASSERT(message.ddp_header.size() <= kUntaggedHeaderBytes && message.read_header.size() <= kReadRequestBytes);
  store_be16(out.data(), static_cast<uint16_t>(message.cause));
  const bool has_ddp_header = !message.ddp_header.empty();
  const bool has_read_header = !message.read_header.empty();
  out[2] = static_cast<uint8_t>((has_ddp_header ? kM | kD : 0) | (has_read_header ? kR : 0));
  out[3] = 0;
  uint32_t at = kTerminateControlBytes;
  if (has_ddp_header) {
    store_be16(out.data() + at, message.segment_bytes);
    at += 2;
    std::memcpy(out.data() + at, message.ddp_header.data(), message.ddp_header.size());
    at += static_cast<uint32_t>(message.ddp_header.size());
  }
  if (has_read_header) {
    std::memcpy(out.data() + at, message.read_header.data(), message.read_header.size());
    at += static_cast<uint32_t>(message.read_header.size());
  }
  return at;
}

TerminateMessage parse_terminate(Bytes raw) {
  TerminateMessage message;
  if (raw.size() < kTerminateControlBytes) {
    return message;
  }
  const Control control = parse_control_word(raw.data());
  message.cause = static_cast<TerminateCause>(control.layer_and_type << 8 | control.code);
  raw = raw.subspan(kTerminateControlBytes);
  // RFC 5040 4.8: with D the length's place is there, valid or not.
  if (control.has_length || control.has_ddp_header) {
    if (raw.size() < 2) {
      return message;
    }
    message.segment_bytes = control.has_length ? load_be16(raw.data()) : uint16_t{0};
    raw = raw.subspan(2);
  }
  if (control.has_ddp_header) {
    const auto header = parse_segment_header(raw);
    if (!header.ok()) {
      return message;
    }
    message.ddp_header = raw.first(header->bytes());
    raw = raw.subspan(header->bytes());
  }
  if (control.has_read_header && raw.size() >= kReadRequestBytes) {
    message.read_header = raw.first(kReadRequestBytes);
  }
  return message;
}

}  // namespace cw::iwarp
