// Whether one server of a backend is up, judged by checks that come at intervals. Pure: the owner makes the checks.
//
// A server that has not been checked yet is kUnknown, and its first check decides. From then on it takes `fall` failures in a row
// to be down and `rise` successes in a row to be up again, so that a server which restarts, or one lost packet, moves nobody.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace cw::control {

enum class ServerState : uint8_t { kUnknown, kUp, kDown };
[[nodiscard]] constexpr const char* to_string(ServerState state) noexcept {
  return state == ServerState::kUp ? "up" : state == ServerState::kDown ? "down" : "unknown";
}

struct HealthOptions {
  Duration interval = Duration::seconds(2);  // from the begin of a check to the next
  uint32_t fall = 3;                         // 1 or more
  uint32_t rise = 2;                         // 1 or more
};

class ServerHealth {
 public:
  // The first check is due at `first`.
  ServerHealth(const HealthOptions& options, Instant first) : options_(options), due_(first) {}

  // For checks from the next one on; the next begins by the new interval.
  void reconfigure(const HealthOptions& options);

  // When the next check is to begin; never while one is under way.
  [[nodiscard]] Instant next_deadline() const { return due_; }
  void begin(Instant now);
  // The check under way does not count; the next is due `now`.
  void repeat(Instant now) { due_ = now; }
  // The check that was begun has ended. True: the state has changed.
  [[nodiscard]] bool on_result(Instant now, bool success);

  [[nodiscard]] ServerState state() const { return state_; }
  [[nodiscard]] uint64_t checks() const { return checks_; }
  [[nodiscard]] uint64_t failures() const { return failures_; }

 private:
  HealthOptions options_;
  Instant due_;
  Instant begun_;
  ServerState state_ = ServerState::kUnknown;
  uint32_t against_ = 0;  // results in a row that speak against the state
  uint64_t checks_ = 0;   // ended
  uint64_t failures_ = 0;
};

}  // namespace cw::control
