// IPv4 header without options (RFC 791), the only shape that RoCEv2 traffic has.
//
//   version and IHL (1), TOS (1), total length (2), identification (2), flags and fragment offset (2),
//   TTL (1), protocol (1), header checksum (2), source (4), destination (4)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::wire {

inline constexpr uint8_t kIpProtocolUdp = 17;

struct Ipv4 {
  static constexpr size_t kSize = 20;
  static constexpr uint8_t kVersionAndIhl = 0x45;
  static constexpr uint16_t kDontFragment = 0x4000;
  static constexpr uint16_t kMoreFragments = 0x2000;
  static constexpr uint16_t kFragmentOffset = 0x1fff;

  uint8_t tos = 0;           // DSCP (6 bits), ECN (2 bits)
  uint16_t total_bytes = 0;  // header and all behind it
  uint16_t identification = 0;
  uint16_t flags_and_offset = kDontFragment;
  uint8_t ttl = 0;
  uint8_t protocol = kIpProtocolUdp;
  uint16_t checksum = 0;  // written as it stands
  uint32_t source = 0;
  uint32_t destination = 0;

  [[nodiscard]] constexpr bool is_fragment() const { return (flags_and_offset & (kMoreFragments | kFragmentOffset)) != 0; }

  // kUnsupported: not version 4, or options.
  [[nodiscard]] static constexpr Result<Ipv4> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    if (reader->u8<0>() != kVersionAndIhl) {
      return fail(Error::kUnsupported);
    }
    return Ipv4{reader->u8<1>(), reader->be16<2>(),  reader->be16<4>(),  reader->be16<6>(), reader->u8<8>(),
                reader->u8<9>(), reader->be16<10>(), reader->be32<12>(), reader->be32<16>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.u8<0>(kVersionAndIhl);
    writer.u8<1>(tos);
    writer.be16<2>(total_bytes);
    writer.be16<4>(identification);
    writer.be16<6>(flags_and_offset);
    writer.u8<8>(ttl);
    writer.u8<9>(protocol);
    writer.be16<10>(checksum);
    writer.be32<12>(source);
    writer.be32<16>(destination);
  }
  friend constexpr bool operator==(const Ipv4&, const Ipv4&) = default;
};

// Ones' complement sum (RFC 1071), folded to 16 bits.
[[nodiscard]] constexpr uint16_t fold_ones_complement(uint64_t sum) {
  sum = (sum & 0xffff'ffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}
// The same of a sum of few words, in fewer steps.
[[nodiscard]] constexpr uint16_t fold_short_sum(uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}
// Summed in words of 32 bits: 2^16 and 2^32 are both 1 modulo 2^16 - 1.
[[nodiscard]] constexpr uint64_t ipv4_sum(std::span<const uint8_t, Ipv4::kSize> header) {
  const uint8_t* p = header.data();
  return uint64_t{load_be32(p)} + load_be32(p + 4) + load_be32(p + 8) + load_be32(p + 12) + load_be32(p + 16);
}
// True when the header's checksum is right: its sum is a multiple of 2^16 - 1 (and not 0, which no header sums up to). That
// holds in either byte order (RFC 1071 2.B), hence the plain loads.
[[nodiscard]] constexpr bool ipv4_checksum_ok(std::span<const uint8_t, Ipv4::kSize> header) {
  const uint8_t* p = header.data();
  const uint64_t sum = uint64_t{load_native<uint32_t>(p)} + load_native<uint32_t>(p + 4) + load_native<uint32_t>(p + 8) +
                       load_native<uint32_t>(p + 12) + load_native<uint32_t>(p + 16);
  return sum % 0xffff == 0 && sum != 0;
}

}  // namespace cw::wire
