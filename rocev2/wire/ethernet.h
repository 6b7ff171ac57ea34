// Ethernet II header and 802.1Q tag.
//
//   destination (6), source (6), [ 0x8100, priority (3) DEI (1) VLAN id (12) ], EtherType (2)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "rocev2/wire/mac_address.h"

namespace cw::wire {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;

struct Ethernet {
  static constexpr size_t kSize = 14;
  MacAddress destination;
  MacAddress source;
  uint16_t ether_type = 0;  // kEtherTypeVlan: a VlanTag follows

  [[nodiscard]] static constexpr Result<Ethernet> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Ethernet ethernet;
    for (size_t i = 0; i < 6; ++i) {
      ethernet.destination.raw[i] = reader->raw<0, 6>()[i];
      ethernet.source.raw[i] = reader->raw<6, 6>()[i];
    }
    ethernet.ether_type = reader->be16<12>();
    return ethernet;
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.raw<0, 6>(std::span<const uint8_t, 6>(destination.raw));
    writer.raw<6, 6>(std::span<const uint8_t, 6>(source.raw));
    writer.be16<12>(ether_type);
  }
  friend constexpr bool operator==(const Ethernet&, const Ethernet&) = default;
};

// What stands behind EtherType 0x8100.
struct VlanTag {
  static constexpr size_t kSize = 4;
  uint8_t priority = 0;  // 3 bits
  bool drop_eligible = false;
  uint16_t id = 0;          // 12 bits; 0 = priority only
  uint16_t ether_type = 0;  // of what follows

  [[nodiscard]] static constexpr Result<VlanTag> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    const uint16_t control = reader->be16<0>();
    return VlanTag{static_cast<uint8_t>(control >> 13), (control & 0x1000) != 0, static_cast<uint16_t>(control & 0xfff),
                   reader->be16<2>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be16<0>(static_cast<uint16_t>((priority << 13) | (drop_eligible ? 0x1000 : 0) | (id & 0xfff)));
    writer.be16<2>(ether_type);
  }
  friend constexpr bool operator==(const VlanTag&, const VlanTag&) = default;
};

}  // namespace cw::wire
