#include "control/service/server_health.h"

namespace cw::control {

void ServerHealth::reconfigure(const HealthOptions& options) {
  options_ = options;
  // Else a check is under way: on_result() reckons with the new interval.
  if (due_ != Instant::never()) {
    due_ = begun_ + options_.interval;
  }
}

void ServerHealth::begin(Instant now) {
  begun_ = now;
  due_ = Instant::never();
}

bool ServerHealth::on_result(Instant now, bool success) {
  const Instant next = begun_ + options_.interval;
  due_ = next > now ? next : now;  // a check longer than the interval puts off the next; nothing is made up for
  ++checks_;
  failures_ += success ? 0 : 1;
  const ServerState says = success ? ServerState::kUp : ServerState::kDown;
  if (says == state_) {
    against_ = 0;
    return false;
  }
  ++against_;
  if (state_ != ServerState::kUnknown && against_ < (success ? options_.rise : options_.fall)) {
    return false;
  }
  state_ = says;
  against_ = 0;
  return true;
}

}  // namespace cw::control
