// The control thread: writes the log, handles signals, and tells the service manager how the gateway is, until it has shut down.
//
//   SIGTERM, SIGINT   drain for GatewayConfig::drain_on_stop_s at most, disconnect who is left, and end. A second one leaves the
//                     drain out, a third one ends at once
//   SIGHUP            read the configuration again: what can change at run time does, the rest is named in the log
//   SIGUSR2           end, and let the next process have the connections that can go on (control/service/successor.h)
//
// READY=1 goes out when every poll core has turned, WATCHDOG=1 only while they go on doing so: a gateway whose poll core hangs is
// one that the manager should restart, however well its other threads are.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "control/admin/gateway_control.h"
#include "control/config/config.h"
#include "control/config/config_file.h"
#include "control/config/reload_plan.h"
#include "control/service/core_watch.h"
#include "control/service/notifier.h"
#include "control/service/successor.h"
#include "dataplane/drain_driver.h"
#include "dataplane/gateway_app.h"
#include "dataplane/live_changes.h"
#include "dataplane/notice_limit.h"
#include "dataplane/trouble_watch.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

class ControlThread {
 public:
  // All that is referred to outlives the thread. `config_path` is what SIGHUP reads again,
  // `apps` are in order of DataplaneConfig::poll_lcores. The caller has blocked signals() in
  // all threads.
  ControlThread(control::Config config, std::string config_path, const control::Successor& successor,
                std::vector<GatewayApp*> apps, telemetry::GatewayFlags& flags, const control::Notifier& notifier,
                DrainDriver& drain, TroubleWatch& trouble, LiveChanges& changes, const telemetry::HealthSource& health);

  // The signals that it waits for.
  [[nodiscard]] static sigset_t signals();
  // Returns, with `stop` set, when the gateway has shut down.
  void run(std::atomic<bool>& stop);

  // Any thread. Reading a file takes as long as the file system does.
  control::ReloadReport reload(const std::string& who);
  [[nodiscard]] control::ReloadReport preview_reload();
  // Begins to end, and another process follows. False, with one sentence in `problem`, when it could not.
  [[nodiscard]] bool restart(const std::string& who, std::string& problem);
  // When run() has returned: it does.
  [[nodiscard]] bool is_followed() const { return is_followed_; }
  [[nodiscard]] std::vector<control::SettingText> settings();
  // Any thread: another number whenever these have changed.
  [[nodiscard]] uint64_t settings_version() const { return settings_version_.load(); }
  [[nodiscard]] control::LogLevel log_level();
  // Until the next reload.
  void set_log_level(const std::string& who, control::LogLevel level);

 private:
  // True: there were some.
  [[nodiscard]] bool write_notices(Instant now);
  // False: end at once.
  [[nodiscard]] bool on_stop_signal(const char* name);
  void on_restart_signal();
  [[nodiscard]] bool has_shut_down();
  void begin_shutdown();
  // What the file would change, and what the gateway would run with then.
  [[nodiscard]] control::ReloadReport compare(const control::LoadedConfig& loaded, control::ReloadPlan& next) const;
  void watch_cores();
  void say_status();
  void notify(bool sent);

  NoticeLimit notice_limit_;
  std::mutex mutex_;                           // of config_ and reloaded_
  control::Config config_;                     // what the gateway runs with
  bool reloaded_ = false;                      // since the manager was told last
  std::atomic<uint64_t> settings_version_{1};  // of config_
  std::string config_path_;
  const control::Successor& successor_;
  std::string restarted_by_;  // under mutex_; empty: by the signal alone
  std::vector<GatewayApp*> apps_;
  telemetry::GatewayFlags& flags_;
  const control::Notifier& notifier_;
  DrainDriver& drain_;
  TroubleWatch& trouble_;
  LiveChanges& changes_;
  const telemetry::HealthSource& health_;
  control::ReloadPlanner planner_;      // under mutex_
  const std::vector<uint32_t> lcores_;  // as in config_, which moves
  control::CoreWatch watch_;
  bool ready_said_ = false;
  enum class Phase : uint8_t { kServing, kDraining, kHandingOver, kDisconnecting };
  std::atomic<Phase> phase_{Phase::kServing};  // the control thread's to change
  bool is_followed_ = false;
  std::chrono::steady_clock::time_point deadline_;  // of the phase
  std::string status_;                              // last said
};

}  // namespace cw::dataplane
