// Deadlines for thousands of owners at the cost of a list operation: a hashed wheel of buckets.
//
// A TimerNode is embedded in its owner (one per QP, per CM connection ...) and is armed for one instant; arming again moves it.
// An owner with several reasons to wake keeps the earliest here and asks itself again when it fires. Nothing is allocated and
// an idle owner costs nothing. A node fires never before its deadline and at most one tick (65.5 us) plus the caller's polling
// interval after it.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/base/intrusive_list.h"
#include "rocev2/base/time.h"

namespace cw {

struct TimerTag {};

class TimerNode : public ListNode<TimerTag> {
 public:
  [[nodiscard]] bool is_armed() const { return is_linked(); }
  [[nodiscard]] Instant deadline() const { return deadline_; }

 private:
  friend class TimerWheel;
  Instant deadline_ = Instant::never();
};

class TimerWheel {
 public:
  TimerWheel() = default;

  // Arms or moves. Instant::never() cancels.
  void arm(TimerNode& node, Instant deadline);
  void cancel(TimerNode& node);
  // Takes out one node whose deadline has passed, or nullptr. Call until nullptr; `now` never goes back.
  [[nodiscard]] TimerNode* pop_expired(Instant now);
  // No node fires before this instant; never() when nothing is armed. The earliest deadline itself when it is within one turn of
  // the wheel and the wheel is not crowded, else a lower bound. After pop_expired() has returned nullptr.
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] uint32_t armed_count() const { return armed_count_; }

 private:
  static constexpr uint32_t kTickShift = 16;  // 65.5 us
  static constexpr uint32_t kBuckets = 1024;  // one turn: 67 ms
  [[nodiscard]] static int64_t tick_of(Instant t) { return t.to_ns() >> kTickShift; }
  [[nodiscard]] static uint32_t bucket_of(int64_t tick) { return static_cast<uint32_t>(tick) & (kBuckets - 1); }

  std::array<IntrusiveList<TimerNode, TimerTag>, kBuckets> buckets_;
  int64_t current_tick_ = 0;  // every bucket before this tick has been searched
  bool started_ = false;
  uint32_t armed_count_ = 0;
};

}  // namespace cw
