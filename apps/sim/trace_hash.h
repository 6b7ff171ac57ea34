// What a run was, in 64 bits: FNV-1a over every frame that arrived, in order. Equal hashes on any machine mean equal runs.
//
// Hashed per frame, each number as eight bytes, least significant first: time in ns, receiving host, length, CRC-64 (ECMA-182,
// reflected, as xz has it) of the bytes, which stands for them because a processor computes it fast. Not CRC-32: over a packet
// that ends in its own CRC-32 that is the same whatever the packet says.
#pragma once

#include <isa-l/crc64.h>

#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"

namespace cw::sim {

class TraceHash {
 public:
  void add(Instant at, uint32_t to, Bytes raw) {
    add(static_cast<uint64_t>(at.to_ns()));
    add(to);
    add(raw.size());
    add(crc64_ecma_refl(0, raw.data(), raw.size()));
  }
  void add(uint64_t number) {
    for (uint32_t i = 0; i < 8; ++i) {
      value_ = (value_ ^ (number & 0xff)) * kPrime;
      number >>= 8;
    }
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kPrime = 0x0000'0100'0000'01b3;
  uint64_t value_ = 0xcbf2'9ce4'8422'2325;
};

}  // namespace cw::sim
