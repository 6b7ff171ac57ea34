// rping's one message, a SEND of 16 bytes. The client names memory with it; the server's are signals whose content nobody reads.
//
//   +---------------------------------------------------------------+
//   |                      remote address (8)                       |
//   +-------------------------------+-------------------------------+
//   |           rkey (4)            |        size, bytes (4)       |
//   +-------------------------------+-------------------------------+
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::peers {

inline constexpr uint16_t kRpingPort = 7174;
inline constexpr uint32_t kRpingBytesMax = 64 * 1024;

struct RpingMessage {
  static constexpr size_t kSize = 16;
  uint64_t address = 0;
  verbs::Rkey rkey;
  uint32_t size = 0;

  // kBadValue: not exactly kSize bytes, which rping refuses too.
  [[nodiscard]] static constexpr Result<RpingMessage> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader || bytes.size() != kSize) {
      return cw::fail(Error::kBadValue);
    }
    return RpingMessage{reader->be64<0>(), verbs::Rkey(reader->be32<8>()), reader->be32<12>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be64<0>(address);
    writer.be32<8>(rkey.value());
    writer.be32<12>(size);
  }
};

}  // namespace cw::peers
