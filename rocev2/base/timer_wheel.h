// Deadlines for thousands of owners at the cost of a list operation or two: a hashed wheel of buckets, and a finer one for the
// tick that is under way, so that nobody who looks for what is due looks through what is not.
//
// A TimerNode is embedded in its owner (one per QP, per CM connection ...) and is armed for one instant; arming again moves it.
// An owner with several reasons to wake keeps the earliest here and asks itself again when it fires. Nothing is allocated and
// an idle owner costs nothing. A node fires at the first poll after its deadline.
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
  using Bucket = IntrusiveList<TimerNode, TimerTag>;
  static constexpr uint32_t kTickShift = 16;  // 65.5 us
  static constexpr uint32_t kBuckets = 1024;  // one turn: 67 ms
  static constexpr uint32_t kFineShift = 10;  // 1 us
  static constexpr uint32_t kFineBuckets = 1u << (kTickShift - kFineShift);
  [[nodiscard]] static int64_t tick_of(Instant t) { return t.to_ns() >> kTickShift; }
  [[nodiscard]] static uint32_t bucket_of(int64_t tick) { return static_cast<uint32_t>(tick) & (kBuckets - 1); }
  [[nodiscard]] static uint32_t fine_bucket_of(Instant t) {
    return static_cast<uint32_t>(t.to_ns() >> kFineShift) & (kFineBuckets - 1);
  }
  [[nodiscard]] TimerNode* first_due(Instant now);
  void put_into_fine(TimerNode& node, uint32_t bucket);
  void begin_tick(int64_t tick);

  static_assert(kFineBuckets == 64);  // a bit each in fine_used_

  std::array<Bucket, kBuckets> buckets_;   // of ticks after the current one
  std::array<Bucket, kFineBuckets> fine_;  // of the current tick, and what was due before it
  uint64_t fine_used_ = 0;                 // the others of fine_ are empty
  int64_t current_tick_ = 0;
  uint32_t fine_at_ = 0;  // what is due before this fine bucket begins is in it
  bool started_ = false;  // nobody has said yet what time it is: everything is in buckets_
  uint32_t armed_count_ = 0;
};

}  // namespace cw
