#include "tests/loadgen/load_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include "control/config/config.h"
#include "dataplane/entropy.h"
#include "tests/loadgen/fault_filter.h"
#include "tests/loadgen/nfs/nfs_preparation.h"
#include "tests/peers/nfs/live_caller.h"
#include "tests/peers/nfs/mount3.h"

namespace cw::load {
namespace {

constexpr Duration kGoodbye = Duration::seconds(1);
constexpr uint32_t kGoodbyesAtOnce = 32;
constexpr uint32_t kPreparationCalls = 16;
constexpr uint32_t kFileBlockBytes = 256 * 1024;

int fail(const std::string& sentence) {
  fmt::print(stderr, "causeway-load: {}\n", sentence);
  return 1;
}

node::NodeOptions node_options_of(const SessionSettings& settings, const dataplane::OnePort& link) {
  const LoadPlan& plan = settings.terminal.plan;
  const uint32_t calls = plan.connections_max * settings.terminal.load.window;
  const control::IpPrefix own = settings.link.own();
  node::NodeOptions out = link.node_options(own.address, own.length_bits);
  if (!settings.next_hop.empty()) {
    const wire::IpAddress gateway = *wire::parse_ip(settings.next_hop);
    link::StationOptions& station = out.ports.front();
    (gateway.is_v4() ? station.gateway4 : station.gateway6) = gateway;
  }
  // Connections that are being closed while their successors come.
  const uint32_t spare = 16 + static_cast<uint32_t>(plan.churn_per_second);
  out.endpoint.qp_max = plan.connections_max + spare;
  out.endpoint.read_replay_max = plan.connections_max + spare;
  out.endpoint.send_work_max = 4 * calls + 1024;
  out.endpoint.receive_work_max = 4 * calls + 1024;
  out.cm.connection_max = plan.connections_max + spare;
  return out;
}

client::ClientOptions client_options_of(const SessionSettings& settings) {
  const LoadSettings& load = settings.terminal.load;
  client::ClientOptions out;
  out.connections_max = settings.terminal.plan.connections_max;
  out.rpc.credits_wanted = load.window;
  if (settings.terminal.plan.mix.has(CallKind::kCallback)) {
    out.rpc.reverse_credits = reverse_credits_for(BenchProcedure::kCallback, load.window);
  }
  out.inline_bytes = load.inline_bytes;
  out.path_mtu_bytes = control::path_mtu_for(settings.link.port.mtu, 4096);
  out.rc.responder_resources_max = 16;
  return out;
}

LoadOptions load_options_of(const SessionSettings& settings) {
  const LoadSettings& load = settings.terminal.load;
  const LoadPlan& plan = settings.terminal.plan;
  LoadOptions out;
  out.server = *wire::parse_ip(settings.terminal.server);
  out.service_port = settings.terminal.service_port;
  out.connections = plan.connections_max;
  out.connection_profile = plan.connections;
  out.window = load.window;
  out.mix = plan.mix;
  out.open_loop = plan.open_loop;
  out.churn_per_second = plan.churn_per_second;
  out.inline_bytes = load.inline_bytes;
  out.verify_every = load.verify_every;
  out.reconnect = load.reconnect;
  return out;
}

class Session {
 public:
  Session(const SessionSettings& settings, dataplane::OnePort& link, const std::atomic<bool>& interrupted)
      : settings_(settings),
        link_(link),
        interrupted_(interrupted),
        memory_(2 * settings.terminal.plan.connections_max * settings.terminal.load.window + 64, entropy_),
        node_(node_options_of(settings, link), entropy_, &memory_),
        pattern_(std::max(
            {kFileBlockBytes, settings.terminal.plan.mix.sent_bytes_max(), settings.terminal.plan.mix.received_bytes_max()})) {}

  int run() {
    const LinkFaultOptions& faults = settings_.terminal.load.faults;
    if (faults.any()) {
      filter_.emplace(faults, link_.pools());
      link_.queues().front()->set_filter(*filter_);
    }
    node_.station(0).announce();
    if (!settings_.terminal.plan.mix.has_nfs()) {
      return load(nullptr);
    }
    return load_files();
  }

 private:
  int load_files() {
    const NfsServerSettings& server = settings_.nfs;
    const NfsSettings& wanted = settings_.terminal.load.nfs;
    std::string trouble;
    nfs::Octets root = nfs::mount3(server.mountd.empty() ? settings_.terminal.server : server.mountd, server.mountd_port,
                                   server.export_path, trouble);
    if (root.empty()) {
      return fail(trouble + "; name it with --mountd, --mountd-port and --export");
    }
    NfsPreparation preparation(std::move(root), fmt::format("{}-{}", server.directory, getpid()));
    NfsFiles files;
    trouble = with_caller([&](nfs::Caller& caller) {
      fmt::print("making {} files of {} octets\n", wanted.files, settings_.terminal.plan.file_bytes);
      std::fflush(stdout);
      return preparation.make(caller, wanted.files, settings_.terminal.plan.file_bytes, pattern_, files);
    });
    int status = 1;
    if (trouble.empty()) {
      NfsWorkload workload(files, {wanted.sequential, wanted.stable}, pattern_, link_.pools().packets());
      status = load(&workload);
    } else {
      (void)fail(trouble);
    }
    trouble = with_caller([&](nfs::Caller& caller) { return preparation.remove(caller); });
    return trouble.empty() ? status : fail(trouble);
  }

  // Work over a connection that waits for each answer.
  template <typename Work>
  std::string with_caller(Work&& work) {
    nfs::LiveCaller caller(link_, node_, memory_, entropy_, control::path_mtu_for(settings_.link.port.mtu, 4096),
                           kPreparationCalls);
    std::string trouble =
        caller.connect(*wire::parse_ip(settings_.terminal.server), settings_.terminal.service_port, {.name = "files"});
    if (!trouble.empty()) {
      return fmt::format("no connection to {} port {}: {}", settings_.terminal.server, settings_.terminal.service_port, trouble);
    }
    trouble = work(caller);
    caller.disconnect();
    return trouble;
  }

  int load(Workload* workload) {
    client::Client client(client_options_of(settings_), node_, memory_, link_.pools().packets(), entropy_);
    LoadDriver driver(load_options_of(settings_), client, link_.pools().packets(), workload);
    LoadApp app(driver, client, filter_ ? &*filter_ : nullptr);
    dataplane::Wakeup wakeup;
    dataplane::CoreLoop loop(node_, link_.queues(), link_.pools(), clock_, app, wakeup, settings_.terminal.load.spin);
    std::atomic<bool> stop{false};
    int status = 1;
    std::thread terminal([&] {
      status = conduct(settings_.terminal, app, interrupted_);
      stop.store(true);
    });
    loop.run(stop);
    terminal.join();
    say_goodbye(client, loop);
    return status;
  }

  // So that the gateway does not have to find out by time-outs. Not all at once: what the CM's queue cannot hold waits for the
  // time of a repetition, and we do not.
  void say_goodbye(client::Client& client, dataplane::CoreLoop& loop) {
    const Instant deadline = clock_.now() + kGoodbye;
    uint32_t told = 0;
    const uint32_t all = settings_.terminal.plan.connections_max;
    while (clock_.now() < deadline && (told < all || node_.cm().live_count() > 0)) {
      for (uint32_t i = 0; i < kGoodbyesAtOnce && told < all; ++i) {
        client.disconnect(clock_.now(), client::ClientId(told++));
      }
      (void)loop.turn(clock_.now());
    }
  }

  const SessionSettings& settings_;
  dataplane::OnePort& link_;
  const std::atomic<bool>& interrupted_;
  dataplane::TscClock clock_;
  dataplane::Entropy entropy_;
  verbs::MemoryTable memory_;
  node::Node node_;
  FilePattern pattern_;
  std::optional<FaultFilter> filter_;
};

}  // namespace

int run_session(const SessionSettings& settings, const std::atomic<bool>& interrupted) {
  std::string error;
  const auto link = dataplane::OnePort::open(settings.link.port, error);
  if (link == nullptr) {
    return fail(error);
  }
  return Session(settings, *link, interrupted).run();
}

}  // namespace cw::load
