// The calls of an open loop that are due and wait for a connection that takes them, in the order of their instants; bounded.
//
// Latency is counted from the instant at which a call was due, not from when it could be sent: time spent in here is the caller's
// wait, and leaving it out is what is called coordinated omission. A call that finds the queue full is dropped and counted; then
// the percentiles flatter the server, and the report says so.
#pragma once

#include <cstdint>

#include "apps/load/arrival_schedule.h"
#include "base/ring.h"

namespace cw::load {

class OpenLoop {
 public:
  OpenLoop(const ArrivalSchedule& schedule, uint32_t queue_max) : schedule_(schedule), due_(queue_max) {}

  void start(Instant now) { schedule_.start(now); }
  // Queues what is due by now.
  void advance(Instant now) {
    while (schedule_.next() <= now && !schedule_.next().is_never()) {
      ++arrived_;
      if (!due_.push(schedule_.next())) {
        ++overflowed_;
      }
      schedule_.take();
    }
  }
  [[nodiscard]] bool empty() const { return due_.empty(); }
  // When the oldest waiting call was due. Precondition: !empty().
  [[nodiscard]] Instant front() const { return due_.front(); }
  void pop() { (void)due_.pop(); }
  [[nodiscard]] uint32_t queued() const { return due_.size(); }
  [[nodiscard]] Instant next_due() const { return schedule_.next(); }
  [[nodiscard]] uint64_t arrived() const { return arrived_; }
  [[nodiscard]] uint64_t overflowed() const { return overflowed_; }
  // No more calls; those that wait are forgotten.
  void stop() {
    while (!due_.empty()) {
      pop();
    }
  }

 private:
  ArrivalSchedule schedule_;
  Ring<Instant> due_;
  uint64_t arrived_ = 0;
  uint64_t overflowed_ = 0;
};

}  // namespace cw::load
