// What one operation writes: bytes that say by whom and for which offset they were written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/exerciser/dice.h"

namespace cw::exerciser {

// The byte at `offset` of the operation with this key. It depends on both, so that old data and data in a wrong place are seen;
// it is never zero, so that a hole is seen too.
[[nodiscard]] constexpr uint8_t pattern_at(uint64_t key, uint64_t offset) {
  const uint64_t word = scramble(key ^ (offset >> 3) * 0xd6e8feb86659fd93);
  return static_cast<uint8_t>((word >> (8 * (offset & 7))) | 1);
}

inline void fill_pattern(uint64_t key, uint64_t offset, std::span<uint8_t> bytes) {
  for (size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = pattern_at(key, offset + index);
  }
}

}  // namespace cw::exerciser
