// Queue pair numbers that cannot be guessed and still say which core and slot they belong to.
//
//   QPN:  | keyed permutation of (generation, slot) | core |   24 bits
//
// The permutation, a four-round Feistel network over two halves, hides how many queue pairs there are and what the next number
// will be; it is not a cipher and protects nothing else: a packet must also match its queue pair's path and PSN window. The core
// stands in the clear, in the lowest bits, as it does in communication ids, so that a NIC's rule can read it
// (dataplane/dpdk/flow_rules.h). It tells a client which core serves it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "verbs/ids.h"

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
  [[nodiscard]] uint32_t core_of(verbs::Qpn qpn) const { return qpn.value() & core_mask(core_bits_); }
  // The bits of a QPN that say its core: the lowest ones; 0 where there is one core.
  [[nodiscard]] static constexpr uint32_t core_mask(uint32_t core_bits) { return (1u << core_bits) - 1; }
  [[nodiscard]] uint32_t generation_count() const { return 1u << (kBits - core_bits_ - slot_bits_); }

 private:
  static constexpr uint32_t kBits = 24;
  static constexpr uint32_t kRounds = 4;
  [[nodiscard]] uint32_t round(uint32_t half, uint32_t index) const;
  [[nodiscard]] uint32_t permuted_bits() const { return kBits - core_bits_; }
  [[nodiscard]] uint32_t right_bits() const { return permuted_bits() / 2; }
  [[nodiscard]] uint32_t left_bits() const { return permuted_bits() - right_bits(); }

  std::array<uint64_t, kRounds> keys_;
  uint32_t core_bits_;
  uint32_t slot_bits_;
};

}  // namespace cw::rc
