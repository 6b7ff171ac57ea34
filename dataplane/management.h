// What an operator touches of a running gateway: health checks, metrics and their page, admin socket, drain, reload, captures,
// and the control thread behind them. Built over the data path by the main thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "control/admin/admin_server.h"
#include "control/config/config.h"
#include "control/recorder/state_recorder.h"
#include "control/service/notifier.h"
#include "control/service/successor.h"
#include "dataplane/capture_desk.h"
#include "dataplane/control_thread.h"
#include "dataplane/data_path.h"
#include "dataplane/dpdk/telemetry_commands.h"
#include "dataplane/drain_driver.h"
#include "dataplane/health_checks.h"
#include "dataplane/live_changes.h"
#include "dataplane/live_control.h"
#include "dataplane/live_view.h"
#include "dataplane/trouble_watch.h"
#include "telemetry/collector.h"
#include "telemetry/history.h"
#include "telemetry/history_recorder.h"
#include "telemetry/live_page.h"
#include "telemetry/metrics_server.h"
#include "telemetry/web_refusals.h"

namespace cw::dataplane {

class Management {
 public:
  struct Settings {
    const control::Config& file_config;  // as the file has it
    const control::Config& config;       // with the addresses of the kernel filled in
    std::string config_path;             // what a reload reads
    std::string version;
    const control::Successor& successor;
    control::recorder::Recorder* recorder = nullptr;  // nullptr: nothing is recorded
  };

  // What is referred to outlives it.
  Management(const Settings& settings, DataPath& path, const control::Notifier& notifier);
  // Opens the admin socket and the port of the metrics. False, and one sentence in `problem`.
  [[nodiscard]] bool listen(std::string& problem);
  // The gateway is ready, and its servers are checked from now on.
  void start();
  void stop() {
    state_recorder_.reset();
    checks_.stop();
  }
  // Run by the control thread. Returns, with `stop` set, when the gateway has shut down.
  void run(std::atomic<bool>& stop) { control_thread_.run(stop); }
  // Afterwards: another process follows.
  [[nodiscard]] bool is_followed() const { return control_thread_.is_followed(); }

  [[nodiscard]] std::string admin_socket() const { return control::admin_socket_path(config_); }
  [[nodiscard]] std::optional<control::SocketAddress> metrics_address() const;

 private:
  // The page and the 15 minutes that it shows.
  struct Page {
    Page(telemetry::Collector& collector, LiveView& view, bool on);
    telemetry::History history;
    telemetry::HistoryRecorder recorder;
    telemetry::LivePage page;
  };

  // In the order in which one is made of the other.
  const control::Config& config_;
  telemetry::GatewayFlags flags_;
  HealthChecks checks_;
  telemetry::WebRefusals web_refusals_;
  telemetry::Collector collector_;
  std::optional<TelemetryCommands> telemetry_commands_;
  LiveView view_;
  std::unique_ptr<Page> page_;  // with a metrics server
  DrainDriver drain_;
  TroubleWatch trouble_;
  LiveChanges changes_;
  ControlThread control_thread_;
  CaptureDesk capture_;
  LiveControl live_control_;
  std::unique_ptr<control::AdminServer> admin_;
  std::unique_ptr<telemetry::MetricsServer> metrics_;
  control::recorder::Recorder* recorder_;
  std::optional<control::recorder::StateRecorder> state_recorder_;  // last: it asks all of the above
};

}  // namespace cw::dataplane
