// Which packets behind a gap the responder holds: the payload of a gap report, an acknowledgement between Causeway peers that
// agreed on selective recovery (opcode 0xd1, of the manufacturer's range: IBA table 38).
//
//   BTH   PSN = the packet that is missing
//   AETH  NAK, PSN sequence error
//   1 to 8 words of 64 bits, big-endian: bit i of word k (value 2^i) says that packet PSN + 1 + 64 k + i is held
//
// Like any NAK it acknowledges everything before its PSN. Packets beyond the last word are not held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::wire {

struct GapReport {
  static constexpr uint32_t kWordsMax = 8;
  static constexpr uint32_t kBits = 64 * kWordsMax;
  static constexpr size_t kSizeMax = size_t{8} * kWordsMax;

  std::array<uint64_t, kWordsMax> words{};

  // Packet PSN + 1 + index. Precondition: index < kBits.
  [[nodiscard]] constexpr bool holds(uint32_t index) const { return ((words[index / 64] >> (index % 64)) & 1) != 0; }
  constexpr void set(uint32_t index) { words[index / 64] |= uint64_t{1} << (index % 64); }

  // kBadValue: not a whole number of words, none, or too many.
  [[nodiscard]] static constexpr Result<GapReport> parse(Bytes payload) {
    if (payload.empty() || payload.size() % 8 != 0 || payload.size() > kSizeMax) {
      return fail(Error::kBadValue);
    }
    GapReport report;
    for (size_t k = 0; k < payload.size() / 8; ++k) {
      report.words[k] = load_be64(payload.data() + 8 * k);
    }
    return report;
  }
  // As many words as are needed, at least one; how many bytes that was.
  constexpr size_t write(std::span<uint8_t, kSizeMax> out) const {
    size_t count = kWordsMax;
    while (count > 1 && words[count - 1] == 0) {
      --count;
    }
    for (size_t k = 0; k < count; ++k) {
      store_be64(out.data() + 8 * k, words[k]);
    }
    return 8 * count;
  }
  friend constexpr bool operator==(const GapReport&, const GapReport&) = default;
};

}  // namespace cw::wire
