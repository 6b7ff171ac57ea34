// One word of XDR in a Chain, without a reader: for those who want no more.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/result.h"

namespace cw::rpcrdma {

// Word `index` of the stream, or nothing when the stream ends before.
[[nodiscard]] inline Result<uint32_t> peek_word(const Chain& stream, uint64_t index) {
  const uint64_t at = index * 4;
  if (stream.bytes() < at + 4) {
    return fail(Error::kTruncated);
  }
  if (stream.head()->size >= at + 4) [[likely]] {
    return load_be32(stream.head()->data + at);
  }
  uint8_t word[4];
  stream.copy_to(at, word);
  return load_be32(word);
}

}  // namespace cw::rpcrdma
