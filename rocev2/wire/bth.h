// Base Transport Header (IBA 9.2): the first 12 bytes behind UDP of every RoCEv2 packet.
//
//    0                   1                   2                   3
//   +---------------+-+-+---+-------+-------------------------------+
//   |    OpCode     |S|M|Pad| TVer  |             P_Key             |
//   +-+-+-----------+-+-+---+-------+-------------------------------+
//   |F|B| reserved  |                Destination QP                 |
//   +-+-+-----------+-----------------------------------------------+
//   |A|  reserved   |                      PSN                      |
//   +-+-------------+-----------------------------------------------+
//
// F and B are FECN and BECN, in a byte that the iCRC does not cover.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::wire {

inline constexpr uint16_t kDefaultPkey = 0xffff;

struct Bth {
  static constexpr size_t kSize = 12;

  Opcode opcode = Opcode::kRcSendOnly;  // may hold a value outside the enumeration; traits_of() calls it reserved
  bool solicited = false;
  bool migration_request = true;  // MigReq: 1 = no migration going on. RNICs send 1, rxe 0; nobody may depend on it
  uint8_t pad_count = 0;          // 0..3 bytes of padding behind the payload
  uint8_t transport_version = 0;  // 4 bits; only 0 exists
  uint16_t pkey = kDefaultPkey;
  bool fecn = false;
  bool becn = false;
  verbs::Qpn destination;
  bool ack_request = false;
  Psn psn;

  [[nodiscard]] static constexpr Bth from(const FixedReader<kSize>& reader) {
    const uint32_t first = reader.be32<0>();
    const uint32_t second = reader.be32<4>();
    const uint32_t third = reader.be32<8>();
    Bth bth;
    bth.opcode = static_cast<Opcode>(first >> 24);
    bth.solicited = (first & 0x80'0000) != 0;
    bth.migration_request = (first & 0x40'0000) != 0;
    bth.pad_count = static_cast<uint8_t>((first >> 20) & 0x3);
    bth.transport_version = static_cast<uint8_t>((first >> 16) & 0xf);
    bth.pkey = static_cast<uint16_t>(first);
    bth.fecn = (second & 0x8000'0000) != 0;
    bth.becn = (second & 0x4000'0000) != 0;
    bth.destination = verbs::Qpn(second & 0xff'ffff);
    bth.ack_request = (third & 0x8000'0000) != 0;
    bth.psn = Psn(third & 0xff'ffff);
    return bth;
  }
  [[nodiscard]] static constexpr Result<Bth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return from(*reader);
  }

  constexpr void write(std::span<uint8_t, kSize> out) const { write(out, pad_count); }
  // With another pad count. In whole words: bytes stored one by one would hold up whoever reads them next, which is the iCRC.
  constexpr void write(std::span<uint8_t, kSize> out, uint8_t pads) const {
    const uint32_t flags =
        (solicited ? 0x80u : 0u) | (migration_request ? 0x40u : 0u) | ((pads & 0x3u) << 4) | (transport_version & 0xfu);
    const uint32_t congestion = (fecn ? 0x80u : 0u) | (becn ? 0x40u : 0u);
    store_be32(out.data(), (uint32_t{static_cast<uint8_t>(opcode)} << 24) | (flags << 16) | pkey);
    store_be32(out.data() + 4, (congestion << 24) | (destination.value() & 0xff'ffff));
    store_be32(out.data() + 8, (ack_request ? 0x8000'0000u : 0u) | (psn.value() & 0xff'ffff));
  }

  friend constexpr bool operator==(const Bth&, const Bth&) = default;
};

}  // namespace cw::wire
