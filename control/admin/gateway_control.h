// What the admin socket can tell a running gateway to do. The dataplane implements it; tests have a fake.
//
// Called on the admin thread, one call at a time, for callers that may change something; none takes longer than a second. `who`
// is for the log: every change is said there with who made it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "control/capture/capture_order.h"
#include "control/config/config.h"
#include "control/config/config_changes.h"

namespace cw::control {

struct DrainStatus {
  std::string state;                // "serving", "draining", "drained"
  uint32_t connections = 0;         // still open
  uint64_t ended_in_order = 0;      // since the drain began
  uint64_t forced = 0;              // ended with calls that were not answered, because the time was up
  Duration elapsed;                 // since the drain began, until it was over
  std::optional<Duration> timeout;  // when the rest is ended by force; absent: never
};

struct ReloadReport {
  std::string file;
  bool valid = false;
  bool applied = false;
  std::vector<std::string> problems;   // warnings of a valid file, too
  std::vector<SettingChange> changes;  // those that are live are applied
};

class GatewayControl {
 public:
  virtual ~GatewayControl() = default;
  // Begins to drain, or sets the time limit of a drain that goes on.
  [[nodiscard]] virtual DrainStatus start_drain(const std::string& who, std::optional<Duration> timeout) = 0;
  // Takes connections again.
  [[nodiscard]] virtual DrainStatus stop_drain(const std::string& who) = 0;
  [[nodiscard]] virtual DrainStatus drain() = 0;
  [[nodiscard]] virtual LogLevel log_level() = 0;
  // Until the next reload or restart.
  virtual void set_log_level(const std::string& who, LogLevel level) = 0;
  // Reads the configuration file again; with `dry_run` only says what would change.
  [[nodiscard]] virtual ReloadReport reload(const std::string& who, bool dry_run) = 0;
  // Begins to end, and the program that is installed by now follows in this process: connections of RoCE go on there. False, and
  // one sentence in `problem`, when it could not follow; nothing has changed then.
  [[nodiscard]] virtual bool restart(const std::string& who, std::string& problem) = 0;
  // False, and one sentence in `problem`, when there is no capture then.
  [[nodiscard]] virtual bool start_capture(const std::string& who, const capture::CaptureOrder& order, std::string& problem) = 0;
  [[nodiscard]] virtual capture::CaptureStatus stop_capture(const std::string& who) = 0;
  [[nodiscard]] virtual capture::CaptureStatus capture() = 0;
  // What the gateway runs with. On the recorder's thread, too.
  [[nodiscard]] virtual std::vector<SettingText> settings() = 0;
};

}  // namespace cw::control
