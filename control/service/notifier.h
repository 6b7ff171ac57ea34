// Tells a service manager how the process is doing: systemd's notification protocol (sd_notify(3)), spoken without its library.
//
// A message is one datagram of KEY=value lines to the UNIX socket that NOTIFY_SOCKET names: a path, or "@name" for an abstract
// one. WATCHDOG_USEC and WATCHDOG_PID say whether and how often the manager wants to hear WATCHDOG=1. Without these variables
// nobody listens, and every call succeeds without doing anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "control/socket/unique_fd.h"

namespace cw::control {

// What a service manager puts into the environment. Null: the variable is not set.
struct NotifyEnvironment {
  const char* socket = nullptr;         // NOTIFY_SOCKET
  const char* watchdog_usec = nullptr;  // WATCHDOG_USEC
  const char* watchdog_pid = nullptr;   // WATCHDOG_PID
  int64_t own_pid = 0;
};
// Reads the variables of this process. At start, before other threads.
[[nodiscard]] NotifyEnvironment notify_environment();

class Notifier {
 public:
  static constexpr Duration kSendTimeout = Duration::seconds(1);
  static constexpr size_t kStatusBytesMax = 512;  // longer texts are cut

  // Nobody listens.
  Notifier() = default;
  // `problem` is one sentence when the environment names a socket that cannot be used, else empty; the notifier then is as one
  // that nobody listens to, since a service may still be worth more than its status line.
  [[nodiscard]] static Notifier open(const NotifyEnvironment& environment, std::string& problem);

  [[nodiscard]] bool is_active() const { return fd_.valid(); }
  // How long the manager waits for a WATCHDOG=1 before it ends the service; nullopt: it does not wait for any.
  [[nodiscard]] std::optional<Duration> watchdog_timeout() const { return watchdog_timeout_; }

  // Each sends one datagram and says whether it went out. They block for at most kSendTimeout when the manager does not read.
  // Texts are one line; control characters in them become blanks, since a line end would begin another field.
  [[nodiscard]] bool ready(std::string_view status) const;
  // Configuration is being read; ready() ends that state. `now` is CLOCK_MONOTONIC, by which managers of version 253 on tell
  // this reload from an earlier one.
  [[nodiscard]] bool reloading(Instant now, std::string_view status) const;
  // It takes so long at most: a manager that would lose patience before waits.
  [[nodiscard]] bool stopping(std::string_view status, Duration longest) const;
  [[nodiscard]] bool status(std::string_view text) const;
  [[nodiscard]] bool feed_watchdog() const;  // only where the manager waits for it

 private:
  [[nodiscard]] bool send(const std::string& message) const;

  UniqueFd fd_;  // connected to the manager's socket
  std::optional<Duration> watchdog_timeout_;
};

}  // namespace cw::control
