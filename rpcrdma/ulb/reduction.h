// What the header of a message says was taken out of its stream, checked off against the items that may be (RFC 8166 6.1).
//
// A walk over the stream as it was received or is to be sent meets the eligible items in order and asks of each whether its
// content
// has been moved. What the walk leaves over was moved without being eligible; an item that had a Write chunk and is in the
// stream all
// the same was not moved although it had to be. Both are violations.
#pragma once

#include <array>
#include <cstdint>

#include "rpcrdma/wire/chunk_list.h"

namespace cw::rpcrdma {

class Reduction {
 public:
  // Arguments are named by their Position, results by the order of the Write chunks (RFC 8166 4.3.2.1).
  enum class Kind : uint8_t { kArguments, kResults };
  static constexpr uint32_t kPartsMax = kReadSegmentsMax;
  static_assert(kPartsMax >= kWriteChunksMax);

  explicit Reduction(Kind kind) : kind_(kind) {}

  // A Read chunk, in ascending order of Positions; `bytes` with or without roundup.
  void add_read_chunk(uint64_t position, uint64_t bytes) { add({.position = position, .bytes = bytes, .offered = true}); }
  // A Write chunk and what was returned in it; `offered` = it had room to offer, it is no empty chunk.
  void add_write_chunk(bool offered, uint64_t bytes) { add({.position = 0, .bytes = bytes, .offered = offered}); }

  // The walk stands behind the length word of an eligible item, at byte `at` of the reduced stream. True: the content is not in
  // it.
  [[nodiscard]] bool take(uint64_t at, uint32_t length);
  // After the walk: everything that was moved was eligible, all that had to be moved was, lengths agree.
  [[nodiscard]] bool is_sound() const;

 private:
  struct Part {
    uint64_t position;
    uint64_t bytes;
    bool offered;
  };
  void add(const Part& part) {
    if (count_ < kPartsMax) {
      parts_[count_++] = part;
    } else {
      violated_ = true;
    }
  }
  [[nodiscard]] bool take_argument(uint64_t position, uint32_t length);
  [[nodiscard]] bool take_result(uint32_t length);

  Kind kind_;
  bool violated_ = false;
  uint32_t count_ = 0;
  uint32_t next_ = 0;                  // first part that is not checked off
  uint64_t removed_bytes_ = 0;         // content and roundup of the items before
  std::array<Part, kPartsMax> parts_;  // left uninitialised beyond `count_`
};

}  // namespace cw::rpcrdma
