// UDP header (RFC 768). RoCEv2 leaves the checksum to the iCRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;

struct Udp {
  static constexpr size_t kSize = 8;
  uint16_t source_port = 0;  // entropy of the queue pair
  uint16_t destination_port = kRoceUdpPort;
  uint16_t length_bytes = 0;  // header and payload
  uint16_t checksum = 0;

  [[nodiscard]] static constexpr Result<Udp> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return Udp{reader->be16<0>(), reader->be16<2>(), reader->be16<4>(), reader->be16<6>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be16<0>(source_port);
    writer.be16<2>(destination_port);
    writer.be16<4>(length_bytes);
    writer.be16<6>(checksum);
  }
  friend constexpr bool operator==(const Udp&, const Udp&) = default;
};

}  // namespace cw::wire
