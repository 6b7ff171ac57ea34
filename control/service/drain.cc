#include "control/service/drain.h"

namespace cw::control {

const char* to_string(DrainState state) noexcept {
  switch (state) {
    case DrainState::kServing:
      return "serving";
    case DrainState::kDraining:
      return "draining";
    case DrainState::kDrained:
      return "drained";
  }
  return "unknown";
}

void Drain::start(Instant now, std::optional<Duration> timeout) {
  if (state_ == DrainState::kServing) {
    state_ = DrainState::kDraining;
    began_at_ = now;
  }
  timeout_ = timeout;
  limited_at_ = now;
  time_up_ = false;
}

DrainNews Drain::poll(Instant now, uint32_t connections) {
  if (state_ != DrainState::kDraining) {
    return DrainNews::kNone;
  }
  if (connections == 0) {
    state_ = DrainState::kDrained;
    over_at_ = now;
    return DrainNews::kOver;
  }
  if (timeout_ && !time_up_ && now - limited_at_ >= *timeout_) {
    time_up_ = true;
    return DrainNews::kTimeUp;
  }
  return DrainNews::kNone;
}

Duration Drain::elapsed(Instant now) const {
  return state_ == DrainState::kServing ? Duration() : (state_ == DrainState::kDrained ? over_at_ : now) - began_at_;
}

}  // namespace cw::control
