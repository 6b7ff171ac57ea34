// IPv6 header (RFC 8200). Extension headers are not spoken: UDP must follow at once.
//
//   version (4 bits), traffic class (8 bits), flow label (20 bits), payload length (2), next header (1), hop limit (1),
//   source (16), destination (16)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "rocev2/wire/ipv4.h"

namespace cw::wire {

struct Ipv6 {
  static constexpr size_t kSize = 40;
  uint8_t traffic_class = 0;   // DSCP (6 bits), ECN (2 bits)
  uint32_t flow_label = 0;     // 20 bits
  uint16_t payload_bytes = 0;  // behind this header
  uint8_t next_header = kIpProtocolUdp;
  uint8_t hop_limit = 0;
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};

  // kUnsupported: not version 6.
  [[nodiscard]] static constexpr Result<Ipv6> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    const uint32_t first = reader->be32<0>();
    if (first >> 28 != 6) {
      return fail(Error::kUnsupported);
    }
    Ipv6 ip;
    ip.traffic_class = static_cast<uint8_t>(first >> 20);
    ip.flow_label = first & 0xf'ffff;
    ip.payload_bytes = reader->be16<4>();
    ip.next_header = reader->u8<6>();
    ip.hop_limit = reader->u8<7>();
    for (size_t i = 0; i < 16; ++i) {
      ip.source[i] = reader->raw<8, 16>()[i];
      ip.destination[i] = reader->raw<24, 16>()[i];
    }
    return ip;
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>((uint32_t{6} << 28) | (uint32_t{traffic_class} << 20) | (flow_label & 0xf'ffff));
    writer.be16<4>(payload_bytes);
    writer.u8<6>(next_header);
    writer.u8<7>(hop_limit);
    writer.raw<8, 16>(std::span<const uint8_t, 16>(source));
    writer.raw<24, 16>(std::span<const uint8_t, 16>(destination));
  }
  friend constexpr bool operator==(const Ipv6&, const Ipv6&) = default;
};

}  // namespace cw::wire
