// What the admin socket can tell the running gateway to do.
#pragma once

#include <string>
#include <vector>

#include "control/admin/gateway_control.h"
#include "dataplane/capture_desk.h"
#include "dataplane/control_thread.h"
#include "dataplane/drain_driver.h"
#include "telemetry/log.h"

namespace cw::dataplane {

class LiveControl final : public control::GatewayControl {
 public:
  // All outlive this.
  LiveControl(ControlThread& control_thread, DrainDriver& drain, CaptureDesk& capture)
      : control_thread_(control_thread), drain_(drain), capture_(capture) {}

  [[nodiscard]] control::DrainStatus start_drain(const std::string& who, std::optional<Duration> timeout) override {
    return drain_.start(who, timeout);
  }
  [[nodiscard]] control::DrainStatus stop_drain(const std::string& who) override { return drain_.stop(who); }
  [[nodiscard]] control::DrainStatus drain() override { return drain_.status(); }
  [[nodiscard]] control::LogLevel log_level() override { return control_thread_.log_level(); }
  void set_log_level(const std::string& who, control::LogLevel level) override { control_thread_.set_log_level(who, level); }
  [[nodiscard]] control::ReloadReport reload(const std::string& who, bool dry_run) override {
    return dry_run ? control_thread_.preview_reload() : control_thread_.reload(who);
  }
  [[nodiscard]] bool restart(const std::string& who, std::string& problem) override {
    return control_thread_.restart(who, problem);
  }
  [[nodiscard]] bool start_capture(const std::string& who, const control::capture::CaptureOrder& order,
                                   std::string& problem) override {
    const bool started = capture_.start(order, problem);
    if (started) {
      telemetry::log_warning("capture to {} begun by {}{}", order.file, who,
                             order.limits.with_payload ? ", with payload and memory handles" : "");
    }
    return started;
  }
  [[nodiscard]] control::capture::CaptureStatus stop_capture(const std::string& who) override {
    capture_.stop();
    control::capture::CaptureStatus status = capture_.status();
    if (status.state == "stuck") {
      telemetry::log_warning("capture ended by {}: {} does not answer, and its writer waits for it", who, status.file);
    } else {
      telemetry::log_info("capture ended by {}", who);
    }
    return status;
  }
  [[nodiscard]] control::capture::CaptureStatus capture() override { return capture_.status(); }
  [[nodiscard]] std::vector<control::SettingText> settings() override { return control_thread_.settings(); }

 private:
  ControlThread& control_thread_;
  DrainDriver& drain_;
  CaptureDesk& capture_;
};

}  // namespace cw::dataplane
