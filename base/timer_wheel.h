// Deadlines for thousands of owners at the cost of a store: a hashed wheel of buckets, and a finer one for the tick that is under
// way, so that nobody who looks for what is due looks through what is not.
//
// A TimerNode is embedded in its owner (one per QP, per CM connection ...) and is armed for one instant; arming again moves it.
// An owner with several reasons to wake keeps the earliest here and asks itself again when it fires. A node fires at the first
// poll after its deadline.
//
// Deadlines and links lie in one dense table of the wheel, not in the owners, and a deadline that moves away stays in its bucket
// until that is looked at: thousands of queue pairs whose packets are acknowledged long before their timers would fire cost a
// store each, and turning the wheel touches none of them. An owner that is never armed costs nothing; the first arming gives it
// its place in the table until it is destroyed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/table_memory.h"
#include "base/time.h"

namespace cw {

class TimerWheel;

class TimerNode {
 public:
  TimerNode() = default;
  TimerNode(const TimerNode&) = delete;
  TimerNode& operator=(const TimerNode&) = delete;
  ~TimerNode();
  [[nodiscard]] bool is_armed() const { return !deadline().is_never(); }
  [[nodiscard]] Instant deadline() const;  // never() when not armed

 private:
  friend class TimerWheel;
  TimerWheel* wheel_ = nullptr;  // of its place in the table
  uint32_t place_ = 0;
};

class TimerWheel {
 public:
  // There is room for `nodes_max` from the start; with more of them the table grows.
  explicit TimerWheel(uint32_t nodes_max = 0);
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;
  ~TimerWheel();

  // Arms or moves. Instant::never() disarms. A node belongs to the first wheel that arms it.
  void arm(TimerNode& node, Instant deadline) {
    if (node.wheel_ == nullptr) {
      enrol(node);
    }
    Entry& entry = table_[node.place_];
    if (entry.is_linked() && deadline >= entry.visit_at) {
      armed_count_ += static_cast<uint32_t>(entry.deadline.is_never()) - static_cast<uint32_t>(deadline.is_never());
      entry.deadline = deadline;
      return;
    }
    move(node.place_, deadline);
  }
  void cancel(TimerNode& node) {
    if (node.wheel_ != nullptr) {
      arm(node, Instant::never());
    }
  }
  // Takes out one node whose deadline has passed, or nullptr. Call until nullptr; `now` never goes back.
  [[nodiscard]] TimerNode* pop_expired(Instant now) { return now < quiet_until_ ? nullptr : look_for_expired(now); }
  // No node fires before this instant; never() when nothing is armed. The earliest deadline itself when it is within one turn of
  // the wheel and the wheel is not crowded, else a lower bound. After pop_expired() has returned nullptr.
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] uint32_t armed_count() const { return armed_count_; }

 private:
  friend class TimerNode;
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  static constexpr uint32_t kTickShift = 16;  // 65.5 us
  static constexpr uint32_t kBuckets = 1024;  // one turn: 67 ms
  static constexpr uint32_t kFineShift = 10;  // 1 us
  static constexpr uint32_t kFineBuckets = 1u << (kTickShift - kFineShift);
  static_assert(kFineBuckets == 64);  // a bit each in fine_used_
  // Where the buckets' roots and the owners' entries begin in the table.
  static constexpr uint32_t kFine = kBuckets;  // of the current tick, and what was due before it
  static constexpr uint32_t kOwners = kBuckets + kFineBuckets;

  // Of an owner, or the root of a bucket, which is a ring. At an owner in no bucket `next` leads through the free places.
  struct Entry {
    Instant deadline = Instant::never();
    Instant visit_at = Instant::never();  // its bucket is looked at then, or before: a later deadline may stay in it
    uint32_t next = kNowhere;
    uint32_t prev = kNowhere;
    [[nodiscard]] bool is_linked() const { return prev != kNowhere; }
  };

  [[nodiscard]] static int64_t tick_of(Instant t) { return t.to_ns() >> kTickShift; }
  [[nodiscard]] static uint32_t bucket_of(int64_t tick) { return static_cast<uint32_t>(tick) & (kBuckets - 1); }
  [[nodiscard]] static uint32_t fine_bucket_of(Instant t) {
    return static_cast<uint32_t>(t.to_ns() >> kFineShift) & (kFineBuckets - 1);
  }
  void enrol(TimerNode& node);
  void strike(TimerNode& node);
  void move(uint32_t place, Instant deadline);
  void link(uint32_t place);
  void link_fine(uint32_t place, uint32_t bucket);
  void insert(uint32_t root, uint32_t place, Instant visit_at);
  void unlink(uint32_t place);
  [[nodiscard]] TimerNode* look_for_expired(Instant now);
  [[nodiscard]] uint32_t first_due(Instant now);
  [[nodiscard]] Instant next_look() const;
  void begin_tick(int64_t tick);
  [[nodiscard]] uint32_t next_used(uint32_t ahead) const;

  std::vector<Entry, TableAllocator<Entry>> table_;
  std::vector<TimerNode*, TableAllocator<TimerNode*>> owners_;  // of table_[kOwners] and on
  uint32_t free_ = kNowhere;
  uint64_t fine_used_ = 0;                      // the other fine buckets are empty
  std::array<uint64_t, kBuckets / 64> used_{};  // the same of the buckets
  int64_t current_tick_ = 0;
  uint32_t fine_at_ = 0;  // what is due before this fine bucket begins is in it
  bool started_ = false;  // nobody has said yet what time it is
  // Nothing is due before, and no bucket has to be looked at: poll cores ask at every turn.
  Instant quiet_until_ = Instant::from_ns(INT64_MIN);
  uint32_t armed_count_ = 0;
  uint32_t linked_count_ = 0;  // those, and what has been disarmed and is still in its bucket
};

inline Instant TimerNode::deadline() const {
  return wheel_ == nullptr ? Instant::never() : wheel_->table_[place_].deadline;
}

}  // namespace cw
