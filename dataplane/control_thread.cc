#include "dataplane/control_thread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "control/config/config_changes.h"
#include "control/config/config_file.h"
#include "dataplane/handed_over.h"
#include "dataplane/monotonic_clock.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

constexpr auto kShutdownTimeout = std::chrono::seconds(5);
// A drain whose time is up ends what is left by force, which takes a moment.
constexpr auto kForceTime = std::chrono::seconds(1);
// Clients stand still while connections are handed over: who has not been answered by then, connects anew.
constexpr auto kHandOverTime = std::chrono::milliseconds(500);
constexpr auto kGoodbyeTime = std::chrono::milliseconds(100);
constexpr long kHandOverTurnNs = 1'000'000;
// How often this thread looks around: while something is under way, and else.
constexpr long kTurnNs = 20'000'000;
constexpr long kQuietTurnNs = 100'000'000;

int64_t unix_now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string text(const IpAddress& address) {
  return std::string(to_text(address).data());
}

// The [[client]] section that refused it. Precondition: the notice names one.
const std::string& section_of(const gateway::Notice& notice, const gateway::ConfigIds& numbers) {
  return numbers.clients.values()[*notice.client_class];
}

// On a wire whose packets are ours: an RDMA device does not tell of its own (causewayctl qp asks it).
bool tells_path_mtu(const gateway::Notice& notice) {
  return notice.remote_qpn.value() != 0 && notice.wire != "verbs";
}

// What one packet carries.
std::string path_mtu_of(const gateway::Notice& notice) {
  return tells_path_mtu(notice) ? fmt::format(", path MTU {}", notice.packet_bytes) : "";
}

// Which of the client's connections it is, by what the wire tells connections apart.
std::string queue_pair_of(const gateway::Notice& notice) {
  return notice.remote_qpn.value() == 0
             ? fmt::format("{}, client's port {}", notice.wire, notice.peer_port)
             : fmt::format("QPN {:#08x} <-> {:#08x}", notice.local_qpn.value(), notice.remote_qpn.value());
}

bool is_accepted(const gateway::Notice& notice) {
  return notice.result == gateway::ConnectionResult::kAccepted || notice.result == gateway::ConnectionResult::kTakenOver;
}

// What is known of it, whether the text says it or not.
telemetry::LogFields fields_of(const gateway::Notice& notice, const gateway::ConfigIds& numbers) {
  using enum telemetry::LogFieldName;
  telemetry::LogFields fields = {
      {kClient, text(notice.peer)}, {kListenerPort, notice.listener_port}, {kResult, gateway::to_string(notice.result)}};
  if (notice.peer_port != 0) {
    fields.emplace_back(kClientPort, notice.peer_port);
  }
  if (notice.client_class) {
    fields.emplace_back(kClientSection, section_of(notice, numbers));
  }
  if (const auto backends = numbers.backends.values(); notice.backend < backends.size()) {
    fields.emplace_back(kBackend, backends[notice.backend].name);
  }
  if (notice.qp_error.any()) {
    fields.emplace_back(kCause, notice.qp_error.cause);
    fields.emplace_back(kOrigin, notice.qp_error.origin);
  }
  if (notice.wire != "none") {
    fields.emplace_back(kWire, notice.wire);
  }
  if (notice.remote_qpn.value() != 0) {
    fields.emplace_back(kLocalQpn, notice.local_qpn.value());
    fields.emplace_back(kRemoteQpn, notice.remote_qpn.value());
  }
  if (is_accepted(notice)) {
    if (tells_path_mtu(notice)) {
      fields.emplace_back(kPathMtu, notice.packet_bytes);
    }
    fields.emplace_back(kInlineSendBytes, notice.inline_send_bytes);
    fields.emplace_back(kInlineReceiveBytes, notice.inline_receive_bytes);
    fields.emplace_back(kRemoteInvalidation, notice.remote_invalidation ? "on" : "off");
  } else if (!gateway::is_refusal(notice.result)) {
    fields.emplace_back(kCalls, notice.calls);
  }
  return fields;
}

void log_notice(const gateway::Notice& notice, const control::Config& config, const gateway::ConfigIds& numbers) {
  const std::span<const gateway::BackendIdentity> backends = numbers.backends.values();
  const std::string backend = notice.backend < backends.size() ? backends[notice.backend].name : "none";
  telemetry::LogFields fields = fields_of(notice, numbers);
  switch (notice.result) {
    case gateway::ConnectionResult::kAccepted:
    case gateway::ConnectionResult::kTakenOver:
      telemetry::log_info(fields, "connection from {} to port {} {}: {}{}, inline {}/{}, remote invalidation {}, backend {}",
                          text(notice.peer), notice.listener_port,
                          notice.result == gateway::ConnectionResult::kAccepted ? "accepted" : "goes on", queue_pair_of(notice),
                          path_mtu_of(notice), notice.inline_send_bytes, notice.inline_receive_bytes,
                          notice.remote_invalidation ? "on" : "off", backend);
      return;
    case gateway::ConnectionResult::kClosedByPeer:
    case gateway::ConnectionResult::kClosedByUs:
    case gateway::ConnectionResult::kDrained:
    case gateway::ConnectionResult::kHandedOver:
      telemetry::log_info(fields, "connection from {} ({}) ended: {}, {} calls answered", text(notice.peer),
                          queue_pair_of(notice), gateway::to_string(notice.result), notice.calls);
      return;
    case gateway::ConnectionResult::kFailedTransport:
      telemetry::log_warning(fields, "connection from {} ({}) failed: {} (by {}), {} calls answered", text(notice.peer),
                             queue_pair_of(notice), to_text(notice.qp_error), notice.qp_error.origin, notice.calls);
      return;
    case gateway::ConnectionResult::kRefusedClientDenied:
      telemetry::log_warning(fields, "connection from {} to port {} refused: [[client]] section {} has allow = false",
                             text(notice.peer), notice.listener_port, section_of(notice, numbers));
      return;
    case gateway::ConnectionResult::kRefusedClientLimit: {
      const std::string& section = section_of(notice, numbers);
      const auto found = std::ranges::find(config.clients, section, &control::ClientConfig::name);
      const uint32_t connections_max = found == config.clients.end() ? 0 : found->connections_max;  // 0: a reload came between
      fields.emplace_back(telemetry::LogFieldName::kSectionConnectionsMax, connections_max);
      telemetry::log_warning(
          fields, "connection from {} to port {} refused: [[client]] section {} has its {} connections, connections_max",
          text(notice.peer), notice.listener_port, section, connections_max);
      return;
    }
    default:
      telemetry::log_warning(fields, "connection from {} to port {} (backend {}): {}, {} calls answered", text(notice.peer),
                             notice.listener_port, backend, gateway::to_string(notice.result), notice.calls);
  }
}

control::CoreWatch make_watch(const std::vector<GatewayApp*>& apps, const control::Notifier& notifier) {
  std::vector<control::Heartbeat*> cores;
  cores.reserve(apps.size());
  for (GatewayApp* app : apps) {
    cores.push_back(&app->heartbeat());
  }
  const std::optional<Duration> timeout = notifier.watchdog_timeout();
  return timeout ? control::CoreWatch(cores, *timeout) : control::CoreWatch(cores);
}

}  // namespace

ControlThread::ControlThread(control::Config config, std::string config_path, const control::Successor& successor,
                             std::vector<GatewayApp*> apps, telemetry::GatewayFlags& flags, const control::Notifier& notifier,
                             DrainDriver& drain, TroubleWatch& trouble, LiveChanges& changes,
                             const telemetry::HealthSource& health)
    : config_(std::move(config)),
      config_path_(std::move(config_path)),
      successor_(successor),
      apps_(std::move(apps)),
      flags_(flags),
      notifier_(notifier),
      drain_(drain),
      trouble_(trouble),
      changes_(changes),
      health_(health),
      planner_(config_),
      lcores_(control::poll_cpus(config_)),
      watch_(make_watch(apps_, notifier)) {}

sigset_t ControlThread::signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR2);
  return signals;
}

void ControlThread::run(std::atomic<bool>& stop) {
  (void)pthread_setname_np(pthread_self(), "cw-control");
  const sigset_t waited_for = signals();
  bool is_busy = true;
  while (true) {
    const timespec wait{0, phase_ == Phase::kHandingOver || is_followed_ ? kHandOverTurnNs : is_busy ? kTurnNs : kQuietTurnNs};
    const int signal = sigtimedwait(&waited_for, nullptr, &wait);
    is_busy = write_notices(monotonic_now()) || phase_ != Phase::kServing || drain_.is_under_way();
    watch_cores();
    trouble_.turn(monotonic_now());
    if (signal == SIGHUP && phase_ == Phase::kServing) {
      (void)reload("SIGHUP");
    }
    if (signal == SIGUSR2 && phase_ == Phase::kServing) {
      on_restart_signal();
    }
    drain_.turn();
    if ((signal == SIGTERM || signal == SIGINT) && !on_stop_signal(signal == SIGTERM ? "SIGTERM" : "SIGINT")) {
      break;
    }
    if (has_shut_down()) {
      break;
    }
  }
  stop.store(true);
  std::ranges::for_each(apps_, &GatewayApp::wake);
}

bool ControlThread::write_notices(Instant now) {
  gateway::Notice notice;
  bool had_some = false;
  for (GatewayApp* app : apps_) {
    while (app->poll_notice(notice)) {
      had_some = true;
      if (notice_limit_.admits(now, notice.result)) {
        const std::lock_guard lock(mutex_);
        log_notice(notice, config_, changes_.numbers());
      }
    }
  }
  if (const uint64_t left_out = notice_limit_.take_left_out(now); left_out > 0) {
    telemetry::log_warning("{} more connection requests were refused; causeway_connections_refused_total says why", left_out);
  }
  return had_some;
}

bool ControlThread::on_stop_signal(const char* name) {
  switch (phase_) {
    case Phase::kServing: {
      std::unique_lock lock(mutex_);
      const std::chrono::seconds drain(config_.gateway.drain_on_stop_s);
      lock.unlock();
      if (drain.count() == 0) {
        begin_shutdown();
        return true;
      }
      phase_ = Phase::kDraining;
      deadline_ = std::chrono::steady_clock::now() + drain + kForceTime;
      notify(notifier_.stopping("draining " + counted(watch_.connections(), "connection"),
                                Duration::seconds((drain + kForceTime + kShutdownTimeout).count())));
      drain_.start_last(name, Duration::seconds(drain.count()));
      return true;
    }
    case Phase::kDraining:
      begin_shutdown();
      return true;
    case Phase::kHandingOver:
      telemetry::log_warning("told to end by {}: nobody follows", name);
      is_followed_ = false;
      begin_shutdown();
      return true;
    case Phase::kDisconnecting:
      return false;
  }
  return false;
}

bool ControlThread::restart(const std::string& who, std::string& problem) {
  if (phase_ != Phase::kServing) {
    problem = "the gateway is ending";
    return false;
  }
  const std::string wanted = fmt::format("{}/{}", kHandOverFormat, lcores_.size());
  if (!successor_.can_follow({"--check-config", config_path_, "--takes-over", wanted}, problem)) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    restarted_by_ = who;
  }
  (void)kill(getpid(), SIGUSR2);
  return true;
}

void ControlThread::on_restart_signal() {
  std::string who;
  {
    const std::lock_guard lock(mutex_);
    who.swap(restarted_by_);
  }
  if (who.empty()) {
    std::string problem;
    if (!restart("SIGUSR2", problem)) {  // and the signal comes again
      telemetry::log_error("restart asked for by SIGUSR2: {}; the gateway goes on as it was", problem);
    }
    return;
  }
  phase_ = Phase::kHandingOver;
  is_followed_ = true;
  deadline_ = std::chrono::steady_clock::now() + kHandOverTime;
  notify(notifier_.reloading(monotonic_now(), "restarting"));
  drain_.hand_over(who);
}

bool ControlThread::has_shut_down() {
  const bool is_late = std::chrono::steady_clock::now() > deadline_;
  if ((phase_ == Phase::kDraining || phase_ == Phase::kHandingOver) && (is_late || drain_.is_over())) {
    begin_shutdown();
    return false;
  }
  return phase_ == Phase::kDisconnecting && (is_late || std::ranges::all_of(apps_, &GatewayApp::is_quiet));
}

void ControlThread::begin_shutdown() {
  phase_ = Phase::kDisconnecting;
  drain_.shut_down();
  if (is_followed_) {
    deadline_ = std::chrono::steady_clock::now() + kGoodbyeTime;
  } else {
    deadline_ = std::chrono::steady_clock::now() + kShutdownTimeout;
    flags_.draining.store(true);
    flags_.listening.store(false);
    telemetry::log_info("shutting down: disconnecting all clients");
    notify(notifier_.stopping("disconnecting " + counted(watch_.connections(), "client"),
                              Duration::seconds(kShutdownTimeout.count())));
  }
  std::ranges::for_each(apps_, &GatewayApp::request_shutdown);
}

control::ReloadReport ControlThread::compare(const control::LoadedConfig& loaded, control::ReloadPlan& next) const {
  control::ReloadReport report;
  report.file = config_path_;
  std::vector<control::Problem> problems = loaded.problems;
  if (loaded.ok()) {
    next = planner_.plan(config_, loaded, config_path_);
    std::ranges::move(next.problems, std::back_inserter(problems));
    std::ranges::move(changes_.problems(next.config, config_path_), std::back_inserter(problems));
    report.changes = control::config_changes(config_, loaded.config);
  }
  report.valid = !control::has_errors(problems);
  std::ranges::transform(problems, std::back_inserter(report.problems),
                         [](const control::Problem& problem) { return control::to_string(problem); });
  return report;
}

control::ReloadReport ControlThread::preview_reload() {
  const control::LoadedConfig loaded = control::load_config(config_path_);
  const std::lock_guard lock(mutex_);
  control::ReloadPlan next;
  return compare(loaded, next);
}

control::ReloadReport ControlThread::reload(const std::string& who) {
  const std::lock_guard lock(mutex_);
  telemetry::log_info("reload asked for by {}", who);
  notify(notifier_.reloading(monotonic_now(), "reading " + config_path_));
  const control::LoadedConfig loaded = control::load_config(config_path_);
  control::ReloadPlan next;
  control::ReloadReport report = compare(loaded, next);
  for (const std::string& problem : report.problems) {
    telemetry::log_warning("{}", problem);
  }
  flags_.config_last_reload_successful.store(report.valid);
  if (!report.valid) {
    telemetry::log_error("{} is not valid: the gateway goes on as it was; fix what is named above and reload again",
                         config_path_);
  } else {
    report.applied = true;
    flags_.config_last_reload_unix_s.store(unix_now_s());
    config_ = std::move(next.config);
    ++settings_version_;
    planner_.on_applied(config_);
    telemetry::log_set_level(config_.log.level);
    telemetry::log_set_format(config_.log.format, config_.gateway.instance);
    switch (changes_.apply(config_, next.pulled_max)) {
      case Reconfigured::kDone:
        break;
      case Reconfigured::kNotAllListen:
        telemetry::log_warning(
            "a listener could not take its address and port: causewayctl doctor says what is in the way; then reload again");
        break;
      case Reconfigured::kNoAnswer:
        telemetry::log_warning("a poll core has not taken the changes; reload again");
        break;
    }
    std::vector<std::string> waiting;
    for (const control::SettingChange& change : report.changes) {
      if (!change.live) {
        waiting.push_back(change.key);
      }
    }
    if (waiting.empty()) {
      telemetry::log_info("{} read again", config_path_);
    } else {
      telemetry::log_warning("{} read again; these changes wait for a restart: {}", config_path_, fmt::join(waiting, ", "));
    }
  }
  reloaded_ = true;  // READY=1 ends the reload, when the cores have turned again
  return report;
}

std::vector<control::SettingText> ControlThread::settings() {
  const std::lock_guard lock(mutex_);
  return control::settings_of(config_);
}

control::LogLevel ControlThread::log_level() {
  const std::lock_guard lock(mutex_);
  return config_.log.level;
}

void ControlThread::set_log_level(const std::string& who, control::LogLevel level) {
  const std::lock_guard lock(mutex_);
  telemetry::log_warning("log level changed from {} to {} by {}, until the next reload", to_string(config_.log.level),
                         to_string(level), who);
  config_.log.level = level;
  ++settings_version_;
  telemetry::log_set_level(level);
}

void ControlThread::watch_cores() {
  const bool was_stalled = watch_.is_stalled();
  const Instant now = monotonic_now();
  const control::CoreNews news = watch_.poll(now);
  if (news == control::CoreNews::kStalled) {
    const uint32_t cpu = lcores_[watch_.stalled_core()];
    const std::string what = fmt::format("the poll core on CPU {} has not turned for {:.1f} s: nobody is served", cpu,
                                         (now - watch_.asked_at()).to_seconds());
    telemetry::log_error("{}", what);
    status_ = what;
    notify(notifier_.status(what));
    return;
  }
  if (news == control::CoreNews::kTurning) {
    if (was_stalled) {
      telemetry::log_warning("the poll core turns again");
    }
    notify(notifier_.feed_watchdog());
    say_status();
  }
}

void ControlThread::say_status() {
  if (phase_ != Phase::kServing) {
    return;
  }
  if (const std::lock_guard lock(mutex_); reloaded_) {
    reloaded_ = false;
    status_.clear();
    ready_said_ = false;
  }
  const telemetry::Health health = health_.health();
  const std::string trouble = health.ready && health.warnings.empty() ? "" : "; " + telemetry::to_text(health);
  const std::string now = fmt::format("{}, {}{}", drain_.status().state, counted(watch_.connections(), "connection"), trouble);
  if (!ready_said_) {
    ready_said_ = true;
    notify(notifier_.ready(now));
  } else if (now != status_) {
    notify(notifier_.status(now));
  }
  status_ = now;
}

void ControlThread::notify(bool sent) {
  if (!sent) {
    telemetry::log_warning("the service manager does not take notifications: {}", std::strerror(errno));
  }
}

}  // namespace cw::dataplane
