// A bounded XDR cursor (RFC 4506) over a Chain or over contiguous bytes: never reads past the end, allocates nothing. After the
// first failure every further read fails too and gives 0, so that a decoder may check ok() once at the end of a group.
//
// The fast path of every read is inline and costs one comparison: the word lies in the current Buffer. Words that straddle
// Buffers, and the end of the input, take the slow path.
#pragma once

#include <cstdint>

#include "base/buffer.h"

namespace cw::rpcrdma {

// Bytes that XDR content of `bytes` occupies with its roundup.
[[nodiscard]] constexpr uint64_t xdr_padded(uint64_t bytes) {
  return (bytes + 3) & ~uint64_t{3};
}
// The roundup bytes alone: 0..3.
[[nodiscard]] constexpr uint32_t xdr_pad(uint64_t bytes) {
  return static_cast<uint32_t>(xdr_padded(bytes) - bytes);
}

class XdrReader {
 public:
  // The chain must outlive the reader and keep its Buffers.
  explicit XdrReader(const Chain& chain) : total_(chain.bytes()) {
    if (chain.head() != nullptr) {
      enter(*chain.head());
    }
  }
  explicit XdrReader(Bytes bytes) : start_(bytes.data()), at_(start_), end_(start_ + bytes.size()), total_(bytes.size()) {}

  // 0 when the input ends before.
  uint32_t u32() {
    if (end_ - at_ >= 4) [[likely]] {
      const uint32_t value = load_be32(at_);
      at_ += 4;
      return value;
    }
    return u32_slow();
  }
  uint64_t u64() {
    const uint64_t high = u32();
    return (high << 32) | u32();
  }
  bool boolean() { return u32() != 0; }
  // Skips bytes (no padding).
  void skip(uint64_t count) {
    if (count <= static_cast<uint64_t>(end_ - at_)) [[likely]] {
      at_ += count;
      return;
    }
    skip_slow(count);
  }
  // Skips an opaque<max>: length word, content, padding. Returns the length. Fails when longer than `max`.
  uint32_t skip_opaque(uint32_t max) {
    const uint32_t length = u32();
    if (length > max) {
      set_failed();
      return 0;
    }
    skip(xdr_padded(length));
    return length;
  }
  // Skips fixed opaque of `count` bytes and its padding.
  void skip_fixed_opaque(uint64_t count);
  // Copies bytes out (no padding). Nothing is copied when fewer are left.
  void copy(MutableBytes out);
  // The next bytes, as many as `scratch` has, wherever they lie: where they are, or copied into `scratch`. When fewer are left
  // those come first in `scratch`, and the read fails.
  [[nodiscard]] const uint8_t* view(MutableBytes scratch) {
    if (static_cast<size_t>(end_ - at_) >= scratch.size()) [[likely]] {
      const uint8_t* here = at_;
      at_ += scratch.size();
      return here;
    }
    return view_slow(scratch);
  }

  [[nodiscard]] bool ok() const { return ok_; }
  void set_failed();
  [[nodiscard]] uint64_t offset() const { return before_ + static_cast<uint64_t>(at_ - start_); }  // bytes consumed
  [[nodiscard]] uint64_t remaining() const { return total_ - offset(); }                           // bytes left

 private:
  void enter(const Buffer& buffer) {
    start_ = buffer.data;
    at_ = start_;
    end_ = start_ + buffer.size;
    next_ = buffer.next;
  }
  // Is at `offset` from now on, and in no Buffer.
  void leave(uint64_t offset);
  // Moves on to the next Buffer that holds something. Precondition: the present one is used up and bytes remain.
  void advance();
  uint32_t u32_slow();
  const uint8_t* view_slow(MutableBytes scratch);
  void skip_slow(uint64_t count);

  const uint8_t* start_ = nullptr;  // of the current Buffer
  const uint8_t* at_ = nullptr;     // next byte to read
  const uint8_t* end_ = nullptr;    // behind the current Buffer; == at_ after a failure, so that the fast path is never taken
  const Buffer* next_ = nullptr;    // Buffer after the current one
  uint64_t before_ = 0;             // bytes in the Buffers before the current one
  uint64_t total_;
  bool ok_ = true;
};

}  // namespace cw::rpcrdma
