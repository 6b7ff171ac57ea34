// CRC-32 (IEEE, reflected), the polynomial of the iCRC, over bytes of any number. Leaves the upper halves of the vector
// registers clear, which ISA-L by itself does not: on a poll core it is called through here only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cw {

// `start` and the result are CRCs in their finished form (complemented): a result is the start for the bytes that follow; 0 is
// the CRC of nothing.
[[nodiscard]] uint32_t crc32(uint32_t start, const uint8_t* raw, size_t count);

// The same, and a copy of the bytes at `out`, which do not overlap them: each is read once. Where bytes lie in no near cache that
// is half of the work.
[[nodiscard]] uint32_t crc32_copy(uint32_t start, const uint8_t* raw, size_t count, uint8_t* out);

}  // namespace cw
