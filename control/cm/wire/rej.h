// REJ, Reject (IBA 12.6.7).
//
//    0  local communication id (4); 0 where none was given out   |  4  remote communication id (4); 0 where it is not known
//    8  message rejected (2), reserved (6)
//    9  length of the additional information (7), reserved (1)
//   10  reason (2)
//   12  additional reject information (72)   | 84  private data (148)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/private_data.h"
#include "control/cm/reject_reason.h"
#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

struct Rej {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kRej;
  static constexpr size_t kInformationSize = 72;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  AboutMessage rejected = AboutMessage::kReq;  // may hold 3
  uint8_t information_bytes = 0;               // 7 bits; not to be trusted: the field has 72 bytes
  RejectReason reason = RejectReason::kConsumerDefined;
  std::array<uint8_t, kInformationSize> information{};
  std::array<uint8_t, kRejPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Rej> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Rej rej;
    rej.local_comm_id = reader->be32<0>();
    rej.remote_comm_id = reader->be32<4>();
    rej.rejected = static_cast<AboutMessage>(reader->u8<8>() >> 6);
    rej.information_bytes = reader->u8<9>() >> 1;
    rej.reason = static_cast<RejectReason>(reader->be16<10>());
    rej.information = array_at<12, kInformationSize>(*reader);
    rej.private_data = array_at<84, kRejPrivateDataSize>(*reader);
    return rej;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.u8<8>(static_cast<uint8_t>(static_cast<uint8_t>(rejected) << 6));
    writer.u8<9>(static_cast<uint8_t>(information_bytes << 1));
    writer.be16<10>(static_cast<uint16_t>(reason));
    put_array<12>(writer, information);
    put_array<84>(writer, private_data);
  }

  friend constexpr bool operator==(const Rej&, const Rej&) = default;
};

}  // namespace cw::cm
