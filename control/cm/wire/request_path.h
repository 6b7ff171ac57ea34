// Path description inside REQ (IBA 12.6.5, table 106): the primary path at byte 52, the alternate one, all zeros if there is
// none, at 96.
//
//    0                   1                   2                   3
//   +-------------------------------+-------------------------------+
//   |           local LID           |           remote LID          |
//   +-------------------------------+-------------------------------+
//   |             local GID (16): the address of the sender         |
//   +---------------------------------------------------------------+
//   |                        remote GID (16)                        |
//   +---------------------------------------+-----------+-----------+
//   |            flow label (20)            | resvd (6) | rate (6)  |
//   +---------------+---------------+-------+-+-----+---+-----+-----+
//   | traffic class |   hop limit   |  SL   |L|resvd| ACK t/o |resvd|
//   +---------------+---------------+-------+-+-----+---------+-----+
//
// RoCEv2 has no LIDs: both are 0xffff (permissive). L is "subnet local". LID, rate and SL mean nothing to us and are not judged.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "control/cm/wire/byte_array.h"

namespace cw::cm {

struct RequestPath {
  static constexpr size_t kSize = 44;
  static constexpr uint16_t kPermissiveLid = 0xffff;

  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  IpAddress local_gid;
  IpAddress remote_gid;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t packet_rate = 0;  // 6 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  uint8_t ack_timeout_code = 0;  // 5 bits

  [[nodiscard]] static constexpr RequestPath read(const FixedReader<kSize>& reader) {
    RequestPath path;
    path.local_lid = reader.be16<0>();
    path.remote_lid = reader.be16<2>();
    path.local_gid = gid_at<4>(reader);
    path.remote_gid = gid_at<20>(reader);
    path.flow_label = reader.be32<36>() >> 12;
    path.packet_rate = reader.u8<39>() & 0x3f;
    path.traffic_class = reader.u8<40>();
    path.hop_limit = reader.u8<41>();
    path.service_level = reader.u8<42>() >> 4;
    path.subnet_local = (reader.u8<42>() & 0x08) != 0;
    path.ack_timeout_code = reader.u8<43>() >> 3;
    return path;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be16<0>(local_lid);
    writer.be16<2>(remote_lid);
    put_gid<4>(writer, local_gid);
    put_gid<20>(writer, remote_gid);
    writer.be32<36>((flow_label << 12) | (packet_rate & 0x3fu));
    writer.u8<40>(traffic_class);
    writer.u8<41>(hop_limit);
    writer.u8<42>(static_cast<uint8_t>((service_level << 4) | (subnet_local ? 0x08 : 0)));
    writer.u8<43>(static_cast<uint8_t>(ack_timeout_code << 3));
  }

  friend constexpr bool operator==(const RequestPath&, const RequestPath&) = default;
};

}  // namespace cw::cm
