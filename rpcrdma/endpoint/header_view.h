// A received message's transport header as contiguous octets.
//
// As a rule the header lies in the first Buffer and nothing is copied. With a small MTU a long header may run on into the next
// ones; then its octets are copied to scratch memory that is larger than any header within the compile-time ceilings.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/base/buffer.h"
#include "rpcrdma/wire/chunk_list.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

class HeaderView {
 public:
  // Fixed words; Read list of entries of 24 octets; Write list and Reply chunk of segments of 16; presence words and counts.
  static constexpr uint32_t kHeaderBytesMax =
      uint32_t{FixedHeader::kSize} + 24 * kReadSegmentsMax + 16 * kPlainSegmentsMax + 8 * (kWriteChunksMax + 1) + 3 * 4;

  // The first octets of `message`: at least FixedHeader::kSize and enough for RDMA_ERROR, when the message has so many.
  [[nodiscard]] Bytes fixed(const Chain& message);
  // Decodes the chunk lists wherever they lie.
  [[nodiscard]] Result<DecodedChunks, HeaderError> decode(const Chain& message, const ChunkLimits& limits, ChunkList& chunks);

 private:
  [[nodiscard]] Bytes copied(const Chain& message, uint32_t bytes_max);
  std::array<uint8_t, kHeaderBytesMax> scratch_;
};

// Word `index` of the stream, or nothing when the stream ends before.
[[nodiscard]] Result<uint32_t> peek_word(const Chain& stream, uint32_t index);

}  // namespace cw::rpcrdma
