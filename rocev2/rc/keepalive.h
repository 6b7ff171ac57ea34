// When the peer was last heard, and how often it has been asked since, while idle, whether it is still there. When it is asked
// stands in retransmit.cc.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace cw::rc {

class Keepalive {
 public:
  // `interval`: idle time after which the peer is asked; 0: never.
  explicit Keepalive(Duration interval = Duration()) : interval_(interval) {}

  [[nodiscard]] Duration interval() const { return interval_; }
  [[nodiscard]] bool is_enabled() const { return interval_ != Duration(); }
  // The last packet of the peer that was of use, or our first turn; 0: neither yet.
  [[nodiscard]] Instant alive_at() const { return alive_at_; }
  // Asked since alive_at().
  [[nodiscard]] uint8_t count() const { return count_; }
  // When it was last asked. Precondition: count() > 0.
  [[nodiscard]] Instant asked_at() const { return asked_at_; }
  // A keepalive is to be sent.
  [[nodiscard]] bool is_due() const { return due_; }

  // Our turn: from the first on the peer is watched.
  void watch_from(Instant now) { alive_at_ = alive_at_ == Instant() ? now : alive_at_; }
  // A packet of use has come.
  void on_heard(Instant now) {
    alive_at_ = now;
    count_ = 0;
  }
  void ask(Instant now) {
    ++count_;
    asked_at_ = now;
    due_ = true;
  }
  // It has been sent, or there is no need.
  void clear_due() { due_ = false; }

 private:
  Instant alive_at_;
  Duration interval_;
  Instant asked_at_;  // valid when count_ > 0
  uint8_t count_ = 0;
  bool due_ = false;
};

}  // namespace cw::rc
