// causewayd: reads the configuration, builds the data path and the management over it, and runs until SIGTERM or SIGINT.
//
// Threads: poll cores (lcores; this thread too when main_lcore is one of them), workers (TBB), admin, metrics, and a control
// thread (control_thread.h). Shutdown is orderly: no new connections, DREQ to every client, then the rest.
// Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "control/config/config_file.h"
#include "control/service/notifier.h"
#include "dataplane/control_thread.h"
#include "dataplane/core_threads.h"
#include "dataplane/data_path.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/kernel_addresses.h"
#include "dataplane/management.h"
#include "telemetry/log.h"

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
      "causewayd: out of memory: ends here, to be started again; "
      "raise the limit (MemoryMax, ulimit -v, the container's), or lower limits.connections_max\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  std::abort();
}

void say_ready(const control::Config& config, const Management& management) {
  const std::optional<control::SocketAddress> metrics = management.metrics_address();
  std::fprintf(stderr, "causewayd: ready, instance %s, %zu ports, admin socket %s%s\n", config.gateway.instance.c_str(),
               config.ports.size(), management.admin_socket().c_str(),
               metrics ? fmt::format(", metrics http://{}/metrics", control::to_string(*metrics)).c_str() : "");
}

int serve(const control::Config& file_config, const std::string& config_path, bool verbose) {
  // Before any thread starts, so that all of them leave these to the control thread.
  const sigset_t signals = ControlThread::signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(on_no_memory);
  telemetry::log_start(file_config.log.level);

  std::string problem;
  control::Config config = file_config;
  if (!fill_kernel_addresses(config, problem)) {
    return say(problem);
  }
  const control::Notifier notifier = control::Notifier::open(control::notify_environment(), problem);
  if (!problem.empty()) {
    telemetry::log_warning("{}: the service manager will not hear from this process", problem);
  }
  const std::unique_ptr<DataPath> path = DataPath::create(config, notifier, verbose, problem);
  if (path == nullptr) {
    return say(problem);
  }
  Management management({.file_config = file_config, .config = config, .config_path = config_path, .version = kVersion}, *path,
                        notifier);
  if (!management.listen(problem)) {
    return say(problem);
  }

  path->workers().start();
  path->cores().front()->announce();
  std::atomic<bool> stop{false};
  management.start();
  std::thread control([&] { management.run(stop); });
  say_ready(config, management);
  run_cores(config, path->cores(), control, stop);
  management.stop();
  path->workers().stop();
  telemetry::log_info("stopped");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App cli("causewayd: RPC-over-RDMA gateway (RoCEv2 on DPDK, iWARP on TCP)");
  std::string path = "/etc/causeway/causeway.toml";
  std::string file_to_check;
  bool verbose = false;
  const CLI::Option* config_option = cli.add_option("-c,--config", path, "configuration file")->capture_default_str();
  const CLI::Option* check_option =
      cli.add_option("--check-config", file_to_check,
                     "check FILE, or the file of --config, print every problem, and exit (0 = fine)")
          ->expected(0, 1)
          ->type_name("[FILE]");
  cli.add_flag("-v,--verbose", verbose, "show DPDK's own start-up messages");
  cli.set_version_flag("-V,--version", std::string("causewayd ") + kVersion);
  cli.footer(
      "Ends on SIGTERM or SIGINT after disconnecting all clients. SIGHUP reads the configuration again; what it cannot change\n"
      "at run time is said in the log. See causewayctl for status and statistics.\n"
      "Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.");
  cli.callback([&] {
    if (!file_to_check.empty() && config_option->count() > 0) {
      throw CLI::ValidationError("--check-config FILE", "names the file, and so does --config: give one of them");
    }
  });
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : kExitUsage;
  }

  const bool check = check_option->count() > 0;
  if (!file_to_check.empty()) {
    path = file_to_check;
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
