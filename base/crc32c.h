// CRC-32C (Castagnoli, reflected), the CRC of MPA (RFC 5044 4.4, RFC 3385), over bytes of any number. By ISA-L, which uses the
// processor's instruction where there is one; as crc32() it leaves the upper halves of the vector registers clear.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace cw {

// Over bytes that lie in several pieces: add() them in their order.
class Crc32c {
 public:
  void add(Bytes more);
  [[nodiscard]] uint32_t value() const { return ~register_; }

 private:
  uint32_t register_ = 0xffff'ffff;
};

}  // namespace cw
