#include "base/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace cw {
namespace {

// Entries that next_deadline() looks at before it is content with a bound. More share a tick on crowded wheels only, where
// something is due all the time.
constexpr uint32_t kLooksMax = 64;

}  // namespace

TimerNode::~TimerNode() {
  CW_DASSERT(!is_armed());
  if (wheel_ != nullptr) {
    wheel_->strike(*this);
  }
}

TimerWheel::TimerWheel(uint32_t nodes_max) {
  table_.reserve(size_t{kOwners} + nodes_max);
  owners_.reserve(nodes_max);
  table_.resize(kOwners);
  uint32_t root = 0;
  for (Entry& entry : table_) {
    entry.next = root;
    entry.prev = root++;
  }
}

TimerWheel::~TimerWheel() {
  for (TimerNode* owner : owners_) {
    if (owner != nullptr) {
      owner->wheel_ = nullptr;
    }
  }
}

void TimerWheel::enrol(TimerNode& node) {
  if (free_ == kNowhere) {
    free_ = static_cast<uint32_t>(table_.size());
    table_.emplace_back();
    owners_.push_back(nullptr);
  }
  node.wheel_ = this;
  node.place_ = free_;
  owners_[free_ - kOwners] = &node;
  free_ = table_[free_].next;
}

void TimerWheel::strike(TimerNode& node) {
  const uint32_t place = node.place_;
  if (table_[place].is_linked()) {
    unlink(place);
  }
  owners_[place - kOwners] = nullptr;
  table_[place] = Entry();
  table_[place].next = free_;
  free_ = place;
  node.wheel_ = nullptr;
}

// To a bucket that is looked at early enough, or out of all of them.
void TimerWheel::move(uint32_t place, Instant deadline) {
  Entry& entry = table_[place];
  if (entry.is_linked()) {
    unlink(place);
  }
  armed_count_ += static_cast<uint32_t>(entry.deadline.is_never()) - static_cast<uint32_t>(deadline.is_never());
  entry.deadline = deadline;
  if (deadline.is_never()) {
    return;
  }
  if (!started_) {
    const int64_t before = tick_of(deadline) - 1;
    current_tick_ = linked_count_ == 0 ? before : std::min(current_tick_, before);
  }
  link(place);
}

// By its deadline, which is not never().
void TimerWheel::link(uint32_t place) {
  const Instant deadline = table_[place].deadline;
  const int64_t tick = tick_of(deadline);
  if (tick > current_tick_) {
    const uint32_t bucket = bucket_of(tick);
    insert(bucket, place, Instant::from_ns(tick << kTickShift));
    used_[bucket / 64] |= uint64_t{1} << bucket % 64;
  } else {
    link_fine(place, tick < current_tick_ ? fine_at_ : std::max(fine_at_, fine_bucket_of(deadline)));
  }
}

void TimerWheel::link_fine(uint32_t place, uint32_t bucket) {
  insert(kFine + bucket, place, Instant::from_ns((current_tick_ << kTickShift) + (int64_t{bucket} << kFineShift)));
  fine_used_ |= uint64_t{1} << bucket;
}

void TimerWheel::insert(uint32_t root, uint32_t place, Instant visit_at) {
  Entry& entry = table_[place];
  entry.visit_at = visit_at;
  quiet_until_ = earlier(quiet_until_, visit_at);
  entry.next = root;
  entry.prev = table_[root].prev;
  table_[entry.prev].next = place;
  table_[root].prev = place;
  ++linked_count_;
}

void TimerWheel::unlink(uint32_t place) {
  Entry& entry = table_[place];
  table_[entry.prev].next = entry.next;
  table_[entry.next].prev = entry.prev;
  entry.next = kNowhere;
  entry.prev = kNowhere;
  --linked_count_;
}

TimerNode* TimerWheel::look_for_expired(Instant now) {
  const int64_t now_tick = tick_of(now);
  if (!started_) {
    started_ = true;
    current_tick_ = linked_count_ == 0 ? now_tick : std::min(current_tick_, now_tick);
  }
  if (linked_count_ == 0) {
    if (now_tick > current_tick_) {
      current_tick_ = now_tick;
      fine_at_ = 0;
    }
    quiet_until_ = Instant::from_ns((current_tick_ + 1) << kTickShift);
    return nullptr;
  }
  while (true) {
    if (const uint32_t place = first_due(now); place != kNowhere) {
      unlink(place);
      table_[place].deadline = Instant::never();
      --armed_count_;
      return owners_[place - kOwners];
    }
    if (current_tick_ >= now_tick) {
      quiet_until_ = next_look();
      return nullptr;
    }
    // Empty buckets are passed over: a core that has slept has many of them behind it. After a long pause one turn over all
    // buckets finds everything that is due.
    const int64_t next = now_tick - current_tick_ == 1 ? now_tick : std::min(current_tick_ + next_used(1), now_tick);
    begin_tick(std::max(next, now_tick - int64_t{kBuckets - 1}));
  }
}

// After first_due() has found nothing in the current tick: when the next bucket begins that holds something, or the next tick.
// The last one that was looked at may hold what is due within its microsecond.
Instant TimerWheel::next_look() const {
  const int64_t tick_begin = current_tick_ << kTickShift;
  const int64_t bucket = fine_used_ == 0 ? int64_t{kFineBuckets} : std::countr_zero(fine_used_);
  return Instant::from_ns(tick_begin + (bucket << kFineShift));
}

// In the fine buckets. What is not due any more finds its way to a later one.
uint32_t TimerWheel::first_due(Instant now) {
  const bool tick_is_over = tick_of(now) > current_tick_;
  const uint32_t last = tick_is_over ? kFineBuckets - 1 : fine_bucket_of(now);
  uint64_t used = fine_used_ & (~uint64_t{0} >> (kFineBuckets - 1 - last));
  while (used != 0) {
    const uint32_t at = static_cast<uint32_t>(std::countr_zero(used));
    const uint32_t root = kFine + at;
    for (uint32_t place = table_[root].next; place != root;) {
      const Entry& entry = table_[place];
      const uint32_t next = entry.next;
      if (entry.deadline <= now) {
        return place;
      }
      if (tick_of(entry.deadline) != current_tick_ || fine_bucket_of(entry.deadline) != at) {
        unlink(place);
        if (!entry.deadline.is_never()) {
          link(place);
        }
      }
      place = next;
    }
    used &= used - 1;
    if (table_[root].next == root) {
      fine_used_ &= ~(uint64_t{1} << at);
    }
  }
  fine_at_ = std::max(fine_at_, last);
  return kNowhere;
}

void TimerWheel::begin_tick(int64_t tick) {
  current_tick_ = tick;
  fine_at_ = 0;
  const uint32_t root = bucket_of(tick);
  for (uint32_t place = table_[root].next; place != root;) {
    const Entry& entry = table_[place];
    const uint32_t next = entry.next;
    const int64_t due = tick_of(entry.deadline);
    if (due <= tick) {
      unlink(place);
      link_fine(place, due < tick ? 0 : fine_bucket_of(entry.deadline));
    } else if (entry.deadline.is_never()) {
      unlink(place);
    } else if (bucket_of(due) != root) {
      unlink(place);
      link(place);
    }
    place = next;
  }
  if (table_[root].next == root) {
    used_[root / 64] &= ~(uint64_t{1} << root % 64);
  }
}

// The first tick from so many ticks ahead whose bucket holds something; kBuckets + 1: none within a turn.
uint32_t TimerWheel::next_used(uint32_t ahead) const {
  while (ahead <= kBuckets) {
    const uint32_t bucket = bucket_of(current_tick_ + ahead);
    if (const uint64_t used = used_[bucket / 64] >> bucket % 64; used != 0) {
      return std::min(ahead + static_cast<uint32_t>(std::countr_zero(used)), kBuckets + 1);
    }
    ahead += 64 - bucket % 64;
  }
  return kBuckets + 1;
}

Instant TimerWheel::next_deadline() const {
  if (armed_count_ == 0) {
    return Instant::never();
  }
  uint32_t looks = 0;
  Instant earliest = Instant::never();  // of all buckets looked at
  const auto is_crowded = [&](uint32_t root) {
    for (uint32_t place = table_[root].next; place != root; place = table_[place].next) {
      if (++looks > kLooksMax) {
        return true;
      }
      earliest = earlier(earliest, table_[place].deadline);
    }
    return false;
  };
  // What is in a bucket is due when its time comes, or after it: what has been found is the earliest of all when it is due before
  // the next one begins.
  for (uint64_t used = fine_used_; used != 0; used &= used - 1) {
    const uint32_t at = static_cast<uint32_t>(std::countr_zero(used));
    const Instant begin = Instant::from_ns((current_tick_ << kTickShift) + (int64_t{at} << kFineShift));
    if (earliest <= begin) {
      return earliest;
    }
    if (is_crowded(kFine + at)) {
      return earlier(earliest, begin);
    }
  }
  for (uint32_t i = next_used(1); i <= kBuckets; i = next_used(i + 1)) {
    const int64_t tick = current_tick_ + i;
    const Instant begin = Instant::from_ns(tick << kTickShift);
    if (earliest <= begin) {
      return earliest;
    }
    if (is_crowded(bucket_of(tick))) {
      return earlier(earliest, begin);
    }
  }
  return earlier(earliest, Instant::from_ns((current_tick_ + kBuckets) << kTickShift));
}

}  // namespace cw
