// Datagram Extended Transport Header (IBA 9.3.2): Q_Key (4), reserved (1), source QP (3). In every UD packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::wire {

// The well-known Q_Key of QP1 (IBA 10.2.5).
inline constexpr uint32_t kGsiQkey = 0x8001'0000;

struct Deth {
  static constexpr size_t kSize = 8;
  uint32_t qkey = 0;
  verbs::Qpn source;

  [[nodiscard]] static constexpr Result<Deth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return Deth{reader->be32<0>(), verbs::Qpn(reader->be24<5>())};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(qkey);
    writer.be24<5>(source.value());
  }
  friend constexpr bool operator==(const Deth&, const Deth&) = default;
};

}  // namespace cw::wire
