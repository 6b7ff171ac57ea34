// DREP, DisconnectReply (IBA 12.6.11).
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  private data (224)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

struct Drep {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kDrep;
  static constexpr size_t kPrivateDataSize = 224;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Drep> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Drep drep;
    drep.local_comm_id = reader->be32<0>();
    drep.remote_comm_id = reader->be32<4>();
    drep.private_data = array_at<8, kPrivateDataSize>(*reader);
    return drep;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    put_array<8>(writer, private_data);
  }

  friend constexpr bool operator==(const Drep&, const Drep&) = default;
};

}  // namespace cw::cm
