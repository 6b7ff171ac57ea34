#include "rpcrdma/ulb/reduction.h"

#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

bool Reduction::take(uint64_t at, uint32_t length) {
  const bool moved = kind_ == Kind::kArguments ? take_argument(at + removed_bytes_, length) : take_result(length);
  removed_bytes_ += moved ? xdr_padded(length) : 0;
  return moved;
}

// RFC 8166 3.4.5.2: the chunk is as long as the item, or as the item with its roundup.
bool Reduction::take_argument(uint64_t position, uint32_t length) {
  if (next_ == count_ || parts_[next_].position != position) {
    return false;
  }
  const uint64_t bytes = parts_[next_++].bytes;
  violated_ = violated_ || (bytes != length && bytes != xdr_padded(length));
  return true;
}

// An item without content may take its chunk or not (RFC 8166 leaves it open, servers differ): it did when nothing was returned
// there.
bool Reduction::take_result(uint32_t length) {
  if (next_ == count_) {
    return false;
  }
  const Part& part = parts_[next_];
  if (length == 0) {
    next_ += part.bytes == 0 ? 1 : 0;
    return false;
  }
  ++next_;
  violated_ = violated_ || part.bytes != (part.offered ? length : 0);
  return part.offered && part.bytes > 0;
}

bool Reduction::is_sound() const {
  for (uint32_t i = next_; i < count_; ++i) {
    if (parts_[i].bytes > 0) {
      return false;
    }
  }
  return !violated_;
}

}  // namespace cw::rpcrdma
