#include "rpcrdma/endpoint/header_view.h"

#include <algorithm>

namespace cw::rpcrdma {

Bytes HeaderView::copied(const Chain& message, uint32_t bytes_max) {
  const MutableBytes out(scratch_.data(), static_cast<size_t>(std::min<uint64_t>(bytes_max, message.bytes())));
  message.copy_to(0, out);
  return out;
}

Result<DecodedChunks, HeaderError> HeaderView::decode_lists(const Chain& message, const ChunkLimits& limits, ChunkList& chunks) {
  if (message.empty()) {
    return fail(HeaderError::kTruncated);
  }
  const auto in_first_buffer = decode_chunks(message.head()->bytes(), limits, chunks);
  if (in_first_buffer.ok() || message.buffer_count() == 1 || in_first_buffer.error() != HeaderError::kTruncated) {
    return in_first_buffer;
  }
  // A header that is cut off by the end of the scratch memory would break a limit there or before.
  return decode_chunks(copied(message, kHeaderBytesMax), limits, chunks);
}

}  // namespace cw::rpcrdma
