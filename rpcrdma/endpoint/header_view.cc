#include "rpcrdma/endpoint/header_view.h"

#include <algorithm>

namespace cw::rpcrdma {

Bytes HeaderView::copied(const Chain& message, uint32_t bytes_max) {
  const MutableBytes out(scratch_.data(), static_cast<size_t>(std::min<uint64_t>(bytes_max, message.bytes())));
  message.copy_to(0, out);
  return out;
}

Bytes HeaderView::fixed(const Chain& message) {
  if (message.buffer_count() == 1 || (!message.empty() && message.head()->size >= kVersionErrorBytes)) {
    return message.head()->bytes();
  }
  return copied(message, kVersionErrorBytes);
}

Result<DecodedChunks, HeaderError> HeaderView::decode(const Chain& message, const ChunkLimits& limits, ChunkList& chunks) {
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

Result<uint32_t> peek_word(const Chain& stream, uint32_t index) {
  const uint64_t at = uint64_t{index} * 4;
  if (stream.bytes() < at + 4) {
    return fail(Error::kTruncated);
  }
  if (stream.head()->size >= at + 4) {
    return load_be32(stream.head()->data + at);
  }
  uint8_t word[4];
  stream.copy_to(at, word);
  return load_be32(word);
}

}  // namespace cw::rpcrdma
