// causeway-load: an RPC-over-RDMA client that loads a gateway's bench program and says what came of it.
//
// Opens connections through the real transport on a DPDK port of its own, keeps a window of calls in flight on each, checks every
// answer, shows progress each second, and ends with calls, octets and latency. Exit status: 0 all answers were right, 1 not, or
// no measurement came about, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "control/config/config.h"
#include "dataplane/core_loop.h"
#include "dataplane/entropy.h"
#include "telemetry/snapshot.h"
#include "tests/loadgen/load_driver.h"
#include "tests/loadgen/pktgen/command.h"
#include "tests/support/link_options.h"

namespace cw::load {
namespace {

struct Settings {
  test::LinkOptions link;
  std::string server;
  std::string gateway;
  uint32_t seconds = 10;
  uint32_t warmup_seconds = 1;
  uint32_t retry_seconds = 0;
  std::string operation = "echo";
  std::string json;
  bool spin = false;
  LoadOptions load;
};

// What the poll core tells the terminal.
struct Progress {
  LoadStats stats;
  uint32_t connected = 0;
  uint32_t in_flight = 0;
  uint32_t given_up = 0;
  cm::RejectReason last_reject{};
  rc::QpError last_qp_error;
};

class LoadApp final : public dataplane::CoreApp {
 public:
  LoadApp(LoadDriver& driver, client::Client& client) : driver_(driver), client_(client) {}
  bool turn(Instant now) override {
    if (!started_) {
      started_ = true;
      driver_.start(now);
    }
    const bool worked = driver_.turn(now);
    if (reset_.exchange(false, std::memory_order_relaxed)) {
      driver_.reset_stats();
    }
    if (stop_.load(std::memory_order_relaxed)) {
      driver_.stop();
    }
    if (progress_.is_wanted()) {
      progress_.publish([this](Progress& out) {
        out = {driver_.stats(),    driver_.connected(),   driver_.in_flight(),
               driver_.given_up(), driver_.last_reject(), driver_.last_qp_error()};
      });
    }
    return worked;
  }
  [[nodiscard]] bool has_input() const override { return progress_.is_wanted(); }
  [[nodiscard]] Instant next_deadline() const override { return client_.next_deadline(); }

  // Terminal thread.
  [[nodiscard]] Progress progress() {
    progress_.request();
    (void)progress_.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
    return progress_.last();
  }
  void reset() { reset_.store(true); }
  void stop() { stop_.store(true); }

 private:
  LoadDriver& driver_;
  client::Client& client_;
  telemetry::Published<Progress> progress_;
  std::atomic<bool> reset_{false};
  std::atomic<bool> stop_{false};
  bool started_ = false;
};

std::atomic<bool> interrupted{false};
constexpr auto kOthersDecideMax = std::chrono::seconds(1);

std::string rate_text(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? fmt::format("{:.2f} GB/s", bytes_per_second / 1e9)
                                 : fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
}

double microseconds(Duration duration) {
  return static_cast<double>(duration.to_ns()) / 1e3;
}

uint64_t failures(const LoadStats& stats) {
  uint64_t sum = stats.wrong;
  for (const uint64_t count : stats.failed) {
    sum += count;
  }
  return sum;
}

void print_result(const Settings& settings, const Progress& end, double seconds) {
  const LoadStats& stats = end.stats;
  const double calls = static_cast<double>(stats.calls) / seconds;
  const double bytes = static_cast<double>(stats.bytes) / seconds;
  const auto percentile = [&](double fraction) { return microseconds(stats.latency.percentile(fraction)); };
  fmt::print("\n");
  fmt::print("  operation          {} {} B, {} connections x {} calls in flight\n", settings.operation, settings.load.bytes,
             settings.load.connections, settings.load.window);
  fmt::print("  measured           {:.1f} s\n", seconds);
  fmt::print("  calls              {} ({:.0f} RPC/s)\n", stats.calls, calls);
  fmt::print("  data               {} B ({})\n", stats.bytes, rate_text(bytes));
  fmt::print("  latency            p50 {:.1f} us   p99 {:.1f} us   p99.9 {:.1f} us\n", percentile(0.5), percentile(0.99),
             percentile(0.999));
  if (settings.load.operation == BenchProcedure::kCallback) {
    fmt::print("  called back        {} ({:.0f} RPC/s)\n", stats.called_back, static_cast<double>(stats.called_back) / seconds);
  }
  fmt::print("  wrong answers      {}\n", stats.wrong);
  fmt::print("  failed calls       {}\n", failures(stats) - stats.wrong);
  fmt::print("  connections        {} made, {} refused, {} lost\n", stats.connected, stats.refused, stats.lost);
  if (settings.json.empty()) {
    return;
  }
  const nlohmann::json json = {
      {"operation", settings.operation},
      {"bytes", settings.load.bytes},
      {"connections", settings.load.connections},
      {"window", settings.load.window},
      {"seconds", seconds},
      {"calls", stats.calls},
      {"calls_per_second", calls},
      {"called_back", stats.called_back},
      {"data_bytes", stats.bytes},
      {"data_bytes_per_second", bytes},
      {"latency_us", {{"p50", percentile(0.5)}, {"p99", percentile(0.99)}, {"p99.9", percentile(0.999)}}},
      {"wrong", stats.wrong},
      {"failed", failures(stats) - stats.wrong},
      {"connected", stats.connected},
      {"refused", stats.refused},
      {"lost", stats.lost}};
  std::FILE* file = settings.json == "-" ? stdout : std::fopen(settings.json.c_str(), "w");
  if (file == nullptr) {
    fmt::print(stderr, "causeway-load: cannot write {}\n", settings.json);
    return;
  }
  fmt::print(file, "{}\n", json.dump(2));
  if (file != stdout) {
    std::fclose(file);
  }
}

// The terminal: waits for connections, warms up, measures, stops. Returns the exit status.
int conduct(const Settings& settings, LoadApp& app, std::atomic<bool>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  const auto end_all = [&](int status) {
    stop.store(true);
    return status;
  };
  auto connect_deadline = Clock::now() + std::chrono::seconds(15 + settings.retry_seconds);
  Progress progress = app.progress();
  while (progress.connected < settings.load.connections) {
    if (progress.given_up > 0) {
      // The measurement will not come about; what the others are told is worth a moment.
      connect_deadline = std::min(connect_deadline, Clock::now() + kOthersDecideMax);
    }
    const bool decided = progress.given_up > 0 && progress.connected + progress.given_up >= settings.load.connections;
    if (decided || interrupted || Clock::now() > connect_deadline) {
      fmt::print(stderr, "causeway-load: only {} of {} connections to {} port {} came up; {} refused (last reason: {})\n",
                 progress.connected, settings.load.connections, settings.server, settings.load.service_port,
                 progress.stats.refused, cm::to_string(progress.last_reject));
      fmt::print(stderr,
                 "  next: is causewayd ready, does its listener have this port, do both ends share the link? "
                 "See causewayctl status.\n");
      return end_all(1);
    }
    nap();
    progress = app.progress();
  }
  fmt::print("{} connections up; {} {} B, window {}\n", progress.connected, settings.operation, settings.load.bytes,
             settings.load.window);
  std::fflush(stdout);
  const auto warm = Clock::now() + std::chrono::seconds(settings.warmup_seconds);
  while (Clock::now() < warm && !interrupted) {
    nap();
  }
  app.reset();
  nap();
  Progress start = app.progress();
  const auto begin = Clock::now();
  const auto finish = begin + std::chrono::seconds(settings.seconds);
  LoadStats last = start.stats;
  auto last_time = begin;
  while (Clock::now() < finish && !interrupted) {
    std::this_thread::sleep_until(std::min(last_time + std::chrono::seconds(1), finish));
    const Progress current = app.progress();
    const auto time = Clock::now();
    const double elapsed = std::chrono::duration<double>(time - last_time).count();
    fmt::print("  {:4.0f} s  {:>10.0f} RPC/s  {:>12}  p50 {:.1f} us  in flight {}  failed {}\n",
               std::chrono::duration<double>(time - begin).count(),
               static_cast<double>(current.stats.calls - last.calls) / elapsed,
               rate_text(static_cast<double>(current.stats.bytes - last.bytes) / elapsed),
               microseconds(current.stats.latency.percentile(0.5)), current.in_flight, failures(current.stats));
    std::fflush(stdout);
    last = current.stats;
    last_time = time;
    if (current.given_up == settings.load.connections) {
      fmt::print(stderr, "causeway-load: all connections are lost (last cause: {}, PSN {})\n",
                 rc::to_string(current.last_qp_error.cause), current.last_qp_error.psn.value());
      break;
    }
  }
  Progress end = app.progress();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  end.stats.calls -= start.stats.calls;
  end.stats.bytes -= start.stats.bytes;
  app.stop();
  for (int i = 0; i < 40 && app.progress().in_flight > 0; ++i) {
    nap();
  }
  print_result(settings, end, seconds);
  const uint32_t unanswered = app.progress().in_flight;
  if (unanswered > 0) {
    fmt::print(stderr, "causeway-load: {} calls were never answered\n", unanswered);
  }
  const bool fine =
      failures(end.stats) == 0 && unanswered == 0 && end.stats.calls > 0 && (settings.load.reconnect || end.stats.lost == 0);
  return end_all(fine ? 0 : 1);
}

constexpr int kExitUsage = 2;

int fail(const std::string& sentence) {
  fmt::print(stderr, "causeway-load: {}\n", sentence);
  return 1;
}

int run(const Settings& settings) {
  std::string error;
  const auto link = dataplane::OnePort::open(settings.link.port, error);
  if (link == nullptr) {
    return fail(error);
  }
  const dataplane::TscClock clock;
  dataplane::Entropy entropy;
  const uint32_t calls = settings.load.connections * settings.load.window;
  verbs::MemoryTable memory(2 * calls + 64, entropy);
  const control::IpPrefix own = settings.link.own();
  node::NodeOptions node_options = link->node_options(own.address, own.length_bits);
  if (!settings.gateway.empty()) {
    const wire::IpAddress gateway = *wire::parse_ip(settings.gateway);
    link::StationOptions& station = node_options.ports.front();
    (gateway.is_v4() ? station.gateway4 : station.gateway6) = gateway;
  }
  node_options.endpoint.qp_max = settings.load.connections + 16;
  node_options.endpoint.read_replay_max = settings.load.connections + 16;
  node_options.endpoint.send_work_max = 4 * calls + 1024;
  node_options.endpoint.receive_work_max = 4 * calls + 1024;
  node_options.cm.connection_max = settings.load.connections + 16;
  node::Node node(node_options, entropy, &memory);
  client::ClientOptions client_options;
  client_options.connections_max = settings.load.connections;
  client_options.rpc.credits_wanted = settings.load.window;
  client_options.rpc.reverse_credits = load::reverse_credits_for(settings.load.operation, settings.load.window);
  client_options.inline_bytes = settings.load.inline_bytes;
  client_options.path_mtu_bytes = control::path_mtu_for(settings.link.port.mtu, 4096);
  client_options.rc.responder_resources_max = 16;
  client::Client client(client_options, node, memory, link->pools().packets(), entropy);
  LoadDriver driver(settings.load, client, link->pools().packets());
  LoadApp app(driver, client);
  dataplane::Wakeup wakeup;
  dataplane::CoreLoop loop(node, link->queues(), link->pools(), clock, app, wakeup, settings.spin);
  std::atomic<bool> stop{false};
  int status = 1;
  std::thread terminal([&] { status = conduct(settings, app, stop); });
  node.station(0).announce();
  loop.run(stop);
  terminal.join();
  // Say goodbye, so that the gateway does not have to find out by time-outs.
  for (uint32_t id = 0; id < settings.load.connections; ++id) {
    client.disconnect(clock.now(), client::ClientId(id));
  }
  const Instant goodbye = clock.now() + Duration::ms(300);
  while (clock.now() < goodbye && node.cm().live_count() > 0) {
    (void)loop.turn(clock.now());
  }
  return status;
}

int parse_and_run(int argc, char** argv) {
  Settings settings;
  settings.link.port.instance = "load";
  CLI::App cli("causeway-load: loads the bench program of a causewayd and measures");
  cli.set_version_flag("-V,--version", "causeway-load " CAUSEWAY_VERSION);
  test::add_link_options(cli, settings.link);
  cli.add_option("-s,--server", settings.server, "the gateway's RDMA address")->required()->check(test::address_problem);
  cli.add_option("-p,--port", settings.load.service_port, "RDMA port of the listener")->capture_default_str();
  cli.add_option("--gateway", settings.gateway, "next hop when the server is on another network")->check(test::address_problem);
  cli.add_option("-n,--connections", settings.load.connections, "connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 16384));
  cli.add_option("-w,--window", settings.load.window, "calls in flight per connection")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  cli.add_option("-o,--op", settings.operation,
                 "null, echo, source (server sends), sink (server receives) or callback (server calls back)")
      ->capture_default_str()
      ->check(CLI::IsMember({"null", "echo", "source", "sink", "callback"}));
  cli.add_option("-b,--bytes", settings.load.bytes, "data per call")->capture_default_str()->check(CLI::Range(0, 4 << 20));
  cli.add_option("-t,--seconds", settings.seconds, "seconds to measure")->capture_default_str();
  cli.add_option("--warmup", settings.warmup_seconds, "seconds before")->capture_default_str();
  cli.add_option("--inline", settings.load.inline_bytes, "inline size offered")
      ->capture_default_str()
      ->check(CLI::Range(1024, 65536));
  cli.add_option("--verify-every", settings.load.verify_every, "check the data of each n-th answer in full")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1u << 30));
  cli.add_flag("--reconnect", settings.load.reconnect,
               "open lost and refused connections again and send the calls lost with them again under their XIDs, and open a "
               "memif link when its server is back; without it, a refused connection ends the run at once");
  cli.add_flag("--spin", settings.spin, "never sleep when idle");
  cli.add_option("--json", settings.json, "also write the result as JSON to this file ('-' = stdout)");
  cli.footer(
      "causeway-load pktgen writes captures for packet generators: see causeway-load pktgen --help.\n"
      "Exit status: 0 all answers were right, 1 not, or no measurement came about, 2 wrong usage.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : kExitUsage;
  }
  settings.load.operation = *parse_operation(settings.operation);
  if (settings.load.operation == BenchProcedure::kNull) {
    settings.load.bytes = 0;
  }
  settings.load.server = *wire::parse_ip(settings.server);
  settings.retry_seconds = settings.load.reconnect ? 60 : 0;
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });
  return run(settings);
}

}  // namespace
}  // namespace cw::load

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "pktgen") {
    return cw::pktgen::run_command(argc - 1, argv + 1);
  }
  return cw::load::parse_and_run(argc, argv);
}
