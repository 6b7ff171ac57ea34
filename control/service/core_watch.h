// Judges from heartbeats whether the poll cores turn: the one reason for which a watchdog may be fed. A gateway whose control
// thread is well and whose poll core hangs serves nobody.
//
// Every period all cores are asked. What they have not all answered by the next is a stall, which is said once, as is its end.
// Control thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "control/service/heartbeat.h"

namespace cw::control {

enum class CoreNews : uint8_t {
  kNone,     // nothing to say now
  kTurning,  // every core has answered the last question: feed the watchdog
  kStalled,  // some core has not, for the first time: see stalled_core()
};

class CoreWatch {
 public:
  static constexpr Duration kPeriodMax = Duration::seconds(1);

  // The heartbeats outlive the watch. Without a watchdog the period is kPeriodMax; else a quarter of its time-out, at most that.
  explicit CoreWatch(std::span<Heartbeat* const> cores);
  CoreWatch(std::span<Heartbeat* const> cores, Duration watchdog_timeout);

  // Call it a few times per period. The first call asks, and so has no news.
  [[nodiscard]] CoreNews poll(Instant now);
  // After kStalled: index of a core that does not answer, and when it was asked.
  [[nodiscard]] size_t stalled_core() const { return stalled_core_; }
  [[nodiscard]] Instant asked_at() const { return asked_at_; }
  [[nodiscard]] bool is_stalled() const { return stalled_; }
  // Connections of all cores, as of their last answers.
  [[nodiscard]] uint32_t connections() const;
  [[nodiscard]] Duration period() const { return period_; }

 private:
  void ask(Instant now);

  std::vector<Heartbeat*> cores_;
  Duration period_ = kPeriodMax;
  Instant asked_at_ = Instant::never();  // never: nobody has been asked yet
  size_t stalled_core_ = 0;
  bool stalled_ = false;
};

}  // namespace cw::control
