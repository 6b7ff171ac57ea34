// Room in a queue pair's send queue, when a work request has to be signaled, and how many are done.
//
// Nobody needs to hear that a SEND or Write went well, except when work waits for room: then something must be on its way whose
// completion wakes the waiter. So work is unsignaled while more than half of the queue is free, and signaled from there on.
// That wakes only who waits for this queue. Room may also be missing because the queue pairs of a core share the memory of their
// work requests: is_full() tells the two apart, and in the second case the waiter has to come back by himself.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

class SendWindow {
 public:
  explicit SendWindow(verbs::QueuePair& qp) : qp_(qp) {}

  // Work requests that can be posted now.
  [[nodiscard]] uint32_t room() {
    const uint32_t room = qp_.send_queue_room();
    depth_ = std::max(depth_, room);
    return room;
  }
  // Precondition: room() has been called and gave `room` > 0; answers for the next work request.
  [[nodiscard]] bool signaled(uint32_t room) const { return (room - 1) * 2 < depth_; }
  // After room() gave 0: the queue itself is full, and a completion of its own will come.
  [[nodiscard]] bool is_full() const { return depth_ > 0 && qp_.works_pending() >= depth_; }

  // After each post.
  void note_posted(uint64_t count = 1) { posted_ += count; }
  [[nodiscard]] uint64_t posted() const { return posted_; }
  // Of these, acknowledged, answered or flushed, whether anybody was told or not.
  [[nodiscard]] uint64_t done() const { return posted_ - qp_.works_pending(); }
  // All of them are.
  [[nodiscard]] bool is_done() const { return qp_.works_pending() == 0; }

 private:
  verbs::QueuePair& qp_;
  uint32_t depth_ = 0;   // most room ever seen
  uint64_t posted_ = 0;  // works, since the beginning
};

}  // namespace cw::rpcrdma
