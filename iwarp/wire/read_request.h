// RDMA Read Request Header (RFC 5040 4.4): the payload of a Read Request's only segment.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace cw::iwarp {

inline constexpr uint32_t kReadRequestBytes = 28;

struct ReadRequestHeader {
  uint32_t sink_stag = 0;    // where the response goes, at who asks
  uint64_t sink_offset = 0;  // its first tagged offset
  uint32_t bytes = 0;
  uint32_t source_stag = 0;  // what is read, at the peer
  uint64_t source_offset = 0;
};

// Precondition, here and below: kReadRequestBytes bytes.
[[nodiscard]] inline ReadRequestHeader parse_read_request(Bytes raw) {
  const uint8_t* p = raw.first(kReadRequestBytes).data();
  return {load_be32(p), load_be64(p + 4), load_be32(p + 12), load_be32(p + 16), load_be64(p + 20)};
}
inline void write(const ReadRequestHeader& header, MutableBytes out) {
  uint8_t* p = out.first(kReadRequestBytes).data();
  store_be32(p, header.sink_stag);
  store_be64(p + 4, header.sink_offset);
  store_be32(p + 12, header.bytes);
  store_be32(p + 16, header.source_stag);
  store_be64(p + 20, header.source_offset);
}

}  // namespace cw::iwarp
