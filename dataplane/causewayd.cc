// causewayd: reads the configuration, wires the layers by hand from top to bottom, and runs until SIGTERM or SIGINT.
//
// Threads: poll core (an lcore, or this thread when main_lcore is the poll core), workers (TBB), admin, metrics, and a control
// thread (control_thread.h). Shutdown is orderly: no new connections, DREQ to every client, then the rest.
// Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.
#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "control/admin/admin_server.h"
#include "control/config/config_file.h"
#include "control/service/notifier.h"
#include "dataplane/assemble.h"
#include "dataplane/control_thread.h"
#include "dataplane/core_loop.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/entropy.h"
#include "dataplane/gateway_app.h"
#include "dataplane/live_view.h"
#include "dataplane/metric_sources.h"
#include "rpcrdma/backend/bench_program.h"
#include "telemetry/collector.h"
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

std::string text(const wire::IpAddress& address) {
  return std::string(wire::to_text(address).data());
}

struct PollArguments {
  CoreLoop* loop;
  const std::atomic<bool>* stop;
};

int poll_main(void* arguments) {
  const auto* poll = static_cast<PollArguments*>(arguments);
  poll->loop->run(*poll->stop);
  return 0;
}

int serve(const control::Config& config, const std::string& config_path, bool verbose) {
  if (config.dataplane.poll_lcores.size() > 1) {
    return say("dataplane.poll_lcores: this version polls on one core; name one CPU");
  }
  // Before any thread starts, so that all of them leave these to the control thread.
  const sigset_t signals = ControlThread::signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  telemetry::log_start(config.log.level);

  std::string error;
  const control::Notifier notifier = control::Notifier::open(control::notify_environment(), error);
  if (!error.empty()) {
    telemetry::log_warning("{}: the service manager will not hear from this process", error);
  }
  (void)notifier.status("starting DPDK");
  EalSettings eal;
  eal.instance = config.gateway.instance;
  eal.main_lcore = config.dataplane.main_lcore;
  eal.poll_lcores = config.dataplane.poll_lcores;
  eal.hugepages = config.dataplane.hugepages;
  eal.memory_mb = config.dataplane.memory_mb;
  eal.verbose = verbose;
  for (const control::PortConfig& port : config.ports) {
    if (port.device.find(':') != std::string::npos && port.device.find('=') == std::string::npos) {
      eal.pci_devices.push_back(port.device);
    }
  }
  if (!start_eal(eal, error)) {
    return say(error);
  }
  const TscClock clock;
  Entropy entropy;
  const std::unique_ptr<MbufPools> pools = MbufPools::create(pool_sizes(config), error);
  if (pools == nullptr) {
    return say(error);
  }
  std::vector<std::unique_ptr<Port>> ports;
  for (const control::PortConfig& port : config.ports) {
    ports.push_back(Port::open(port_settings(port), *pools, error));
    if (ports.back() == nullptr) {
      return say(error);
    }
  }

  rpcrdma::BenchProgram bench;
  rpcrdma::ProgramRegistry programs;
  (void)programs.add(bench);
  Wakeup wakeup;
  WorkerPool workers(worker_options(config), pools->large(), programs, {&wakeup});
  auto node = std::make_unique<node::Node>(node_options(config, ports), entropy, nullptr);
  auto gateway =
      std::make_unique<gateway::Gateway>(gateway_options(config), *node, pools->packets(), pools->large(), programs, entropy);
  GatewayApp app(0, *gateway, *node, workers, ports, *pools);
  CoreLoop loop(*node, ports, *pools, clock, app, wakeup, config.dataplane.idle == control::IdleMode::kSpin);
  app.set_loop(&loop);
  if (!gateway->start().ok()) {
    return say("too many listeners");
  }

  telemetry::GatewayFlags flags;
  flags.config_last_reload_unix_s.store(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  flags.hugepage_bytes.store(config.dataplane.hugepages ? uint64_t{config.dataplane.memory_mb} << 20 : 0);
  const telemetry::Collector collector(metric_sources(config, kVersion, app, ports, flags));
  LiveView view(config, kVersion, app, collector, ports, flags);
  const std::unique_ptr<control::AdminServer> admin =
      control::AdminServer::start(control::admin_socket_path(config), view, error);
  if (admin == nullptr) {
    return say(error);
  }
  std::unique_ptr<telemetry::MetricsServer> metrics;
  if (config.metrics.listen) {
    metrics = telemetry::MetricsServer::start({.listen = *config.metrics.listen}, collector, collector, error);
    if (metrics == nullptr) {
      return say(error);
    }
  }

  workers.start();
  for (uint16_t i = 0; i < ports.size(); ++i) {
    node->station(i).announce();
  }
  std::atomic<bool> stop{false};
  PollArguments poll{&loop, &stop};
  ControlThread control_thread(config, config_path, app, flags, notifier);
  std::thread control([&] { control_thread.run(stop); });
  flags.ready.store(true);
  std::fprintf(
      stderr, "causewayd: ready, instance %s, %zu ports, admin socket %s%s\n", config.gateway.instance.c_str(), ports.size(),
      control::admin_socket_path(config).c_str(),
      metrics != nullptr
          ? fmt::format(", metrics http://{}:{}/metrics", text(metrics->address().address), metrics->address().port).c_str()
          : "");
  const uint32_t poll_lcore = config.dataplane.poll_lcores.front();
  if (poll_lcore == config.dataplane.main_lcore) {
    poll_main(&poll);
    control.join();
  } else {
    rte_eal_remote_launch(poll_main, &poll, poll_lcore);
    control.join();
    rte_eal_wait_lcore(poll_lcore);  // spins: only when the poll core has been told to end
  }
  workers.stop();
  telemetry::log_info("stopped");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App cli("causewayd: RPC-over-RDMA gateway (RoCEv2 on DPDK)");
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
