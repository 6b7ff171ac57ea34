// FPDUs that were made and that TCP has not taken yet: headers and trailers in memory of the batch, payload where it lies. A
// stream has a batch only while it has something to send, so that idle streams cost none.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/bytes.h"

namespace cw::iwarp {

class SendBatch {
 public:
  static constexpr uint32_t kPiecesMax = 192;
  static constexpr uint32_t kScratchBytes = 4096;
  // More would only wait: the socket's buffer holds about as much.
  static constexpr uint64_t kBytesMax = 256u << 10;

  [[nodiscard]] bool empty() const { return first_ == count_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // Whether an FPDU may be begun: `pieces` of payload, headers and trailers of `scratch` bytes.
  [[nodiscard]] bool has_room(uint32_t pieces, uint32_t scratch) const {
    return count_ + pieces + 2 <= kPiecesMax && scratch_used_ + scratch <= kScratchBytes && bytes_ < kBytesMax;
  }

  // Bytes of the batch's own, to be written before anything else is added; they leave in this place. Precondition: has_room().
  [[nodiscard]] MutableBytes add_scratch(uint32_t size);
  // Bytes that stay where they are until they have left. Precondition: has_room().
  void add_view(Bytes piece);
  // Keeps what add_view() refers to alive until the whole batch has left.
  void keep(Chain&& payload) { kept_.append(std::move(payload)); }
  // What is kept alive so far was made into FPDUs whose last byte is the present one.
  [[nodiscard]] Chain& kept() { return kept_; }

  // What leaves next, as far as `out` reaches. Returns how many pieces.
  [[nodiscard]] uint32_t pieces(std::span<Bytes> out) const;
  // So many bytes have left. Precondition: count <= bytes().
  void sent(uint64_t count);

 private:
  std::array<Bytes, kPiecesMax> pieces_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t scratch_used_ = 0;
  uint64_t bytes_ = 0;
  Chain kept_;
  std::array<uint8_t, kScratchBytes> scratch_;
};

inline MutableBytes SendBatch::add_scratch(uint32_t size) {
  CW_DASSERT(scratch_used_ + size <= kScratchBytes);
  const MutableBytes own(scratch_.data() + scratch_used_, size);
  scratch_used_ += size;
  bytes_ += size;
  // A trailer and the header behind it lie side by side: one piece.
  if (count_ > first_ && pieces_[count_ - 1].data() + pieces_[count_ - 1].size() == own.data()) {
    pieces_[count_ - 1] = Bytes(pieces_[count_ - 1].data(), pieces_[count_ - 1].size() + size);
  } else {
    CW_DASSERT(count_ < kPiecesMax);
    pieces_[count_++] = own;
  }
  return own;
}

inline void SendBatch::add_view(Bytes piece) {
  if (piece.empty()) {
    return;
  }
  CW_DASSERT(count_ < kPiecesMax);
  pieces_[count_++] = piece;
  bytes_ += piece.size();
}

inline uint32_t SendBatch::pieces(std::span<Bytes> out) const {
  uint32_t given = 0;
  for (uint32_t i = first_; i < count_ && given < out.size(); ++i) {
    out[given++] = pieces_[i];
  }
  return given;
}

inline void SendBatch::sent(uint64_t count) {
  CW_DASSERT(count <= bytes_);
  bytes_ -= count;
  while (count > 0) {
    Bytes& piece = pieces_[first_];
    if (count < piece.size()) {
      piece = piece.subspan(count);
      return;
    }
    count -= piece.size();
    ++first_;
  }
  if (first_ == count_) {
    first_ = 0;
    count_ = 0;
    scratch_used_ = 0;
    kept_.clear();
  }
}

}  // namespace cw::iwarp
