// What the admin socket can tell the running gateway to do.
#pragma once

#include <string>
#include <vector>

#include "control/admin/gateway_control.h"
#include "dataplane/control_thread.h"
#include "dataplane/drain_driver.h"

namespace cw::dataplane {

class LiveControl final : public control::GatewayControl {
 public:
  // Both outlive this.
  LiveControl(ControlThread& control_thread, DrainDriver& drain) : control_thread_(control_thread), drain_(drain) {}

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
  [[nodiscard]] std::vector<control::SettingText> settings() override { return control_thread_.settings(); }

 private:
  ControlThread& control_thread_;
  DrainDriver& drain_;
};

}  // namespace cw::dataplane
