// Replies that were posted and not acknowledged: how many bytes of Buffers they keep from everybody else.
//
// The transport is asked how much of what was posted is done (SendWindow::done). Work ends in the order posted: what was posted
// first is given up first.
#pragma once

#include <array>
#include <cstdint>

namespace cw::rpcrdma {

class ReplyHoldings {
 public:
  // A reply that is over when `until` works are done holds `bytes`.
  void add(uint64_t until, uint64_t bytes) {
    if (count_ == kEntriesMax) {  // the newest takes it along
      Entry& newest = entries_[(first_ + count_ - 1) % kEntriesMax];
      newest = {.until = until, .bytes = newest.bytes + bytes};
    } else {
      entries_[(first_ + count_++) % kEntriesMax] = {.until = until, .bytes = bytes};
    }
  }
  // So many works are done: what has ended since the last time.
  [[nodiscard]] uint64_t settle(uint64_t done) {
    uint64_t bytes = 0;
    for (; count_ > 0 && entries_[first_].until <= done; --count_) {
      bytes += entries_[first_].bytes;
      first_ = (first_ + 1) % kEntriesMax;
    }
    return bytes;
  }

 private:
  static constexpr uint32_t kEntriesMax = 32;
  struct Entry {
    uint64_t until = 0;
    uint64_t bytes = 0;
  };
  std::array<Entry, kEntriesMax> entries_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

}  // namespace cw::rpcrdma
