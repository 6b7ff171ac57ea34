// RDMA IP CM header (IBA annex A11.6): the first 36 bytes of a REQ's private data when its service id is an RDMA IP CM one.
//
//    0                   1                   2                   3
//   +-------+-------+-------+-------+-------------------------------+
//   | MajV  | MinV  | IPVer | resvd |          source port          |
//   +-------+-------+-------+-------+-------------------------------+
//   |                 source IP address (16 bytes)                 |
//   +---------------------------------------------------------------+
//   |               destination IP address (16 bytes)              |
//   +---------------------------------------------------------------+
//
// An IPv4 address stands in the last four bytes of its field, behind zeros.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "control/cm/private_data.h"

namespace cw::cm {

struct IpCmHeader {
  static constexpr size_t kSize = kIpCmHeaderSize;

  uint16_t source_port = 0;
  IpAddress source;
  IpAddress destination;

  // kUnsupported: another major version. kBadValue: neither IPv4 nor IPv6.
  [[nodiscard]] static constexpr Result<IpCmHeader> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    if ((reader->u8<0>() >> 4) != 0) {
      return fail(Error::kUnsupported);
    }
    const uint8_t ip_version = reader->u8<1>() >> 4;
    if (ip_version != 4 && ip_version != 6) {
      return fail(Error::kBadValue);
    }
    IpCmHeader header;
    header.source_port = reader->be16<2>();
    if (ip_version == 4) {
      header.source = IpAddress::v4(reader->be32<16>());
      header.destination = IpAddress::v4(reader->be32<32>());
    } else {
      header.source = IpAddress::v6(reader->raw<4, 16>());
      header.destination = IpAddress::v6(reader->raw<20, 16>());
    }
    return header;
  }

  // Precondition: source and destination are of one family.
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.u8<1>(source.is_v4() ? 0x40 : 0x60);
    writer.be16<2>(source_port);
    if (source.is_v4()) {
      writer.be32<16>(source.to_v4());
      writer.be32<32>(destination.to_v4());
    } else {
      writer.raw<4>(std::span<const uint8_t, 16>(source.raw));
      writer.raw<20>(std::span<const uint8_t, 16>(destination.raw));
    }
  }

  friend constexpr bool operator==(const IpCmHeader&, const IpCmHeader&) = default;
};

}  // namespace cw::cm
