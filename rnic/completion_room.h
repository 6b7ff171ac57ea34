// Room in a completion queue, as queue pairs are promised it: the queue then cannot run over, which would end all that are on it.
//
// Completions of a queue pair that is destroyed may lie in the queue yet. Some devices (rxe, siw) leave them there, so its room
// is free only when the queue has been found empty since.
#pragma once

#include <cstdint>

#include "base/assert.h"

namespace cw::rnic {

class CompletionRoom {
 public:
  explicit CompletionRoom(uint32_t entries) : entries_(entries) {}

  // For a queue pair to come. False: there is not so much.
  [[nodiscard]] bool reserve(uint32_t entries) {
    if (entries > entries_ - reserved_) {
      return false;
    }
    reserved_ += entries;
    return true;
  }
  // Of one that was not made.
  void cancel(uint32_t entries) {
    CW_ASSERT(entries <= reserved_ - leaving_);
    reserved_ -= entries;
  }
  // Of one that was destroyed.
  void leave(uint32_t entries) {
    CW_ASSERT(entries <= reserved_ - leaving_);
    leaving_ += entries;
  }
  // The queue has just been found empty, and nobody has left since.
  void settle() {
    reserved_ -= leaving_;
    leaving_ = 0;
  }
  // By those who have left, too.
  [[nodiscard]] uint32_t reserved() const { return reserved_; }

 private:
  uint32_t entries_;
  uint32_t reserved_ = 0;
  uint32_t leaving_ = 0;  // of these
};

}  // namespace cw::rnic
