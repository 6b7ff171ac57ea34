#include "rocev2/base/timer_wheel.h"

#include <algorithm>
#include <bit>

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
  if (!started_) {
    current_tick_ = armed_count_ == 0 ? tick - 1 : std::min(current_tick_, tick - 1);
  }
  ++armed_count_;
  if (tick > current_tick_) {
    buckets_[bucket_of(tick)].push_back(node);
  } else {
    put_into_fine(node, tick < current_tick_ ? fine_at_ : std::max(fine_at_, fine_bucket_of(deadline)));
  }
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
  if (!started_) {
    started_ = true;
    current_tick_ = armed_count_ == 0 ? now_tick : std::min(current_tick_, now_tick);
  }
  if (armed_count_ == 0) {
    if (now_tick > current_tick_) {
      current_tick_ = now_tick;
      fine_at_ = 0;
    }
    return nullptr;
  }
  while (true) {
    if (TimerNode* node = first_due(now)) {
      node->unlink();
      node->deadline_ = Instant::never();
      --armed_count_;
      return node;
    }
    if (current_tick_ >= now_tick) {
      return nullptr;
    }
    // After a long pause one turn over all buckets finds everything that is due.
    begin_tick(std::max(current_tick_ + 1, now_tick - int64_t{kBuckets - 1}));
  }
}

// In the fine buckets.
TimerNode* TimerWheel::first_due(Instant now) {
  const uint32_t last = tick_of(now) > current_tick_ ? kFineBuckets - 1 : fine_bucket_of(now);
  uint64_t used = fine_used_ & (~uint64_t{0} >> (kFineBuckets - 1 - last));
  while (used != 0) {
    const uint32_t at = static_cast<uint32_t>(std::countr_zero(used));
    Bucket& bucket = fine_[at];
    for (TimerNode* node = bucket.front(); node != nullptr; node = bucket.next(*node)) {
      if (node->deadline_ <= now) {
        return node;
      }
    }
    used &= used - 1;
    if (bucket.empty()) {
      fine_used_ &= ~(uint64_t{1} << at);
    }
  }
  fine_at_ = std::max(fine_at_, last);
  return nullptr;
}

void TimerWheel::put_into_fine(TimerNode& node, uint32_t bucket) {
  fine_[bucket].push_back(node);
  fine_used_ |= uint64_t{1} << bucket;
}

void TimerWheel::begin_tick(int64_t tick) {
  current_tick_ = tick;
  fine_at_ = 0;
  Bucket& bucket = buckets_[bucket_of(tick)];
  for (TimerNode* node = bucket.front(); node != nullptr;) {
    TimerNode* const next = bucket.next(*node);
    if (const int64_t due = tick_of(node->deadline_); due <= tick) {
      node->unlink();
      put_into_fine(*node, due < tick ? 0 : fine_bucket_of(node->deadline_));
    }
    node = next;
  }
}

Instant TimerWheel::next_deadline() const {
  if (armed_count_ == 0) {
    return Instant::never();
  }
  uint32_t looks = 0;
  // The earliest of a bucket, never() when that is not before `end`, or `bound` when there are too many to look at.
  const auto earliest_of = [&looks](const Bucket& bucket, Instant bound, Instant end) {
    Instant earliest = Instant::never();
    for (const TimerNode* node = bucket.front(); node != nullptr; node = bucket.next(*node)) {
      if (++looks > kLooksMax) {
        return bound;
      }
      earliest = earlier(earliest, node->deadline_);
    }
    return earliest < end ? earliest : Instant::never();
  };
  for (uint64_t used = fine_used_; used != 0; used &= used - 1) {
    const auto at = std::countr_zero(used);
    const Instant begin = Instant::from_ns((current_tick_ << kTickShift) + (int64_t{at} << kFineShift));
    if (const Instant found = earliest_of(fine_[static_cast<size_t>(at)], begin, Instant::never()); !found.is_never()) {
      return found;
    }
  }
  for (uint32_t i = 1; i <= kBuckets; ++i) {
    const int64_t tick = current_tick_ + i;
    const Instant begin = Instant::from_ns(tick << kTickShift);
    const Instant end = Instant::from_ns((tick + 1) << kTickShift);
    if (const Instant found = earliest_of(buckets_[bucket_of(tick)], begin, end); !found.is_never()) {
      return found;
    }
    // Empty, or all of later turns of the wheel.
  }
  return Instant::from_ns((current_tick_ + kBuckets) << kTickShift);
}

}  // namespace cw
