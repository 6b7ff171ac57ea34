// Replies that were posted and not acknowledged: how many bytes of Buffers they keep from everybody else.
//
// The transport is asked how much of what was posted is done (SendWindow::done). Work ends in the order posted: what was posted
// first is given up first. An endpoint has room for two of them, and takes entries for the others from a slab that all endpoints
// of a core share: few have any. Where there is none left, or it has enough, the newest stands for several replies, and their
// bytes are given up together. Whoever takes all of the slab cannot stop the others: what waits in an endpoint's own entry is
// given up, and the newest takes its place.
#pragma once

#include <cstdint>
#include <utility>

#include "base/slab.h"

namespace cw::rpcrdma {

class ReplyHoldings {
 public:
  ReplyHoldings() = default;
  ReplyHoldings(const ReplyHoldings&) = delete;
  ReplyHoldings& operator=(const ReplyHoldings&) = delete;

  struct Entry {
    uint64_t until = 0;
    uint64_t bytes = 0;
    Entry* next = nullptr;
  };

  // A reply that is over when `until` works are done holds `bytes`, more than 0.
  void add(Slab<Entry>& entries, uint64_t until, uint64_t bytes) {
    Entry* entry = newest_bytes_ > 0 && older_count_ < kOlderMax ? take_entry(entries) : nullptr;
    if (entry != nullptr) {
      *entry = {.until = newest_until_, .bytes = std::exchange(newest_bytes_, 0)};
      entry->next = newest_of_older_ != nullptr ? std::exchange(newest_of_older_->next, entry) : entry;
      newest_of_older_ = entry;
      ++older_count_;
    }
    newest_until_ = until;
    newest_bytes_ += bytes;
  }
  // So many works are done: what has ended since the last time.
  [[nodiscard]] uint64_t settle(Slab<Entry>& entries, uint64_t done) {
    uint64_t bytes = 0;
    while (newest_of_older_ != nullptr && newest_of_older_->next->until <= done) {
      bytes += newest_of_older_->next->bytes;
      give_back_oldest(entries);
    }
    if (newest_of_older_ == nullptr && newest_until_ <= done) {
      bytes += std::exchange(newest_bytes_, 0);
    }
    return bytes;
  }
  // Forgets all. Has to be called before the end.
  void clear(Slab<Entry>& entries) {
    while (newest_of_older_ != nullptr) {
      give_back_oldest(entries);
    }
    newest_bytes_ = 0;
  }

 private:
  static constexpr uint32_t kOlderMax = 31;

  [[nodiscard]] Entry* take_entry(Slab<Entry>& entries) { return newest_of_older_ == nullptr ? &own_ : entries.create(); }
  void give_back_oldest(Slab<Entry>& entries) {
    Entry* entry = std::exchange(newest_of_older_->next, newest_of_older_->next->next);
    if (entry == newest_of_older_) {
      newest_of_older_ = nullptr;
    }
    if (entry != &own_) {
      entries.destroy(entry);
    }
    --older_count_;
  }

  uint64_t newest_until_ = 0;
  uint64_t newest_bytes_ = 0;         // 0: there is none
  Entry own_;                         // the first of those before it, when there was none yet
  Entry* newest_of_older_ = nullptr;  // of those before it, a ring: its next is the oldest
  uint32_t older_count_ = 0;
};

}  // namespace cw::rpcrdma
