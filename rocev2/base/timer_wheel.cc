#include "rocev2/base/timer_wheel.h"

#include <algorithm>

namespace cw {
namespace {

// Nodes that next_deadline() looks at before it is content with a bound. More share a tick on crowded wheels only, where
// something is due all the time.
constexpr uint32_t kLooksMax = 64;

}  // namespace

void TimerWheel::arm(TimerNode& node, Instant deadline) {
  cancel(node);
  if (deadline.is_never()) {
    return;
  }
  node.deadline_ = deadline;
  const int64_t tick = tick_of(deadline);
  // The first node says where the search begins; one that is due before that moves the search back, or next_deadline() would
  // promise too much. Buckets that are searched again cost little and hide nothing.
  if (!started_ || tick < current_tick_) {
    current_tick_ = tick;
    started_ = true;
  }
  buckets_[bucket_of(tick)].push_back(node);
  ++armed_count_;
}

void TimerWheel::cancel(TimerNode& node) {
  if (!node.is_armed()) {
    return;
  }
  node.unlink();
  node.deadline_ = Instant::never();
  --armed_count_;
}

TimerNode* TimerWheel::pop_expired(Instant now) {
  const int64_t now_tick = tick_of(now);
  if (armed_count_ == 0) {
    current_tick_ = std::max(current_tick_, now_tick);
    return nullptr;
  }
  // After a long pause one turn over all buckets finds everything that is due.
  if (now_tick - current_tick_ > int64_t{kBuckets}) {
    current_tick_ = now_tick - int64_t{kBuckets};
  }
  while (true) {
    auto& bucket = buckets_[bucket_of(current_tick_)];
    for (TimerNode* node = bucket.front(); node != nullptr; node = bucket.next(*node)) {
      if (node->deadline_ <= now) {
        node->unlink();
        node->deadline_ = Instant::never();
        --armed_count_;
        return node;
      }
    }
    if (current_tick_ >= now_tick) {
      return nullptr;
    }
    ++current_tick_;
  }
}

Instant TimerWheel::next_deadline() const {
  if (armed_count_ == 0) {
    return Instant::never();
  }
  uint32_t looks = 0;
  for (uint32_t i = 0; i < kBuckets; ++i) {
    const int64_t tick = current_tick_ + i;
    const Instant tick_end = Instant::from_ns((tick + 1) << kTickShift);
    const auto& bucket = buckets_[bucket_of(tick)];
    Instant earliest = Instant::never();
    for (const TimerNode* node = bucket.front(); node != nullptr; node = bucket.next(*node)) {
      if (++looks > kLooksMax) {
        return Instant::from_ns(tick << kTickShift);
      }
      earliest = earlier(earliest, node->deadline_);
    }
    if (earliest < tick_end) {
      return earliest;
    }
    // Empty, or all of later turns of the wheel.
  }
  return Instant::from_ns((current_tick_ + kBuckets) << kTickShift);
}

}  // namespace cw
