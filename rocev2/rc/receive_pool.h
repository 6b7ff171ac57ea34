// Receives that several queue pairs of one core share (a shared receive queue): many idle connections need not each
// keep enough for their busiest moment. A message takes one from the pool when it begins; when there is none its sender is told
// "receiver not ready" and comes back by itself, so that an empty pool delays and never deadlocks.
//
// As everywhere here a receive is a permission, not a buffer: messages arrive in the packet buffers that carried them. A message
// that is never delivered (its queue pair failed or was destroyed first) gives its receive back. The owner posts again what it
// has polled. Thread: the core whose queue pairs use it. Must outlive them.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"

namespace cw::rc {

class ReceivePool {
 public:
  // Allows `count` more messages.
  void post(uint32_t count) { available_ += count; }
  [[nodiscard]] uint32_t available() const { return available_; }

  // Asks for one event when fewer than `limit` are left; 0 asks for none (ibv_modify_srq with IBV_SRQ_LIMIT). Already
  // fewer: at once.
  void arm_limit(uint32_t limit) {
    limit_ = limit;
    note_limit();
  }
  // True once after the limit was reached (IBV_EVENT_SRQ_LIMIT_REACHED); arm again for the next.
  [[nodiscard]] bool take_limit_event() { return std::exchange(limit_reached_, false); }

  // By queue pairs only. Precondition of take: available() > 0.
  void take() {
    CW_DASSERT(available_ > 0);
    --available_;
    note_limit();
  }
  void give_back(uint32_t count) { available_ += count; }

 private:
  void note_limit() {
    if (available_ < limit_) {
      limit_ = 0;
      limit_reached_ = true;
    }
  }

  uint32_t available_ = 0;
  uint32_t limit_ = 0;  // 0: not armed
  bool limit_reached_ = false;
};

}  // namespace cw::rc
