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
#include "gateway/config_ids.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

class LiveView final : public control::GatewayView {
 public:
  // `apps` in order of DataplaneConfig::poll_lcores.
  LiveView(const control::Config& config, const std::string& version, std::vector<GatewayApp*> apps,
           const telemetry::Collector& collector, std::span<const std::unique_ptr<Port>> ports,
           const telemetry::GatewayFlags& flags, const control::ServerChecks& checks, const gateway::ConfigIds& numbers);
  // After a reload: what of the configuration can change while the gateway runs. Any thread.
  void reconfigure(const control::Config& changed, const gateway::ConfigIds& numbers);

  [[nodiscard]] control::GatewayStatus status() override;
  [[nodiscard]] control::PolicyStatus policy() override;
  [[nodiscard]] std::vector<control::ConnectionStatus> connections() override;
  [[nodiscard]] std::vector<control::QueuePairStatus> queue_pairs() override;
  [[nodiscard]] std::vector<control::CoreStatus> cores() override;
  [[nodiscard]] std::vector<control::ActivityStatus> activity() override;
  [[nodiscard]] std::vector<control::TransportEventStatus> transport_events(uint32_t each_max) override;
  [[nodiscard]] bool start_ping(const std::string& backend, uint32_t program, uint32_t version, std::string& problem) override;
  [[nodiscard]] control::PingStatus ping() override;
  [[nodiscard]] std::vector<control::NamedValue> stats() override;
  [[nodiscard]] std::vector<control::StatInfo> stat_schema() override;

 private:
  struct CoreConnection {
    uint32_t lcore = 0;
    gateway::ConnectionInfo info;
  };
  // Of all cores; of one that does not answer in time, none.
  [[nodiscard]] std::vector<CoreConnection> describe() const;
  [[nodiscard]] std::vector<control::ServerStatus> servers(const telemetry::MetricSources& sources) const;
  [[nodiscard]] std::vector<control::ClientStatus> clients(const telemetry::MetricSources& sources) const;
  struct Current {
    control::Config config;
    gateway::ConfigIds numbers;
  };
  [[nodiscard]] Current current() const;

  const control::Config& config_;  // as at the start, for what stays as it was
  mutable std::mutex mutex_;       // of current_
  Current current_;
  std::string version_;
  std::vector<GatewayApp*> apps_;
  const telemetry::Collector& collector_;
  std::span<const std::unique_ptr<Port>> ports_;
  const telemetry::GatewayFlags& flags_;
  const control::ServerChecks& checks_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace cw::dataplane
