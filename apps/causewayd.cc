// causewayd: reads the configuration, builds the data path and the management over it, and runs until SIGTERM or SIGINT.
//
// Threads: poll cores (lcores; this thread too when main_lcore is one of them), workers (TBB), admin, metrics, and a control
// thread (control_thread.h). Shutdown is orderly: no new connections, DREQ to every client, then the rest.
// Exit status: 0 ended in order, 1 could not start or the configuration is wrong, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/last_words.h"
#include "control/config/config_file.h"
#include "control/recorder/recorder.h"
#include "control/service/notifier.h"
#include "control/service/successor.h"
#include "dataplane/control_thread.h"
#include "dataplane/core_threads.h"
#include "dataplane/data_path.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/handed_over.h"
#include "dataplane/kernel_addresses.h"
#include "dataplane/management.h"
#include "telemetry/log.h"
#include "telemetry/log_record.h"

namespace cw::dataplane {
namespace {

using control::recorder::Recorder;

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
  set_last_words("out of memory");
  std::abort();
}

void say_ready(const control::Config& config, const Management& management) {
  const std::optional<control::SocketAddress> metrics = management.metrics_address();
  const std::string said =
      fmt::format("ready, instance {}, {} {}, admin socket {}{}", config.gateway.instance, config.ports.size(),
                  config.ports.size() == 1 ? "port" : "ports", management.admin_socket(),
                  metrics ? fmt::format(", metrics http://{}/metrics", control::to_string(*metrics)) : "");
  if (config.log.format == control::LogLineFormat::kJson) {
    telemetry::log_info("{}", said);
  } else {
    std::fprintf(stderr, "causewayd: %s\n", said.c_str());
  }
}

// What outlives the process, when it ends and does not say so. Without it the gateway serves all the same.
std::unique_ptr<Recorder> open_recorder(const control::Config& config, const std::string& config_path) {
  std::error_code unknown;
  const control::recorder::Head head{.version = kVersion,
                                     .instance = config.gateway.instance,
                                     .config_path = std::filesystem::absolute(config_path, unknown).string(),
                                     .program = std::filesystem::read_symlink("/proc/self/exe", unknown).string(),
                                     .pid = static_cast<uint64_t>(getpid())};
  std::string before;
  std::string problem;
  std::unique_ptr<Recorder> recorder =
      Recorder::open(control::recorder::recorder_path(control::admin_socket_path(config)), head, before, problem);
  if (recorder == nullptr) {
    telemetry::log_warning("{}: should this process crash, causewayctl report has nothing of it", problem);
    return nullptr;
  }
  recorder->note_fatal_signals();
  telemetry::log_record_in(recorder.get());
  if (!before.empty()) {
    telemetry::log_warning("{}", before);
  }
  return recorder;
}

// Without the option there are no core dumps, which would have the data of clients; with it as large as the limit allows that the
// process was started with. Limits of users are not ours to lift.
void set_core_dumps(bool wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = wanted ? limit.rlim_max : 0;
    (void)setrlimit(RLIMIT_CORE, &limit);
  }
}

// What the process before has left to this one.
std::optional<HandedOver> take_legacy() {
  std::string problem;
  const std::optional<std::vector<uint8_t>> legacy = control::Successor::take_legacy(problem);
  std::optional<HandedOver> before;
  if (legacy) {
    before = parse_handed_over(*legacy);
    problem = before ? "" : "what the process before has left is of another version";
  }
  if (!problem.empty()) {
    telemetry::log_error("{}: clients connect anew", problem);
  }
  return before;
}

int run_gateway(const control::Config& file_config, const std::string& config_path, bool verbose, Recorder* recorder,
                const control::Successor& successor, std::optional<HandedOver>& handed_over, std::string& problem) {
  std::optional<HandedOver> before = std::exchange(handed_over, std::nullopt);
  control::Config config = file_config;
  if (!fill_kernel_addresses(config, problem)) {
    return 1;
  }
  const control::Notifier notifier = control::Notifier::open(control::notify_environment(), problem);
  if (!problem.empty()) {
    telemetry::log_warning("{}: the service manager will not hear from this process", problem);
  }
  const std::unique_ptr<DataPath> path = DataPath::create(config, notifier, verbose, before ? &*before : nullptr, problem);
  if (path == nullptr) {
    return 1;
  }
  Management management({.file_config = file_config,
                         .config = config,
                         .config_path = config_path,
                         .version = kVersion,
                         .successor = successor,
                         .recorder = recorder},
                        *path, notifier);
  if (!management.listen(problem)) {
    return 1;
  }

  path->workers().start();
  if (before) {
    const uint32_t count = path->take_over(*before);
    telemetry::log_info("{} of {} connections of the process before go on", count, before->connections());
    before.reset();
  }
  path->cores().front()->announce();
  std::atomic<bool> stop{false};
  management.start();
  std::thread control([&] { management.run(stop); });
  say_ready(config, management);
  run_cores(config, path->cores(), control, stop);
  management.stop();
  path->workers().stop();
  path->keep_memory_until_exit();
  if (management.is_followed()) {
    handed_over = path->take_handed_over();
    telemetry::log_info("stopped; the next process gets {} connections", handed_over->connections());
  } else {
    telemetry::log_info("stopped");
  }
  return 0;
}

int serve(const control::Config& config, const std::string& config_path, bool verbose, const control::Successor& successor,
          std::optional<HandedOver>& handed_over) {
  // Before any thread starts, so that all of them leave these to the control thread.
  const sigset_t signals = ControlThread::signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(on_no_memory);
  telemetry::log_start(config.log, config.gateway.instance);
  const std::unique_ptr<Recorder> recorder = open_recorder(config, config_path);
  std::string problem;
  handed_over = take_legacy();
  const int status = run_gateway(config, config_path, verbose, recorder.get(), successor, handed_over, problem);
  if (recorder != nullptr) {
    telemetry::log_record_in(nullptr);
    recorder->end(status == 0 ? control::recorder::End::kInOrder : control::recorder::End::kNotStarted, problem);
  }
  return status == 0 ? status : say(problem);
}

// FORMAT/CORES: what a process that we would follow writes down, and for how many poll cores. Empty: we could follow it.
std::string cannot_take_over(const std::string& asked, const control::Config& config) {
  const std::string ours = fmt::format("{}/{}", kHandOverFormat, control::poll_core_count(config));
  if (asked == ours) {
    return {};
  }
  return fmt::format(
      "connections cannot go on from format/poll cores {} to {}: use causewayctl drain start --wait, and start the gateway anew",
      asked, ours);
}

int run(int argc, char** argv) {
  const control::Successor successor(argc, argv);
  CLI::App cli("causewayd: RPC-over-RDMA gateway (RoCEv2 on DPDK, iWARP on TCP)");
  std::string path = "/etc/causeway/causeway.toml";
  std::string file_to_check;
  std::string takes_over;
  bool verbose = false;
  bool core_dumps = false;
  const CLI::Option* config_option = cli.add_option("-c,--config", path, "configuration file")->capture_default_str();
  const CLI::Option* check_option =
      cli.add_option("--check-config", file_to_check,
                     "check FILE, or the file of --config, print every problem, and exit (0 = fine)")
          ->expected(0, 1)
          ->type_name("[FILE]");
  cli.add_option("--takes-over", takes_over, "with --check-config: whether this program can follow one that says so")->group("");
  cli.add_flag("-v,--verbose", verbose, "show DPDK's own start-up messages");
  cli.add_flag("--core-dumps", core_dumps, "let a crash leave a core dump; it has data of clients");
  cli.set_version_flag("-V,--version", std::string("causewayd ") + kVersion);
  cli.footer(
      "Ends on SIGTERM or SIGINT: drains for gateway.drain_on_stop_s seconds at most, then disconnects all clients.\n"
      "SIGHUP reads the configuration again; what it cannot change at run time is said in the log.\n"
      "SIGUSR2 restarts: the program that is installed by then follows in this process, and RoCE clients stay connected.\n"
      "See causewayctl for status and statistics.\n"
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
  if (const std::string reason = takes_over.empty() ? "" : cannot_take_over(takes_over, loaded.config); !reason.empty()) {
    return say(reason);
  }
  if (check) {
    std::fprintf(stdout, "%s: fine\n", path.c_str());
    return 0;
  }
  set_core_dumps(core_dumps);
  std::optional<HandedOver> handed_over;
  const int status = serve(loaded.config, path, verbose, successor, handed_over);
  if (handed_over) {
    return say(successor.become(to_bytes(*handed_over)));
  }
  stop_eal();
  return status;
}

}  // namespace
}  // namespace cw::dataplane

int main(int argc, char** argv) {
  return cw::dataplane::run(argc, argv);
}
