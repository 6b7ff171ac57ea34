// What the admin socket sees of the running gateway.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "control/admin/gateway_view.h"
#include "control/config/config.h"
#include "dataplane/gateway_app.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

class LiveView final : public control::GatewayView {
 public:
  LiveView(const control::Config& config, const std::string& version, GatewayApp& app, const telemetry::Collector& collector,
           std::span<const std::unique_ptr<Port>> ports, const telemetry::GatewayFlags& flags);
  [[nodiscard]] control::GatewayStatus status() override;
  [[nodiscard]] std::vector<control::ConnectionStatus> connections() override;
  [[nodiscard]] std::vector<control::NamedValue> stats() override;

 private:
  [[nodiscard]] std::string listener_name(uint16_t port) const;

  const control::Config& config_;
  std::string version_;
  GatewayApp& app_;
  const telemetry::Collector& collector_;
  std::span<const std::unique_ptr<Port>> ports_;
  const telemetry::GatewayFlags& flags_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace cw::dataplane
