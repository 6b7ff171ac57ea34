// LAP, Load Alternate Path (IBA 12.8.1). Alternate paths do not exist on RoCEv2; the message is read so that it can be refused.
//
//    0  local communication id (4)   |  4  remote communication id (4)   |  8  reserved (4)
//   12  remote QPN (3)               | 15  remote CM response time-out (5), reserved (3)   | 16  reserved (4)
//   20  local LID (2)                | 22  remote LID (2)
//   24  local GID (16)               | 40  remote GID (16)
//   56  flow label (20), reserved (4)| 59  traffic class   | 60  hop limit   | 61  reserved (2), packet rate (6)
//   62  SL (4), subnet local (1), reserved (3)             | 63  local ACK time-out (5), reserved (3)
//   64  private data (168)
#pragma once

#include <array>
#include <cstdint>

#include "base/ip_address.h"
#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"
#include "verbs/ids.h"

namespace cw::cm {

struct Lap {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kLap;
  static constexpr size_t kPrivateDataSize = 168;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  verbs::Qpn remote_qpn;
  uint8_t remote_response_code = 0;  // 5 bits
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  IpAddress local_gid;
  IpAddress remote_gid;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t packet_rate = 0;    // 6 bits
  uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  uint8_t ack_timeout_code = 0;  // 5 bits
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Lap> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Lap lap;
    lap.local_comm_id = reader->be32<0>();
    lap.remote_comm_id = reader->be32<4>();
    lap.remote_qpn = verbs::Qpn(reader->be24<12>());
    lap.remote_response_code = reader->u8<15>() >> 3;
    lap.local_lid = reader->be16<20>();
    lap.remote_lid = reader->be16<22>();
    lap.local_gid = gid_at<24>(*reader);
    lap.remote_gid = gid_at<40>(*reader);
    lap.flow_label = reader->be24<56>() >> 4;
    lap.traffic_class = reader->u8<59>();
    lap.hop_limit = reader->u8<60>();
    lap.packet_rate = reader->u8<61>() & 0x3f;
    lap.service_level = reader->u8<62>() >> 4;
    lap.subnet_local = (reader->u8<62>() & 0x08) != 0;
    lap.ack_timeout_code = reader->u8<63>() >> 3;
    lap.private_data = array_at<64, kPrivateDataSize>(*reader);
    return lap;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.be24<12>(remote_qpn.value());
    writer.u8<15>(static_cast<uint8_t>(remote_response_code << 3));
    writer.be16<20>(local_lid);
    writer.be16<22>(remote_lid);
    put_gid<24>(writer, local_gid);
    put_gid<40>(writer, remote_gid);
    writer.be24<56>(flow_label << 4);
    writer.u8<59>(traffic_class);
    writer.u8<60>(hop_limit);
    writer.u8<61>(packet_rate & 0x3f);
    writer.u8<62>(static_cast<uint8_t>((service_level << 4) | (subnet_local ? 0x08 : 0)));
    writer.u8<63>(static_cast<uint8_t>(ack_timeout_code << 3));
    put_array<64>(writer, private_data);
  }

  friend constexpr bool operator==(const Lap&, const Lap&) = default;
};

}  // namespace cw::cm
