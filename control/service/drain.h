// A drain as an operator sees it: when it began, whether it is over, and whether its time is up. The gateways do the work; this
// says what to tell them. No clock, no threads.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace cw::control {

enum class DrainState : uint8_t { kServing, kDraining, kDrained };
[[nodiscard]] const char* to_string(DrainState state) noexcept;

enum class DrainNews : uint8_t {
  kNone,
  kTimeUp,  // once: what is left has to be ended by force
  kOver,    // once: no connection is left
};

class Drain {
 public:
  // Begins, or gives one that goes on another time limit, which counts from now.
  void start(Instant now, std::optional<Duration> timeout);
  void stop() { state_ = DrainState::kServing; }
  // Now and then while it drains; `connections` are those that are left.
  [[nodiscard]] DrainNews poll(Instant now, uint32_t connections);

  [[nodiscard]] DrainState state() const { return state_; }
  // Since it began, until it was over; 0 when it never did.
  [[nodiscard]] Duration elapsed(Instant now) const;
  [[nodiscard]] std::optional<Duration> timeout() const { return timeout_; }

 private:
  DrainState state_ = DrainState::kServing;
  Instant began_at_;
  Instant over_at_;     // valid when drained
  Instant limited_at_;  // when the time limit was given
  std::optional<Duration> timeout_;
  bool time_up_ = false;
};

}  // namespace cw::control
