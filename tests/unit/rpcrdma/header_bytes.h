// RPC-over-RDMA headers word by word, independent of the encoder under test; also malformed ones.
#pragma once

#include "rpcrdma/wire/transport_header.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::test {

class HeaderBytes {
 public:
  HeaderBytes(uint32_t xid, uint32_t proc, uint32_t version = 1, uint32_t credit = 32) {
    add_words(raw_, {xid, version, credit, proc});
  }

  HeaderBytes& word(uint32_t value) {
    add_word(raw_, value);
    return *this;
  }
  // One Read list entry: presence word, Position, segment.
  HeaderBytes& read(uint32_t position, uint32_t length, uint64_t offset = 0x1000, uint32_t handle = 0xABCD) {
    return word(1).word(position).segment(length, offset, handle);
  }
  HeaderBytes& segment(uint32_t length, uint64_t offset = 0x2000, uint32_t handle = 0xBEEF) {
    word(handle).word(length);
    add_word64(raw_, offset);
    return *this;
  }
  // Presence word and counted array: a Write list entry, or the Reply chunk.
  HeaderBytes& chunk(std::initializer_list<uint32_t> lengths) {
    word(1).word(static_cast<uint32_t>(lengths.size()));
    for (const uint32_t length : lengths) {
      segment(length);
    }
    return *this;
  }
  HeaderBytes& end() { return word(0); }  // of a list, or an absent chunk
  HeaderBytes& payload(Bytes body) {
    add(raw_, body);
    return *this;
  }

  [[nodiscard]] const ByteVector& raw() const { return raw_; }
  operator Bytes() const { return raw_; }  // NOLINT: as a message

 private:
  ByteVector raw_;
};

inline constexpr uint32_t kMsg = 0;
inline constexpr uint32_t kNomsg = 1;

}  // namespace cw::test
