// Invalidate Extended Transport Header (IBA 9.3.7): the R_Key that a SEND with Invalidate asks the receiver to invalidate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::wire {

struct Ieth {
  static constexpr size_t kSize = 4;
  verbs::Rkey rkey;

  [[nodiscard]] static constexpr Result<Ieth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return Ieth{verbs::Rkey(reader->be32<0>())};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(rkey.value());
  }
  friend constexpr bool operator==(const Ieth&, const Ieth&) = default;
};

}  // namespace cw::wire
