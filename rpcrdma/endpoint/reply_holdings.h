// Replies that were posted and not acknowledged: how many bytes of Buffers they keep from everybody else.
//
// The transport is asked how much of what was posted is done (SendWindow::done). Work ends in the order posted: what was posted
// first is given up first. An endpoint has room for one of them, and takes entries for the others from a slab that all endpoints
// of a core share: few have any. Where there is none left, or it has enough, one entry stands for several replies, and their
// bytes are given up together.
#pragma once

#include <cstdint>
#include <utility>

#include "base/slab.h"

namespace cw::rpcrdma {

class ReplyHoldings {
 public:
  struct Entry {
    uint64_t until = 0;
    uint64_t bytes = 0;
    Entry* next = nullptr;
  };

  // A reply that is over when `until` works are done holds `bytes`, more than 0.
  void add(Slab<Entry>& entries, uint64_t until, uint64_t bytes) {
    if (newest_.bytes > 0 && older_count_ < kOlderMax) {
      if (Entry* entry = entries.create(newest_); entry != nullptr) {
        (oldest_ == nullptr ? oldest_ : newest_of_older_->next) = entry;
        newest_of_older_ = entry;
        ++older_count_;
        newest_.bytes = 0;
      }
    }
    newest_.until = until;
    newest_.bytes += bytes;
  }
  // So many works are done: what has ended since the last time.
  [[nodiscard]] uint64_t settle(Slab<Entry>& entries, uint64_t done) {
    uint64_t bytes = 0;
    while (oldest_ != nullptr && oldest_->until <= done) {
      bytes += oldest_->bytes;
      give_back_oldest(entries);
    }
    if (oldest_ == nullptr && newest_.until <= done) {
      bytes += std::exchange(newest_.bytes, 0);
    }
    return bytes;
  }
  // Forgets all. Has to be called before the end.
  void clear(Slab<Entry>& entries) {
    while (oldest_ != nullptr) {
      give_back_oldest(entries);
    }
    newest_.bytes = 0;
  }

 private:
  static constexpr uint32_t kOlderMax = 31;

  void give_back_oldest(Slab<Entry>& entries) {
    entries.destroy(std::exchange(oldest_, oldest_->next));
    --older_count_;
  }

  Entry newest_;                      // of 0 bytes: there is none
  Entry* oldest_ = nullptr;           // of those before it
  Entry* newest_of_older_ = nullptr;  // valid when there is an oldest
  uint32_t older_count_ = 0;
};

}  // namespace cw::rpcrdma
