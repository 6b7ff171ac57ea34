// The control thread: writes the log, handles signals, and tells the service manager how the gateway is, until it has shut down.
//
//   SIGTERM, SIGINT   disconnect all clients and end; a second one ends at once
//   SIGHUP            read the configuration again: what can change at run time does, the rest is named in the log
//
// READY=1 goes out when every poll core has turned, WATCHDOG=1 only while they go on doing so: a gateway whose poll core hangs is
// one that the manager should restart, however well its other threads are.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/service/core_watch.h"
#include "control/service/notifier.h"
#include "dataplane/gateway_app.h"
#include "telemetry/collector.h"

namespace cw::dataplane {

class ControlThread {
 public:
  // All that is referred to outlives the thread. `config_path` is what SIGHUP reads again,
  // `apps` are in order of DataplaneConfig::poll_lcores. The caller has blocked signals() in
  // all threads.
  ControlThread(control::Config config, std::string config_path, std::vector<GatewayApp*> apps, telemetry::GatewayFlags& flags,
                const control::Notifier& notifier);

  // The signals that it waits for.
  [[nodiscard]] static sigset_t signals();
  // Returns, with `stop` set, when the gateway has shut down.
  void run(std::atomic<bool>& stop);

 private:
  void write_notices();
  void begin_shutdown();
  void reload();
  void watch_cores();
  void say_status();
  void notify(bool sent);

  control::Config config_;  // as of the last reload, for what can be reloaded
  std::string config_path_;
  std::vector<GatewayApp*> apps_;
  telemetry::GatewayFlags& flags_;
  const control::Notifier& notifier_;
  control::CoreWatch watch_;
  bool ready_said_ = false;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point deadline_;  // of the shutdown
  std::string status_;                              // last said
};

}  // namespace cw::dataplane
