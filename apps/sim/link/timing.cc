#include "apps/sim/link/timing.h"

#include <algorithm>

#include "apps/sim/link/damage.h"

namespace cw::sim {

void Delay::act(Instant now, Transit&& frame) {
  hit();
  frame.hold = frame.hold + by_;
  pass(now, std::move(frame));
}

void Jitter::act(Instant now, Transit&& frame) {
  hit();
  frame.hold = frame.hold + up_to(most_);
  pass(now, std::move(frame));
}

void Reorder::act(Instant now, Transit&& frame) {
  if (chance(permille_)) {
    hit();
    frame.hold = frame.hold + up_to(most_);
    frame.overtakes = true;
  }
  pass(now, std::move(frame));
}

void Duplicate::act(Instant now, Transit&& frame) {
  if (chance(permille_)) {
    hit();
    Transit copy = frame;
    copy.hold = copy.hold + up_to(most_);
    copy.overtakes = true;
    copy.copied = true;
    pass(now, std::move(frame));
    pass(now, std::move(copy));
    return;
  }
  pass(now, std::move(frame));
}

void Clog::act(Instant now, Transit&& frame) {
  hit();
  frame.hold = std::max(frame.hold, window().until - now);
  pass(now, std::move(frame));
}

void Bottleneck::act(Instant now, Transit&& frame) {
  const Instant start = std::max(free_at_, now);
  const int64_t waiting_ns = (start - now).to_ns();
  const uint64_t queued = static_cast<uint64_t>(waiting_ns) * (options_.bits_per_second / 1'000'000) / 8'000;
  if (queued + frame.raw.size() > options_.queue_bytes) {
    hit();
    return;
  }
  if (queued > options_.mark_bytes && mark_congestion(frame.raw)) {
    hit();
  }
  free_at_ = start + time_of(frame.raw.size());
  frame.hold = frame.hold + (free_at_ - now);
  pass(now, std::move(frame));
}

}  // namespace cw::sim
