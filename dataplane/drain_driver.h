// Drains all poll cores: passes on what the operator wants, watches how far they are, ends the rest when the time is up, and says
// so in the log, the metrics and to probes.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control/admin/gateway_control.h"
#include "control/service/drain.h"
#include "dataplane/gateway_app.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

class DrainDriver {
 public:
  // Both outlive the driver.
  DrainDriver(std::vector<GatewayApp*> apps, telemetry::GatewayFlags& flags) : apps_(std::move(apps)), flags_(flags) {}

  // Any thread.
  control::DrainStatus start(const std::string& who, std::optional<Duration> timeout);
  control::DrainStatus stop(const std::string& who);
  // The process was told to end: as start(), and nobody stops it or gives it another time.
  void start_last(const std::string& who, Duration timeout);
  // Another process follows: connections that can go on do, the others are drained, for as long as the caller has patience.
  void hand_over(const std::string& who);
  [[nodiscard]] control::DrainStatus status();
  [[nodiscard]] bool is_under_way();
  [[nodiscard]] bool is_over();
  // Control thread, some times a second.
  void turn();
  // Control thread: the process ends; nothing is begun any more.
  void shut_down();

 private:
  [[nodiscard]] control::DrainStatus status_locked() const;
  void start_locked(const std::string& who, std::optional<Duration> timeout);
  [[nodiscard]] DrainProgress progress() const;

  std::mutex mutex_;
  std::vector<GatewayApp*> apps_;
  telemetry::GatewayFlags& flags_;
  control::Drain drain_;
  DrainProgress before_;  // counts as the drain began
  bool is_last_ = false;  // what is begun stays
  bool is_handing_over_ = false;
  bool shutting_down_ = false;
};

}  // namespace cw::dataplane
