// RDMA Extended Transport Header (IBA 9.3.3): address (8), R_Key (4), length (4). In RDMA WRITE First/Only and READ requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::wire {

struct Reth {
  static constexpr size_t kSize = 16;
  uint64_t address = 0;
  verbs::Rkey rkey;
  uint32_t length = 0;  // bytes; at most 2^31 (IBA 9.3.3.1)

  [[nodiscard]] static constexpr Result<Reth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return Reth{reader->be64<0>(), verbs::Rkey(reader->be32<8>()), reader->be32<12>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be64<0>(address);
    writer.be32<8>(rkey.value());
    writer.be32<12>(length);
  }
  friend constexpr bool operator==(const Reth&, const Reth&) = default;
};

}  // namespace cw::wire
