// What a reload changes in a gateway that runs: hands each part of it what is its own.
//
// The order matters. Workers learn of new backends and servers before a poll core can name one, and the checks tell cores of
// servers only when the cores have them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/config/problem.h"
#include "dataplane/gateway_app.h"
#include "dataplane/health_checks.h"
#include "dataplane/live_view.h"
#include "dataplane/worker_pool.h"
#include "gateway/config_ids.h"
#include "gateway/connection_quota.h"
#include "telemetry/collector.h"
#include "telemetry/history_recorder.h"
#include "telemetry/live_page.h"

namespace cw::dataplane {

class LiveChanges {
 public:
  // All that is referred to outlives this.
  struct Parts {
    std::span<GatewayApp* const> apps;  // in order of DataplaneConfig::poll_lcores
    WorkerPool& workers;
    gateway::ConnectionQuota& quota;
    gateway::ConnectionQuota& client_quota;
    const gateway::Rates& rates;
    gateway::ConfigIds& numbers;
    HealthChecks& checks;
    LiveView& view;
    telemetry::Collector& collector;
    telemetry::LivePage* page;             // these two: nullptr without a metrics server
    telemetry::HistoryRecorder* recorder;  // of the page's history
  };
  explicit LiveChanges(const Parts& parts) : parts_(parts) {}

  // Why the parts cannot become what `config`, of `file`, says. Callers take turns, with apply() too.
  [[nodiscard]] std::vector<control::Problem> problems(const control::Config& config, const std::string& file) const;
  // Precondition: no problems(). The worst that a core had to say. `pulled_max`: ReloadPlan.
  [[nodiscard]] Reconfigured apply(const control::Config& config, uint32_t pulled_max);
  // Callers take turns.
  [[nodiscard]] const gateway::ConfigIds& numbers() const { return parts_.numbers; }

 private:
  // Of one that is to be.
  void add_listener_problems(const control::ListenerConfig& listener, const std::string& file,
                             std::vector<control::Problem>& problems) const;
  void add_backend_problems(const control::BackendConfig& backend, const std::string& file,
                            std::vector<control::Problem>& problems) const;
  void number(const control::Config& config);
  void share_replies(const control::Config& config);
  void set_places(const control::Config& config);

  Parts parts_;
};

}  // namespace cw::dataplane
