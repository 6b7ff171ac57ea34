// A bounded XDR writer into memory of the caller (RFC 4506): for headers, small replies and tests. It never writes past the end;
// the first item that does not fit makes it fail for good, so that an encoder may check ok() once. Padding is always zero.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {

class XdrWriter {
 public:
  explicit XdrWriter(MutableBytes out) : out_(out) {}

  void u32(uint32_t value) {
    if (uint8_t* at = take(4)) {
      store_be32(at, value);
    }
  }
  void u64(uint64_t value) {
    if (uint8_t* at = take(8)) {
      store_be64(at, value);
    }
  }
  void boolean(bool value) { u32(value ? 1 : 0); }
  // opaque<>: length word, content, padding. Fails when the content is longer than a length word can say.
  void opaque(Bytes content) {
    if (content.size() > UINT32_MAX) {
      ok_ = false;
      return;
    }
    u32(static_cast<uint32_t>(content.size()));
    fixed_opaque(content);
  }
  // opaque[n]: content and padding.
  void fixed_opaque(Bytes content) {
    raw(content);
    zeros(xdr_pad(content.size()));
  }
  // Bytes as they are: something already encoded.
  void raw(Bytes raw) {
    uint8_t* at = take(raw.size());
    if (at != nullptr && !raw.empty()) {
      std::memcpy(at, raw.data(), raw.size());
    }
  }
  void zeros(uint64_t count) {
    uint8_t* at = take(count);
    if (at != nullptr && count > 0) {
      std::memset(at, 0, static_cast<size_t>(count));
    }
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] uint64_t offset() const { return used_; }  // bytes written
  [[nodiscard]] Bytes written() const { return out_.first(used_); }

 private:
  uint8_t* take(uint64_t count) {
    if (!ok_ || count > out_.size() - used_) {
      ok_ = false;
      return nullptr;
    }
    uint8_t* at = out_.data() + used_;
    used_ += static_cast<size_t>(count);
    return at;
  }

  MutableBytes out_;
  size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace cw::rpcrdma
