#include "rpcrdma/xdr/xdr_reader.h"

#include <algorithm>
#include <cstring>

namespace cw::rpcrdma {

void XdrReader::leave(uint64_t offset) {
  before_ = offset;
  start_ = nullptr;
  at_ = nullptr;
  end_ = nullptr;
  next_ = nullptr;
}

void XdrReader::set_failed() {
  leave(offset());
  ok_ = false;
}

void XdrReader::advance() {
  while (at_ == end_) {
    before_ += static_cast<uint64_t>(end_ - start_);
    CW_DASSERT(next_ != nullptr);
    enter(*next_);
  }
}

uint32_t XdrReader::u32_slow() {
  uint8_t word[4] = {};
  copy(word);
  return load_be32(word);
}

const uint8_t* XdrReader::view_slow(MutableBytes scratch) {
  const size_t present = static_cast<size_t>(std::min<uint64_t>(scratch.size(), remaining()));
  copy(scratch.first(present));
  std::memset(scratch.data() + present, 0, scratch.size() - present);
  if (present < scratch.size()) {
    set_failed();
  }
  return scratch.data();
}

void XdrReader::skip_slow(uint64_t count) {
  if (!ok_ || count > remaining()) {
    set_failed();
    return;
  }
  if (count == remaining()) {
    // The data of a WRITE most often is the last of the arguments: its Buffers, of which there may be a thousand, are not met one
    // by one.
    leave(total_);
    return;
  }
  while (count > 0) {
    if (at_ == end_) {
      advance();
    }
    const uint64_t step = std::min(count, static_cast<uint64_t>(end_ - at_));
    at_ += step;
    count -= step;
  }
}

void XdrReader::skip_fixed_opaque(uint64_t count) {
  if (count > remaining()) {
    set_failed();
    return;
  }
  skip(xdr_padded(count));
}

void XdrReader::copy(MutableBytes out) {
  if (!ok_ || out.size() > remaining()) {
    set_failed();
    return;
  }
  size_t done = 0;
  while (done < out.size()) {
    if (at_ == end_) {
      advance();
    }
    const size_t step = std::min(out.size() - done, static_cast<size_t>(end_ - at_));
    std::memcpy(out.data() + done, at_, step);
    at_ += step;
    done += step;
  }
}

}  // namespace cw::rpcrdma
