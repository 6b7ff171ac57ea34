// causewayd: reads the configuration, wires the layers by hand from top to bottom, and runs until SIGTERM or SIGINT.
//
// Threads: poll cores (lcores; this thread too when main_lcore is one of them), workers (TBB), admin, metrics, and a control
// thread (control_thread.h). Shutdown is orderly: no new connections, DREQ to every client, then the rest.
// Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "control/admin/admin_server.h"
#include "control/config/config_file.h"
#include "control/doctor/interface_queues.h"
#include "control/service/notifier.h"
#include "dataplane/assemble.h"
#include "dataplane/capture_desk.h"
#include "dataplane/control_thread.h"
#include "dataplane/core_exchange.h"
#include "dataplane/core_threads.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/dpdk/telemetry_commands.h"
#include "dataplane/drain_driver.h"
#include "dataplane/entropy.h"
#include "dataplane/gateway_app.h"
#include "dataplane/health_checks.h"
#include "dataplane/heap_pools.h"
#include "dataplane/host_key.h"
#include "dataplane/kernel_addresses.h"
#include "dataplane/live_changes.h"
#include "dataplane/live_control.h"
#include "dataplane/live_view.h"
#include "dataplane/metric_sources.h"
#include "dataplane/monotonic_clock.h"
#include "dataplane/poll_core.h"
#include "dataplane/trouble_watch.h"
#include "rpcrdma/backend/bench_program.h"
#include "telemetry/collector.h"
#include "telemetry/history.h"
#include "telemetry/history_recorder.h"
#include "telemetry/live_page.h"
#include "telemetry/log.h"
#include "telemetry/metrics_server.h"

namespace cw::dataplane {
namespace {

constexpr const char* kVersion = CAUSEWAY_VERSION;
constexpr int kExitUsage = 2;

int say(const std::string& sentence) {
  std::fprintf(stderr, "causewayd: %s\n", sentence.c_str());
  return 1;
}

// The service manager starts a gateway that ended this way again, and clients reconnect. Going on without memory for a
// connection's state would serve the others for a while, and then end anyway, at a place less clear.
[[noreturn]] void on_no_memory() {
  constexpr std::string_view kSentence =
      "causewayd: out of memory: ends here, to be started again; raise the limit (MemoryMax, ulimit -v, the container's), or "
      "lower "
      "limits.connections_max\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  std::abort();
}

int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// How packets reach their core, and what is particular about a port that is shared with the kernel.
void say_port(const control::Config& config, const control::PortConfig& settings, const Port& port) {
  if (port.steering() == PortSteering::kFlow) {
    telemetry::log_info("port '{}': rules of the driver {} give each of {} queues the packets of its core's queue pairs",
                        settings.device, port.driver(), port.queues());
  } else if (!port.steering_refusal().empty()) {
    telemetry::log_info(
        "port '{}': the driver {} takes no rules by queue pair number ({}): packets are dealt to {} queues by RSS, and cores "
        "hand "
        "over what is another one's",
        settings.device, port.driver(), port.steering_refusal(), port.queues());
  }
  if (!settings.beside_kernel && settings.exception_tap.empty()) {
    return;
  }
  std::string addresses;
  for (const control::IpPrefix& prefix : settings.addresses) {
    addresses += (addresses.empty() ? "" : ", ") + control::to_string(prefix.address);
  }
  telemetry::log_info("port '{}': takes UDP 4791 to {}; the kernel {}. RoCE packets carry {} bytes", settings.device, addresses,
                      settings.beside_kernel ? "keeps the rest" : "has the rest by " + settings.exception_tap,
                      control::path_mtu_for(settings.mtu, config.roce.path_mtu_max));
  if (const uint32_t there = control::doctor::receive_queues_of(port.interface());
      control::is_af_xdp(settings.device) && there > port.queues()) {
    telemetry::log_warning(
        "port '{}': {} has {} receive queues and the gateway reads {}: RoCE packets on the others are lost. {}", settings.device,
        port.interface(), there, port.queues(), control::doctor::queue_fix(port.interface(), port.queues()));
  }
}

int serve(const control::Config& file_config, const std::string& config_path, bool verbose) {
  // Before any thread starts, so that all of them leave these to the control thread.
  const sigset_t signals = ControlThread::signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(on_no_memory);
  telemetry::log_start(file_config.log.level);

  std::string error;
  control::Config config = file_config;
  if (!fill_kernel_addresses(config, error)) {
    return say(error);
  }
  const control::Notifier notifier = control::Notifier::open(control::notify_environment(), error);
  if (!error.empty()) {
    telemetry::log_warning("{}: the service manager will not hear from this process", error);
  }
  // Without ports there is no DPDK: no hugepages, no device, nothing that takes root.
  std::unique_ptr<MbufPools> mbufs;
  std::unique_ptr<HeapPools> heap;
  std::vector<std::unique_ptr<Port>> ports;
  if (control::needs_dpdk(config)) {
    (void)notifier.status("starting DPDK");
    EalSettings eal = eal_settings(config);
    eal.verbose = verbose;
    if (!start_eal(eal, error)) {
      return say(error);
    }
    mbufs = MbufPools::create(control::pool_sizes(config), error);
    if (mbufs == nullptr) {
      return say(error);
    }
    for (const control::PortConfig& port : config.ports) {
      ports.push_back(Port::open(port_settings(config, port), *mbufs, error));
      if (ports.back() == nullptr) {
        return say(error);
      }
      say_port(config, port, *ports.back());
    }
  } else {
    if (!choose_cpus(cpu_settings(config), error)) {
      return say(error);
    }
    heap = std::make_unique<HeapPools>(control::pool_sizes(config));
  }
  BufferPools& pools = mbufs != nullptr ? static_cast<BufferPools&>(*mbufs) : *heap;

  rpcrdma::BenchProgram bench;
  rpcrdma::ProgramRegistry programs;
  (void)programs.add(bench);
  const uint32_t core_count = static_cast<uint32_t>(config.dataplane.poll_lcores.size());
  const auto wakeups = std::make_unique<Wakeup[]>(core_count);
  std::vector<Wakeup*> wakeup_list;
  for (uint32_t i = 0; i < core_count; ++i) {
    wakeup_list.push_back(&wakeups[i]);
  }
  const auto borrows = std::ranges::find(config.backends, control::SourceKind::kClient, &control::BackendConfig::source);
  if (borrows != config.backends.end() && !BackendStream::may_borrow()) {
    return say("backend '" + borrows->name +
               "': source = \"client\" connects from addresses that are not this host's, which takes CAP_NET_RAW; give it to the "
               "process (deploy/systemd/drop-ins/source-client.conf), or use source = \"gateway\"");
  }
  WorkerPoolOptions pool_options = worker_options(config);
  pool_options.cpus = worker_cpus();
  pool_options.port_key = host_key();
  pool_options.yields = std::ranges::any_of(config.dataplane.poll_lcores, is_worker_cpu);
  WorkerPool workers(pool_options, {pools.packets(), pools.large()}, programs, wakeup_list);
  std::unique_ptr<CoreExchange> exchange = core_count > 1 ? std::make_unique<CoreExchange>(wakeup_list) : nullptr;
  gateway::ConfigIds numbers;
  numbers.add(config);
  const std::unique_ptr<gateway::ConnectionQuota> quota = connection_quota(config, numbers);
  const std::unique_ptr<gateway::ConnectionQuota> quota_of_clients = client_quota(config, numbers);
  const PollShared shared{.config = config,
                          .ports = ports,
                          .pools = pools,
                          .mbufs = mbufs.get(),
                          .workers = workers,
                          .programs = programs,
                          .quota = *quota,
                          .client_quota = *quota_of_clients,
                          .numbers = numbers,
                          .exchange = exchange.get(),
                          .qpn_key = Entropy().next_u64() | 1};
  std::vector<std::unique_ptr<PollCore>> cores;
  std::vector<GatewayApp*> apps;
  for (uint32_t i = 0; i < core_count; ++i) {
    cores.push_back(std::make_unique<PollCore>(shared, CoreShare{i, core_count}, wakeups[i]));
    apps.push_back(&cores.back()->app());
    if (const Status listening = cores.back()->listen(); !listening.ok()) {
      return say(listening.error() == Error::kLimit
                     ? "too many listeners"
                     : "a listener could not take its address and port: causewayctl doctor says what is in the way");
    }
  }

  telemetry::GatewayFlags flags;
  flags.config_last_reload_unix_s.store(unix_now_ms() / 1000);
  flags.hugepage_bytes.store(mbufs != nullptr && config.dataplane.hugepages ? uint64_t{config.dataplane.memory_mb} << 20 : 0);
  HealthChecks checks(config.backends, numbers, core_count,
                      [&apps](uint32_t core, const gateway::CoreMessage& message) { return apps[core]->tell(message); });
  telemetry::Collector collector(metric_sources(config, kVersion, apps, ports, flags, checks, numbers));
  std::optional<TelemetryCommands> telemetry_commands;
  if (config.metrics.dpdk_telemetry) {
    telemetry_commands.emplace(collector, kVersion);
  }
  LiveView view(config, kVersion, apps, collector, ports, flags, checks, numbers);
  std::optional<telemetry::History> history;
  std::optional<telemetry::HistoryRecorder> recorder;
  std::optional<telemetry::LivePage> page;
  if (config.metrics.listen) {
    history.emplace(collector.sources(), unix_now_ms(), monotonic_now());
    recorder.emplace(collector, *history, config.metrics.page);
    page.emplace(collector, *history, view);
    page->set_on(config.metrics.page);
  }
  DrainDriver drain(apps, flags);
  TroubleWatch trouble(ports, pools);
  LiveChanges changes({.apps = apps,
                       .workers = workers,
                       .quota = *quota,
                       .client_quota = *quota_of_clients,
                       .numbers = numbers,
                       .checks = checks,
                       .view = view,
                       .collector = collector,
                       .page = page ? &*page : nullptr,
                       .recorder = recorder ? &*recorder : nullptr});
  ControlThread control_thread(file_config, config_path, apps, flags, notifier, drain, trouble, changes);
  std::vector<PollCore*> tapped;
  tapped.reserve(cores.size());
  for (const auto& core : cores) {
    tapped.push_back(core.get());
  }
  CaptureDesk capture(tapped, !ports.empty());
  LiveControl live_control(control_thread, drain, capture);
  const std::optional<control::AdminPolicy> policy = control::resolve_policy(config.admin, error);
  if (!policy) {
    return say(error);
  }
  const std::unique_ptr<control::AdminServer> admin =
      control::AdminServer::start(control::admin_socket_path(config), *policy, {view, live_control}, error);
  if (admin == nullptr) {
    return say(error);
  }
  std::unique_ptr<telemetry::MetricsServer> metrics;
  if (config.metrics.listen) {
    metrics = telemetry::MetricsServer::start({.listen = *config.metrics.listen, .page = &*page}, collector, collector, error);
    if (metrics == nullptr) {
      return say(error);
    }
  }

  workers.start();
  checks.start();
  cores.front()->announce();
  std::atomic<bool> stop{false};
  std::thread control([&] { control_thread.run(stop); });
  flags.ready.store(true);
  std::fprintf(
      stderr, "causewayd: ready, instance %s, %zu ports, admin socket %s%s\n", config.gateway.instance.c_str(), ports.size(),
      control::admin_socket_path(config).c_str(),
      metrics != nullptr ? fmt::format(", metrics http://{}/metrics", control::to_string(metrics->address())).c_str() : "");
  run_cores(config, cores, control, stop);
  checks.stop();
  workers.stop();
  telemetry::log_info("stopped");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App cli("causewayd: RPC-over-RDMA gateway (RoCEv2 on DPDK, iWARP on TCP)");
  std::string path = "/etc/causeway/causeway.toml";
  bool check = false;
  bool verbose = false;
  cli.add_option("-c,--config", path, "configuration file")->capture_default_str();
  cli.add_flag("--check-config", check, "check the configuration, print every problem, and exit (0 = fine)");
  cli.add_flag("-v,--verbose", verbose, "show DPDK's own start-up messages");
  cli.set_version_flag("-V,--version", std::string("causewayd ") + kVersion);
  cli.footer(
      "Ends on SIGTERM or SIGINT after disconnecting all clients. SIGHUP reads the configuration again; what it cannot change\n"
      "at run time is said in the log. See causewayctl for status and statistics.\n"
      "Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : kExitUsage;
  }

  const control::LoadedConfig loaded = control::load_config(path);
  for (const control::Problem& problem : loaded.problems) {
    std::fprintf(stderr, "%s\n", control::to_string(problem).c_str());
  }
  if (!loaded.ok()) {
    return 1;
  }
  if (check) {
    std::fprintf(stdout, "%s: fine\n", path.c_str());
    return 0;
  }
  const int status = serve(loaded.config, path, verbose);
  stop_eal();
  return status;
}

}  // namespace
}  // namespace cw::dataplane

int main(int argc, char** argv) {
  return cw::dataplane::run(argc, argv);
}
