// Immediate Data (IBA 9.3.6): four bytes that the transport hands to the receiver's completion as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::wire {

struct ImmDt {
  static constexpr size_t kSize = 4;
  uint32_t data = 0;

  [[nodiscard]] static constexpr Result<ImmDt> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return ImmDt{reader->be32<0>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(data);
  }
  friend constexpr bool operator==(const ImmDt&, const ImmDt&) = default;
};

}  // namespace cw::wire
