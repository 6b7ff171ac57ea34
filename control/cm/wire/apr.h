// APR, Alternate Path Response (IBA 12.8.2).
//
//    0  local communication id (4)   |  4  remote communication id (4)
//    8  length of the additional information   |  9  status   | 10  reserved (2)
//   12  additional information (72)  | 84  private data (148)
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/wire/byte_array.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

// The codes we use; a peer's may lie outside.
enum class AlternatePathStatus : uint8_t { kLoaded = 0, kInvalidCommId = 1, kUnsupported = 2, kRejected = 3 };

struct Apr {
  static constexpr size_t kSize = kMessageSize;
  static constexpr MessageType kType = MessageType::kApr;
  static constexpr size_t kInformationSize = 72;
  static constexpr size_t kPrivateDataSize = 148;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t information_bytes = 0;
  AlternatePathStatus status = AlternatePathStatus::kUnsupported;
  std::array<uint8_t, kInformationSize> information{};
  std::array<uint8_t, kPrivateDataSize> private_data{};

  [[nodiscard]] static constexpr Result<Apr> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    Apr apr;
    apr.local_comm_id = reader->be32<0>();
    apr.remote_comm_id = reader->be32<4>();
    apr.information_bytes = reader->u8<8>();
    apr.status = static_cast<AlternatePathStatus>(reader->u8<9>());
    apr.information = array_at<12, kInformationSize>(*reader);
    apr.private_data = array_at<84, kPrivateDataSize>(*reader);
    return apr;
  }

  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(local_comm_id);
    writer.be32<4>(remote_comm_id);
    writer.u8<8>(information_bytes);
    writer.u8<9>(static_cast<uint8_t>(status));
    put_array<12>(writer, information);
    put_array<84>(writer, private_data);
  }

  friend constexpr bool operator==(const Apr&, const Apr&) = default;
};

}  // namespace cw::cm
