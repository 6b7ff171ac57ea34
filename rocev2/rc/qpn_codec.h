// Queue pair numbers that cannot be guessed and still say which core and slot they belong to (design decision 6).
//
//   plain:  | generation | slot | core |   24 bits
//   QPN  =  keyed permutation of the plain number: a four-round Feistel network over two halves of 12 bits
//
// The permutation hides how many queue pairs there are and what the next number will be; it is not a cipher and protects nothing
// else: a packet must also match its queue pair's path and PSN window.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "rocev2/verbs/ids.h"

namespace cw::rc {

struct QpnParts {
  uint32_t core = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  friend bool operator==(const QpnParts&, const QpnParts&) = default;
};

class QpnCodec {
 public:
  // core_bits + slot_bits <= 24; what remains counts generations. All codecs with the same arguments agree.
  QpnCodec(uint64_t key, uint32_t core_bits, uint32_t slot_bits);

  // Numbers 0 and 1 (management) and 0xffffff (multicast) are never given: nothing then, take the next generation.
  [[nodiscard]] std::optional<verbs::Qpn> encode(const QpnParts& parts) const;
  [[nodiscard]] QpnParts decode(verbs::Qpn qpn) const;
  [[nodiscard]] uint32_t core_of(verbs::Qpn qpn) const { return decode(qpn).core; }
  [[nodiscard]] uint32_t generation_count() const { return 1u << (24 - core_bits_ - slot_bits_); }

 private:
  static constexpr uint32_t kRounds = 4;
  [[nodiscard]] uint32_t round(uint32_t half, uint32_t index) const;

  std::array<uint64_t, kRounds> keys_;
  uint32_t core_bits_;
  uint32_t slot_bits_;
};

}  // namespace cw::rc
