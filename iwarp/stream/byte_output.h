// What a stream gives to TCP: made in batches, taken by the socket in pieces of any size. Has a batch while it is not empty.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/slab.h"
#include "iwarp/stream/send_batch.h"

namespace cw::iwarp {

class ByteOutput {
 public:
  explicit ByteOutput(Slab<SendBatch>& batches) : batches_(batches) {}
  ~ByteOutput() { drop(); }
  ByteOutput(const ByteOutput&) = delete;
  ByteOutput& operator=(const ByteOutput&) = delete;

  [[nodiscard]] bool empty() const { return batch_ == nullptr || batch_->empty(); }
  // To add to. nullptr: there are as many batches as there may be.
  [[nodiscard]] SendBatch* open() {
    if (batch_ == nullptr) {
      batch_ = batches_.create();
    }
    return batch_;
  }
  // nullptr when nothing waits.
  [[nodiscard]] SendBatch* batch() { return batch_; }
  // Bytes of the stream until now: those that have left, and those that were made.
  [[nodiscard]] uint64_t left() const { return left_; }
  [[nodiscard]] uint64_t made() const { return left_ + (batch_ == nullptr ? 0 : batch_->bytes()); }

  [[nodiscard]] uint32_t pieces(std::span<Bytes> out) const { return batch_ == nullptr ? 0 : batch_->pieces(out); }
  void sent(uint64_t count) {
    if (count == 0) {
      return;
    }
    batch_->sent(count);
    left_ += count;
    close_if_empty();
  }
  // After open(): nothing was added.
  void close_if_empty() {
    if (batch_ != nullptr && batch_->empty()) {
      drop();
    }
  }
  void drop() {
    if (batch_ != nullptr) {
      batches_.destroy(batch_);
      batch_ = nullptr;
    }
  }

 private:
  Slab<SendBatch>& batches_;
  SendBatch* batch_ = nullptr;
  uint64_t left_ = 0;
};

}  // namespace cw::iwarp
