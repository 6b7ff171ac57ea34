// Bytes for tests: XDR words in a row, and chains cut where a test wants them cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"

namespace cw::test {

using ByteVector = std::vector<uint8_t>;

inline void add_word(ByteVector& out, uint32_t word) {
  const size_t at = out.size();
  out.resize(at + 4);
  store_be32(out.data() + at, word);
}
inline void add_word64(ByteVector& out, uint64_t value) {
  add_word(out, static_cast<uint32_t>(value >> 32));
  add_word(out, static_cast<uint32_t>(value));
}
inline void add(ByteVector& out, Bytes more) {
  out.insert(out.end(), more.begin(), more.end());
}
inline void add_words(ByteVector& out, std::initializer_list<uint32_t> list) {
  for (const uint32_t word : list) {
    add_word(out, word);
  }
}
// opaque<>: length word, content, zero padding.
inline void add_opaque(ByteVector& out, Bytes content) {
  add_word(out, static_cast<uint32_t>(content.size()));
  add(out, content);
  out.resize((out.size() + 3) / 4 * 4);
}
inline ByteVector words(std::initializer_list<uint32_t> list) {
  ByteVector out;
  add_words(out, list);
  return out;
}
// "0a0b 0c0d": hex digits, spaces ignored.
inline ByteVector hex(std::string_view digits) {
  ByteVector out;
  int high = -1;
  for (const char digit : digits) {
    const int value = digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
    if (value < 0) {
      continue;
    }
    if (high < 0) {
      high = value;
    } else {
      out.push_back(static_cast<uint8_t>(high * 16 + value));
      high = -1;
    }
  }
  return out;
}

// A chain whose Buffers hold `piece_bytes` bytes each (the last one fewer). The pool must be large enough.
inline Chain chain_of(BufferPool& pool, Bytes content, size_t piece_bytes) {
  Chain chain;
  while (!content.empty()) {
    Buffer* buffer = pool.allocate_one();
    CW_ASSERT(buffer != nullptr);
    const size_t step = std::min(piece_bytes, content.size());
    CW_ASSERT(buffer->append(content.first(step)) == step);
    content = content.subspan(step);
    chain.push_back(buffer);
  }
  return chain;
}
inline ByteVector contents(const Chain& chain) {
  ByteVector raw(chain.bytes());
  chain.copy_to(0, raw);
  return raw;
}

}  // namespace cw::test
