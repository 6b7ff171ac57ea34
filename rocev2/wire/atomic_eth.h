// Atomic Extended Transport Headers (IBA 9.3.4 and 9.5.3): what a CompareSwap or FetchAdd request carries, and its answer.
//
//   AtomicETH     address (8), R_Key (4), swap or add data (8), compare data (8)
//   AtomicAckETH  original remote data (8), behind an AETH
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::wire {

struct AtomicEth {
  static constexpr size_t kSize = 28;
  uint64_t address = 0;  // must be a multiple of 8; the responder checks it
  verbs::Rkey rkey;
  uint64_t swap_or_add = 0;  // CompareSwap: what to store; FetchAdd: what to add
  uint64_t compare = 0;      // CompareSwap only; FetchAdd carries whatever the requester left there

  [[nodiscard]] static constexpr Result<AtomicEth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return AtomicEth{reader->be64<0>(), verbs::Rkey(reader->be32<8>()), reader->be64<12>(), reader->be64<20>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be64<0>(address);
    writer.be32<8>(rkey.value());
    writer.be64<12>(swap_or_add);
    writer.be64<20>(compare);
  }
  friend constexpr bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

struct AtomicAckEth {
  static constexpr size_t kSize = 8;
  uint64_t original = 0;  // what the memory held before the operation

  [[nodiscard]] static constexpr Result<AtomicAckEth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return AtomicAckEth{reader->be64<0>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be64<0>(original);
  }
  friend constexpr bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

}  // namespace cw::wire
