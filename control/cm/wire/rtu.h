// RTU, ReadyToUse (IBA 12.6.9): the active side's queue pair is ready.
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  private data (224)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

struct Rtu {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kRtu;
  static constexpr size_t kPrivateDataSize = 224;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Rtu> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Rtu rtu;
    rtu.local_comm_id = reader->be32<0>();
    rtu.remote_comm_id = reader->be32<4>();
    rtu.private_data = array_at<8, kPrivateDataSize>(*reader);
    return rtu;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    put_array<8>(writer, private_data);
  }

  friend constexpr bool operator==(const Rtu&, const Rtu&) = default;
};

}  // namespace cw::cm
