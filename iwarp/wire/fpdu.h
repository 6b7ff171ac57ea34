// MPA framing without markers (RFC 5044 4): how DDP segments lie in the TCP stream.
//
//   +-----------------+----------------------------+-----------+-----------+
//   | ULPDU length, 2 | ULPDU: one DDP segment     | pad, 0..3 |  CRC, 4   |
//   +-----------------+----------------------------+-----------+-----------+
//
// The pad makes the whole a multiple of four bytes. The CRC-32C covers everything before it, and travels least significant byte
// first. Its four bytes are always there; when the connection goes without a CRC they are zero and nobody looks at them.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace cw::iwarp {

inline constexpr uint32_t kFpduLengthBytes = 2;
inline constexpr uint32_t kFpduCrcBytes = 4;
inline constexpr uint32_t kUlpduBytesMax = 0xffff;

[[nodiscard]] constexpr uint32_t fpdu_pad_bytes(uint32_t ulpdu_bytes) {
  return (0u - (kFpduLengthBytes + ulpdu_bytes)) & 3;
}
[[nodiscard]] constexpr uint32_t fpdu_bytes(uint32_t ulpdu_bytes) {
  return kFpduLengthBytes + ulpdu_bytes + fpdu_pad_bytes(ulpdu_bytes) + kFpduCrcBytes;
}
// The longest ULPDU whose FPDU takes at most `bytes`, as one TCP segment (RFC 5044 4.5); at most kUlpduBytesMax.
[[nodiscard]] constexpr uint32_t ulpdu_bytes_max(uint32_t bytes) {
  const uint32_t whole_words = bytes & ~3u;
  if (whole_words <= kFpduLengthBytes + kFpduCrcBytes) {
    return 0;
  }
  const uint32_t fits = whole_words - kFpduLengthBytes - kFpduCrcBytes;
  return fits < kUlpduBytesMax ? fits : kUlpduBytesMax;
}

[[nodiscard]] inline uint32_t load_fpdu_crc(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}
inline void store_fpdu_crc(uint8_t* p, uint32_t crc) {
  p[0] = static_cast<uint8_t>(crc);
  p[1] = static_cast<uint8_t>(crc >> 8);
  p[2] = static_cast<uint8_t>(crc >> 16);
  p[3] = static_cast<uint8_t>(crc >> 24);
}

}  // namespace cw::iwarp
