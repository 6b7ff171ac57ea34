// What the consumers of a connection say to each other inside its set-up messages. The manager carries it and never reads it.
//
// Fields on the wire have a fixed size and arrive padded with zeros: the size of what is received is that of the field, and says
// nothing about how much the peer meant to send.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace cw::cm {

inline constexpr size_t kReqPrivateDataSize = 92;
inline constexpr size_t kIpCmHeaderSize = 36;
inline constexpr size_t kReqConsumerDataSize = kReqPrivateDataSize - kIpCmHeaderSize;  // 56, behind the IP CM header
inline constexpr size_t kRepPrivateDataSize = 196;
inline constexpr size_t kRejPrivateDataSize = 148;
inline constexpr size_t kPrivateDataMax = kRepPrivateDataSize;

struct PrivateData {
  std::array<uint8_t, kPrivateDataMax> raw{};
  uint16_t size = 0;

  // Keeps at most kPrivateDataMax bytes; whoever sends checks the limit of the message first.
  [[nodiscard]] static constexpr PrivateData from(Bytes bytes) {
    PrivateData data;
    data.size = static_cast<uint16_t>(std::min(bytes.size(), data.raw.size()));
    for (size_t i = 0; i < data.size; ++i) {
      data.raw[i] = bytes[i];
    }
    return data;
  }
  [[nodiscard]] constexpr Bytes bytes() const { return Bytes(raw.data(), size); }
};

}  // namespace cw::cm
