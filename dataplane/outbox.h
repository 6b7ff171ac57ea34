// The sending end of a ring between two threads: values are collected and go into the ring together, so that the lines of the
// ring move between the CPUs once per burst and not once per value.
//
//   sender:   if (outbox.has_room()) { outbox.put(value); } ...   at the end of the burst: outbox.publish();
//   receiver: ring.pop(burst); sleeps as wakeup.h says
//
// Values leave in the order in which they were put. A full batch goes at once; what finds the ring full stays here, in front of
// newer ones, until a later publish(). Belongs to one thread, and lies on a line that no other thread has anything on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/value_ring.h"
#include "dataplane/wakeup.h"

namespace cw::dataplane {

template <typename T>
class alignas(RTE_CACHE_LINE_SIZE) Outbox {
 public:
  static constexpr uint32_t kBatch = 32;

  // `wakeup` is the receiver's. Both outlive the outbox.
  Outbox(ValueRing<T>& ring, Wakeup& wakeup) : ring_(&ring), wakeup_(&wakeup) { values_.reserve(kBatch); }

  // Whether one more value is sure to go with the next publish(). Only where nobody else pushes to this ring. Of a sender that
  // always asks before put() there is never a batch here, and nothing is allocated.
  [[nodiscard]] bool has_room() {
    if (room_ <= waiting().size()) {
      room_ = ring_->room();  // the receiver's line, read when what we know of it is used up
    }
    return room_ > waiting().size();
  }
  void put(const T& value) {
    values_.push_back(value);
    if (waiting().size() >= kBatch) {
      (void)publish();
    }
  }
  // Gives the receiver what its ring can take, and wakes it. True when nothing is left here.
  bool publish() {
    if (values_.empty()) {
      return true;
    }
    const uint32_t pushed = ring_->push(waiting(), room_);
    if (pushed > 0) {
      wakeup_->wake();
    }
    first_ += pushed;
    if (first_ < values_.size()) {
      return false;
    }
    values_.clear();
    first_ = 0;
    return true;
  }
  // Oldest first.
  [[nodiscard]] std::span<const T> waiting() const { return std::span(values_).subspan(first_); }

 private:
  ValueRing<T>* ring_;
  Wakeup* wakeup_;
  std::vector<T> values_;
  size_t first_ = 0;   // in values_: those before it are in the ring
  uint32_t room_ = 0;  // at least as much is free in the ring
};

}  // namespace cw::dataplane
