#include "iwarp/mpa/mpa_frame.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace cw::iwarp {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr size_t kKeyBytes = 16;
static_assert(kRequestKey.size() == kKeyBytes && kReplyKey.size() == kKeyBytes);

constexpr uint8_t kFlagMarkers = 0x80;
constexpr uint8_t kFlagCrc = 0x40;
constexpr uint8_t kFlagReject = 0x20;
constexpr uint8_t kFlagEnhanced = 0x10;

std::string_view key_of(MpaFrameKind kind) {
  return kind == MpaFrameKind::kRequest ? kRequestKey : kReplyKey;
}

}  // namespace

std::string_view to_string(MpaError error) noexcept {
  switch (error) {
    case MpaError::kNone:
      return "none";
    case MpaError::kKey:
      return "key";
    case MpaError::kLength:
      return "length";
    case MpaError::kRevision:
      return "revision";
    case MpaError::kMarkers:
      return "markers";
    case MpaError::kReadyToReceive:
      return "ready_to_receive";
    case MpaError::kInsufficientIrd:
      return "insufficient_ird";
    case MpaError::kEarlyData:
      return "early_data";
    case MpaError::kCount:
      break;
  }
  return "none";
}

bool could_be_mpa(Bytes begin, MpaFrameKind kind) {
  return std::memcmp(begin.data(), key_of(kind).data(), std::min(begin.size(), kKeyBytes)) == 0;
}

ParsedMpaHeader parse_mpa_header(Bytes raw, MpaFrameKind kind) {
  CW_DASSERT(raw.size() >= kMpaHeaderBytes);
  ParsedMpaHeader parsed;
  if (!could_be_mpa(raw, kind)) {
    parsed.error = MpaError::kKey;
    return parsed;
  }
  const uint8_t flags = raw[kKeyBytes];
  parsed.header = {.kind = kind,
                   .markers = (flags & kFlagMarkers) != 0,
                   .crc = (flags & kFlagCrc) != 0,
                   .reject = (flags & kFlagReject) != 0,
                   .enhanced = (flags & kFlagEnhanced) != 0,
                   .revision = raw[kKeyBytes + 1],
                   .private_data_bytes = load_be16(raw.data() + kKeyBytes + 2)};
  if (parsed.header.private_data_bytes > kMpaPrivateDataBytesMax) {
    parsed.error = MpaError::kLength;
  }
  return parsed;
}

void write(const MpaHeader& header, MutableBytes out) {
  CW_DASSERT(out.size() >= kMpaHeaderBytes && header.private_data_bytes <= kMpaPrivateDataBytesMax);
  std::memcpy(out.data(), key_of(header.kind).data(), kKeyBytes);
  out[kKeyBytes] = static_cast<uint8_t>((header.markers ? kFlagMarkers : 0) | (header.crc ? kFlagCrc : 0) |
                                        (header.reject ? kFlagReject : 0) | (header.enhanced ? kFlagEnhanced : 0));
  out[kKeyBytes + 1] = header.revision;
  store_be16(out.data() + kKeyBytes + 2, header.private_data_bytes);
}

IrdOrd parse_ird_ord(Bytes raw) {
  const uint16_t first = load_be16(raw.first(IrdOrd::kBytes).data());
  const uint16_t second = load_be16(raw.data() + 2);
  return {.peer_to_peer = (first & 0x8000) != 0,
          .send = (first & 0x4000) != 0,
          .write = (second & 0x8000) != 0,
          .read = (second & 0x4000) != 0,
          .ird = static_cast<uint16_t>(first & IrdOrd::kMax),
          .ord = static_cast<uint16_t>(second & IrdOrd::kMax)};
}

void write(const IrdOrd& word, MutableBytes out) {
  CW_DASSERT(word.ird <= IrdOrd::kMax && word.ord <= IrdOrd::kMax);
  store_be16(out.first(IrdOrd::kBytes).data(),
             static_cast<uint16_t>((word.peer_to_peer ? 0x8000 : 0) | (word.send ? 0x4000 : 0) | word.ird));
  store_be16(out.data() + 2, static_cast<uint16_t>((word.write ? 0x8000 : 0) | (word.read ? 0x4000 : 0) | word.ord));
}

}  // namespace cw::iwarp
