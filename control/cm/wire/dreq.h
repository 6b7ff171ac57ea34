// DREQ, DisconnectRequest (IBA 12.6.10).
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  remote QPN (3), reserved     | 12  private data (220)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"
#include "verbs/ids.h"

namespace cw::cm {

struct Dreq {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kDreq;
  static constexpr size_t kPrivateDataSize = 220;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  verbs::Qpn remote_qpn;  // of the receiver
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Dreq> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Dreq dreq;
    dreq.local_comm_id = reader->be32<0>();
    dreq.remote_comm_id = reader->be32<4>();
    dreq.remote_qpn = verbs::Qpn(reader->be24<8>());
    dreq.private_data = array_at<12, kPrivateDataSize>(*reader);
    return dreq;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.be24<8>(remote_qpn.value());
    put_array<12>(writer, private_data);
  }

  friend constexpr bool operator==(const Dreq&, const Dreq&) = default;
};

}  // namespace cw::cm
