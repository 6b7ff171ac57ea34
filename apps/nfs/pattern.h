// Bytes that say where they belong: what a test peer sends, and what the other one of ours expects to find.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/bytes.h"

namespace cw::peers {

// The byte at `offset`. Every 64-byte line and every page differs from its neighbours, so that a packet that lands in the wrong
// place is seen; never zero, so that memory nobody wrote is seen too.
[[nodiscard]] constexpr uint8_t pattern_at(uint64_t offset) {
  const uint64_t mixed = offset + (offset >> 6) * 37 + (offset >> 12) * 101;
  return static_cast<uint8_t>(1 + mixed % 251);
}

void fill_pattern(MutableBytes bytes, uint64_t offset);
[[nodiscard]] bool is_pattern(Bytes bytes, uint64_t offset);
[[nodiscard]] bool is_pattern(const Chain& chain);

// A message of the pattern, up to `bytes_max`, held once and shared by every send of it: a test of bandwidth copies nothing.
class PatternSource {
 public:
  // Bytes at once; false when the pool cannot give them.
  [[nodiscard]] bool fill(BufferPool& pool, uint64_t bytes_max);
  // The first `bytes` bytes. False when the pool has no view left for the moment. Precondition: bytes <= bytes_max.
  [[nodiscard]] bool share(uint64_t bytes, Chain& out) const { return whole_.share_range(0, bytes, out); }

 private:
  Chain whole_;
};

}  // namespace cw::peers
