// A received message's transport header as contiguous bytes.
//
// As a rule the header lies in the first Buffer and nothing is copied. With a small MTU a long header may run on into the next
// ones; then its bytes are copied to scratch memory that is larger than any header within the compile-time ceilings.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "rpcrdma/wire/chunk_list.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

class HeaderView {
 public:
  // Fixed words; Read list of entries of 24 bytes; Write list and Reply chunk of segments of 16; presence words and counts.
  static constexpr uint32_t kHeaderBytesMax =
      uint32_t{FixedHeader::kSize} + 24 * kReadSegmentsMax + 16 * kPlainSegmentsMax + 8 * (kWriteChunksMax + 1) + 3 * 4;

  // The first bytes of `message`: at least FixedHeader::kSize and enough for RDMA_ERROR, when the message has so many.
  [[nodiscard]] Bytes fixed(const Chain& message) {
    if (!message.empty() && (message.buffer_count() == 1 || message.head()->size >= kVersionErrorBytes)) [[likely]] {
      return message.head()->bytes();
    }
    return copied(message, kVersionErrorBytes);
  }
  // Decodes the chunk lists wherever they lie.
  [[nodiscard]] Result<DecodedChunks, HeaderError> decode(const Chain& message, const ChunkLimits& limits, ChunkList& chunks) {
    if (!message.empty() && has_no_chunks(message.head()->bytes())) [[likely]] {
      chunks.clear();
      return DecodedChunks{.header_bytes = kBareHeaderBytes};
    }
    return decode_lists(message, limits, chunks);
  }

 private:
  [[nodiscard]] Result<DecodedChunks, HeaderError> decode_lists(const Chain& message, const ChunkLimits& limits,
                                                                ChunkList& chunks);
  [[nodiscard]] Bytes copied(const Chain& message, uint32_t bytes_max);
  std::array<uint8_t, kHeaderBytesMax> scratch_;
};

}  // namespace cw::rpcrdma
