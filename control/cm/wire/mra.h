// MRA, Message Receipt Acknowledgment (IBA 12.6.6): "I have your REQ or REP, wait for me a little longer".
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  message MRAed (2), reserved (6)
//    9  service time-out (5), reserved (3)
//   10  private data (222)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

struct Mra {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kMra;
  static constexpr size_t kPrivateDataSize = 222;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  AboutMessage about = AboutMessage::kReq;  // may hold 3; kOther means LAP
  uint8_t service_timeout_code = 0;         // 5 bits
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Mra> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Mra mra;
    mra.local_comm_id = reader->be32<0>();
    mra.remote_comm_id = reader->be32<4>();
    mra.about = static_cast<AboutMessage>(reader->u8<8>() >> 6);
    mra.service_timeout_code = reader->u8<9>() >> 3;
    mra.private_data = array_at<10, kPrivateDataSize>(*reader);
    return mra;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.u8<8>(static_cast<uint8_t>(static_cast<uint8_t>(about) << 6));
    writer.u8<9>(static_cast<uint8_t>(service_timeout_code << 3));
    put_array<10>(writer, private_data);
  }

  friend constexpr bool operator==(const Mra&, const Mra&) = default;
};

}  // namespace cw::cm
