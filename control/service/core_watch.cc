#include "control/service/core_watch.h"

#include <algorithm>

namespace cw::control {

CoreWatch::CoreWatch(std::span<Heartbeat* const> cores) : cores_(cores.begin(), cores.end()) {}

CoreWatch::CoreWatch(std::span<Heartbeat* const> cores, Duration watchdog_timeout)
    : cores_(cores.begin(), cores.end()), period_(std::min(kPeriodMax, watchdog_timeout / 4)) {}

CoreNews CoreWatch::poll(Instant now) {
  if (asked_at_.is_never()) {
    ask(now);
    return CoreNews::kNone;
  }
  if (now - asked_at_ < period_) {
    return CoreNews::kNone;
  }
  const auto silent = std::ranges::find_if(cores_, [](const Heartbeat* core) { return !core->is_answered(); });
  if (silent != cores_.end()) {
    // Nobody is asked again: an answer to the open question ends the stall, and asked_at() says since when it lasts.
    stalled_core_ = static_cast<size_t>(silent - cores_.begin());
    const bool is_new = !stalled_;
    stalled_ = true;
    return is_new ? CoreNews::kStalled : CoreNews::kNone;
  }
  stalled_ = false;
  ask(now);
  return CoreNews::kTurning;
}

uint32_t CoreWatch::connections() const {
  uint32_t sum = 0;
  for (const Heartbeat* core : cores_) {
    sum += core->connections();
  }
  return sum;
}

void CoreWatch::ask(Instant now) {
  asked_at_ = now;
  for (Heartbeat* core : cores_) {
    core->ask();
  }
}

}  // namespace cw::control
