#include "dataplane/drain_driver.h"

#include <algorithm>

#include "dataplane/monotonic_clock.h"
#include "telemetry/log.h"

namespace cw::dataplane {
DrainProgress DrainDriver::progress() const {
  DrainProgress sum;
  for (const GatewayApp* app : apps_) {
    const DrainProgress each = app->drain_progress();
    sum.connections += each.connections;
    sum.drained += each.drained;
    sum.forced += each.forced;
    sum.is_current &= each.is_current;
  }
  return sum;
}

control::DrainStatus DrainDriver::status_locked() const {
  const DrainProgress now = progress();
  control::DrainStatus status;
  status.state = to_string(drain_.state());
  status.connections = now.connections;
  if (drain_.state() != control::DrainState::kServing) {
    status.ended_in_order = now.drained - before_.drained;
    status.forced = now.forced - before_.forced;
    status.timeout = drain_.timeout();
  }
  status.elapsed = drain_.elapsed(monotonic_now());
  return status;
}

control::DrainStatus DrainDriver::start(const std::string& who, std::optional<Duration> timeout) {
  const std::lock_guard lock(mutex_);
  if (!is_last_ && !shutting_down_) {
    start_locked(who, timeout);
  }
  return status_locked();
}

void DrainDriver::start_last(const std::string& who, Duration timeout) {
  const std::lock_guard lock(mutex_);
  is_last_ = true;
  start_locked(who, timeout);
}

void DrainDriver::hand_over(const std::string& who) {
  const std::lock_guard lock(mutex_);
  is_last_ = true;
  is_handing_over_ = true;
  before_ = progress();
  telemetry::log_info("restart asked for by {}: the next process gets {} connections", who, before_.connections);
  drain_.start(monotonic_now(), std::nullopt);
  std::ranges::for_each(apps_, [](GatewayApp* app) { app->order_drain(DrainOrder::kHandOver); });
}

void DrainDriver::start_locked(const std::string& who, std::optional<Duration> timeout) {
  if (drain_.state() == control::DrainState::kServing) {
    before_ = progress();
    telemetry::log_info("drain begun by {}: {} connections", who, before_.connections);
  }
  drain_.start(monotonic_now(), timeout);
  flags_.draining.store(true);
  flags_.listening.store(false);
  std::ranges::for_each(apps_, [](GatewayApp* app) { app->order_drain(DrainOrder::kDrain); });
}

control::DrainStatus DrainDriver::stop(const std::string& who) {
  const std::lock_guard lock(mutex_);
  if (!is_last_ && !shutting_down_ && drain_.state() != control::DrainState::kServing) {
    telemetry::log_info("drain ended by {}: connections are taken again", who);
    drain_.stop();
    std::ranges::for_each(apps_, [](GatewayApp* app) { app->order_drain(DrainOrder::kServe); });
    flags_.draining.store(false);
    flags_.listening.store(true);
  }
  return status_locked();
}

control::DrainStatus DrainDriver::status() {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

bool DrainDriver::is_under_way() {
  const std::lock_guard lock(mutex_);
  return drain_.state() == control::DrainState::kDraining;
}

bool DrainDriver::is_over() {
  const std::lock_guard lock(mutex_);
  return drain_.state() == control::DrainState::kDrained;
}

void DrainDriver::turn() {
  const std::lock_guard lock(mutex_);
  const DrainProgress now = progress();
  if (shutting_down_ || !now.is_current) {
    return;  // what a core says of the time before its order says nothing of this drain
  }
  switch (drain_.poll(monotonic_now(), now.connections)) {
    case control::DrainNews::kNone:
      return;
    case control::DrainNews::kTimeUp:
      telemetry::log_warning("drain: the time is up, {} connections are ended with calls that were not answered",
                             now.connections);
      std::ranges::for_each(apps_, [](GatewayApp* app) { app->order_drain(DrainOrder::kForce); });
      return;
    case control::DrainNews::kOver:
      if (is_handing_over_) {
        return;
      }
      telemetry::log_info("drained: {} connections ended in order, {} by force, in {:.1f} s", now.drained - before_.drained,
                          now.forced - before_.forced, drain_.elapsed(monotonic_now()).to_seconds());
      return;
  }
}

void DrainDriver::shut_down() {
  const std::lock_guard lock(mutex_);
  shutting_down_ = true;
}

}  // namespace cw::dataplane
