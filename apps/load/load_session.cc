#include "apps/load/load_session.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "apps/client/client_wire.h"
#include "apps/load/fault_filter.h"
#include "apps/load/nfs/nfs_preparation.h"
#include "apps/nfs/live_caller.h"
#include "apps/nfs/mount3.h"
#include "control/config/config.h"
#include "dataplane/dpdk/bind_thread.h"
#include "dataplane/dpdk/core_thread.h"

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

// Connections that are being closed while their successors come.
uint32_t spare_connections(const LoadPlan& plan) {
  return 16 + static_cast<uint32_t>(plan.churn_per_second);
}

uint32_t calls_max(const SessionSettings& settings) {
  return settings.terminal.plan.connections_max * settings.terminal.load.window;
}

node::NodeOptions node_options_of(const SessionSettings& settings, const dataplane::OnePort& link) {
  const LoadPlan& plan = settings.terminal.plan;
  const uint32_t calls = calls_max(settings);
  const control::IpPrefix own = settings.link.own();
  node::NodeOptions out = link.node_options(own.address, own.length_bits);
  if (!settings.next_hop.empty()) {
    const IpAddress gateway = *parse_ip(settings.next_hop);
    link::StationOptions& station = out.ports.front();
    (gateway.is_v4() ? station.gateway4 : station.gateway6) = gateway;
  }
  const uint32_t spare = spare_connections(plan);
  out.endpoint.qp_max = plan.connections_max + spare;
  out.endpoint.read_replay_max = plan.connections_max + spare;
  out.endpoint.send_work_max = 4 * calls + 1024;
  out.endpoint.receive_work_max = 4 * calls + 1024;
  out.cm.connection_max = plan.connections_max + spare;
  return out;
}

// CPUs that this process may use. DPDK binds the thread that starts it, and those that come from there.
std::vector<uint32_t> own_cpus() {
  std::vector<uint32_t> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

// What of the settings is one thread's: its share of the load, its link, its CPU.
SessionSettings settings_of_thread(const SessionSettings& settings, const std::vector<uint32_t>& cpus, uint32_t index) {
  const uint32_t count = settings.terminal.threads;
  SessionSettings out = settings;
  if (count == 1) {
    return out;
  }
  out.terminal.plan = share_of(settings.terminal.plan, index, count);
  out.terminal.server = text_for_thread(settings.terminal.server, index);
  out.link.address = text_for_thread(settings.link.address, index);
  out.link.port.device = text_for_thread(settings.link.port.device, index);
  const auto first = std::find(cpus.begin(), cpus.end(), settings.link.port.lcore);
  if (first != cpus.end()) {
    out.link.port.lcore = cpus[(static_cast<size_t>(first - cpus.begin()) + index) % cpus.size()];
  }
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
  return out;
}

node::RoceOptions roce_options_of(const SessionSettings& settings) {
  node::RoceOptions out;
  out.connections_max = settings.terminal.plan.connections_max;
  out.path_mtu_bytes = control::path_mtu_for(settings.link.port.mtu, settings.terminal.load.path_mtu_max);
  out.ack_timeout = static_cast<uint8_t>(settings.terminal.load.ack_timeout);
  out.rc.responder_resources_max = 16;
  return out;
}

LoadOptions load_options_of(const SessionSettings& settings) {
  const LoadSettings& load = settings.terminal.load;
  const LoadPlan& plan = settings.terminal.plan;
  LoadOptions out;
  out.server = *parse_ip(settings.terminal.server);
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

client::IwarpClientOptions iwarp_options_of(const SessionSettings& settings) {
  const LoadPlan& plan = settings.terminal.plan;
  return {.connections_max = plan.connections_max + spare_connections(plan),
          .calls_max = calls_max(settings),
          .crc = settings.link.crc};
}

client::VerbsClientOptions verbs_options_of(const SessionSettings& settings) {
  const LoadPlan& plan = settings.terminal.plan;
  return {.connections_max = plan.connections_max + spare_connections(plan),
          .window = settings.terminal.load.window,
          .device = settings.link.port.device};
}

// Where the buffers of all threads come from, and the DPDK port of each.
struct Links {
  std::unique_ptr<dataplane::HeapPools> heap;              // iWARP, rdma-core
  std::vector<std::unique_ptr<dataplane::OnePort>> ports;  // RoCE; in reverse, since the first one has the buffers of all

  Links() = default;
  ~Links() {
    while (!ports.empty()) {
      ports.pop_back();
    }
  }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
};

// One poll core of the load: a wire, a driver.
class LoadCore {
 public:
  LoadCore(const SessionSettings& settings, Links& links, uint32_t index) : settings_(settings) {
    const uint32_t regions = 2 * calls_max(settings) + 64;
    switch (settings.link.wire) {
      case client::Wire::kRoce:
        break;
      case client::Wire::kIwarp:
        wire_.emplace(*links.heap, iwarp_options_of(settings), regions);
        return;
      case client::Wire::kVerbs:
        wire_.emplace(*links.heap, verbs_options_of(settings), regions);
        return;
    }
    dataplane::OnePort& link = *links.ports[index];
    wire_.emplace(link, node_options_of(settings, link), regions);
    const LinkFaultOptions& faults = settings_.terminal.load.faults;
    if (faults.any()) {
      filter_.emplace(faults, link.pools());
      link.queues().front()->set_filter(*filter_);
    }
    wire_->announce();
  }

  // The load; nullptr: the bench program's calls.
  void prepare(Workload* workload, uint64_t seed) {
    transport_ = wire_->make_transport(roce_options_of(settings_));
    client::ClientOptions client_options = client_options_of(settings_);
    client_options.remote_invalidate = wire_->takes_invalidation();
    client_.emplace(client_options, *transport_, wire_->registry(), wire_->packets(), wire_->random());
    LoadOptions options = load_options_of(settings_);
    options.seed = seed;
    driver_.emplace(options, *client_, wire_->packets(), workload);
    app_.emplace(*driver_, *client_, filter_ ? &*filter_ : nullptr);
    loop_ = wire_->make_loop(clock_, *app_, wakeup_, dataplane::IdlePolicy{.spins = settings_.terminal.load.spin});
  }
  // After prepare(). On the thread that is the core.
  void run(const std::atomic<bool>& stop) {
    loop_->run(stop);
    say_goodbye();
  }
  [[nodiscard]] LoadApp& app() { return *app_; }
  [[nodiscard]] BufferPool& packets() { return wire_->packets(); }

  // Work over a connection that waits for each answer.
  template <typename Work>
  std::string with_caller(Work&& work) {
    nfs::LiveCaller caller(*wire_, control::path_mtu_for(settings_.link.port.mtu, settings_.terminal.load.path_mtu_max),
                           kPreparationCalls);
    std::string trouble =
        caller.connect(*parse_ip(settings_.terminal.server), settings_.terminal.service_port, {.name = "files"});
    if (!trouble.empty()) {
      return fmt::format("no connection to {} port {}: {}", settings_.terminal.server, settings_.terminal.service_port, trouble);
    }
    trouble = work(caller);
    caller.disconnect();
    return trouble;
  }

 private:
  // So that the gateway does not have to find out by time-outs. Not all at once: what the CM's queue cannot hold waits for the
  // time of a repetition, and we do not.
  void say_goodbye() {
    const Instant deadline = clock_.now() + kGoodbye;
    uint32_t told = 0;
    const uint32_t all = settings_.terminal.plan.connections_max;
    while (clock_.now() < deadline && (told < all || transport_->live_count() > 0)) {
      for (uint32_t i = 0; i < kGoodbyesAtOnce && told < all; ++i) {
        client_->disconnect(clock_.now(), client::ClientId(told++));
      }
      (void)loop_->turn(clock_.now());
    }
  }

  const SessionSettings& settings_;
  dataplane::TscClock clock_;
  std::optional<client::ClientWire> wire_;
  std::optional<FaultFilter> filter_;
  std::unique_ptr<verbs::Transport> transport_;
  std::optional<client::Client> client_;
  std::optional<LoadDriver> driver_;
  std::optional<LoadApp> app_;
  dataplane::Wakeup wakeup_;
  std::unique_ptr<dataplane::CoreLoop> loop_;
};

class Session {
 public:
  // `shares`: one for each thread. The calling thread is the first core.
  Session(const SessionSettings& settings, std::span<const SessionSettings> shares, Links& links,
          const std::atomic<bool>& interrupted)
      : settings_(settings),
        shares_(shares),
        interrupted_(interrupted),
        pattern_(std::max(
            {kFileBlockBytes, settings.terminal.plan.mix.sent_bytes_max(), settings.terminal.plan.mix.received_bytes_max()})) {
    for (uint32_t i = 0; i < shares.size(); ++i) {
      cores_.push_back(std::make_unique<LoadCore>(shares[i], links, i));
    }
  }

  int run() { return settings_.terminal.plan.mix.has_nfs() ? load_files() : load(nullptr); }

 private:
  int load_files() {
    const NfsServerSettings& server = settings_.nfs;
    const NfsSettings& wanted = settings_.terminal.load.nfs;
    std::string trouble;
    nfs::ByteVector root = nfs::mount3(server.mountd.empty() ? settings_.terminal.server : server.mountd, server.mountd_port,
                                       server.export_path, trouble);
    if (root.empty()) {
      return fail(trouble + "; name it with --mountd, --mountd-port and --export");
    }
    NfsPreparation preparation(std::move(root), fmt::format("{}-{}", server.directory, getpid()));
    NfsFiles files;
    LoadCore& core = *cores_.front();
    trouble = core.with_caller([&](nfs::Caller& caller) {
      fmt::print("making {} files of {} bytes\n", wanted.files, settings_.terminal.plan.file_bytes);
      std::fflush(stdout);
      return preparation.make(caller, wanted.files, settings_.terminal.plan.file_bytes, pattern_, files);
    });
    int status = 1;
    if (trouble.empty()) {
      NfsWorkload workload(files, {wanted.sequential, wanted.stable}, pattern_, core.packets());
      status = load(&workload);
    } else {
      (void)fail(trouble);
    }
    trouble = core.with_caller([&](nfs::Caller& caller) { return preparation.remove(caller); });
    return trouble.empty() ? status : fail(trouble);
  }

  int load(Workload* workload) {
    std::vector<LoadApp*> apps;
    for (uint32_t i = 0; i < cores_.size(); ++i) {
      cores_[i]->prepare(workload, i + 1);
      apps.push_back(&cores_[i]->app());
    }
    LoadGroup group(std::move(apps));
    std::atomic<bool> stop{false};
    int status = 1;
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < cores_.size(); ++i) {
      threads.emplace_back([&, i] {
        if (settings_.link.has_heap()) {
          dataplane::bind_this_thread({&shares_[i].link.port.lcore, 1});
          cores_[i]->run(stop);
          return;
        }
        const dataplane::CoreThread here(shares_[i].link.port.lcore);
        cores_[i]->run(stop);
      });
    }
    std::thread terminal([&] {
      status = conduct(settings_.terminal, group, interrupted_);
      stop.store(true);
    });
    cores_.front()->run(stop);
    terminal.join();
    for (std::thread& thread : threads) {
      thread.join();
    }
    return status;
  }

  const SessionSettings& settings_;
  std::span<const SessionSettings> shares_;
  const std::atomic<bool>& interrupted_;
  FilePattern pattern_;
  std::vector<std::unique_ptr<LoadCore>> cores_;
};

// False with one sentence.
bool open_links(std::span<const SessionSettings> shares, Links& links, std::string& error) {
  const auto threads = static_cast<uint32_t>(shares.size());
  for (const SessionSettings& share : shares) {
    test::LinkOptions link = share.link;
    // The first one has the buffers of all.
    link.port.packet_buffers *= threads;
    link.port.large_buffers *= threads;
    link.port.views *= threads;
    link.port.memory_mb *= threads;
    if (link.has_heap()) {
      links.heap = test::open_heap(link, error);
      return links.heap != nullptr;
    }
    links.ports.push_back(links.ports.empty() ? dataplane::OnePort::open(link.port, error)
                                              : dataplane::OnePort::open_beside(*links.ports.front(), link.port, error));
    if (links.ports.back() == nullptr) {
      return false;
    }
  }
  return true;
}

}  // namespace

int run_session(const SessionSettings& settings, const std::atomic<bool>& interrupted) {
  const uint32_t threads = settings.terminal.threads;
  const std::vector<uint32_t> cpus = own_cpus();
  std::vector<SessionSettings> shares;
  for (uint32_t i = 0; i < threads; ++i) {
    shares.push_back(settings_of_thread(settings, cpus, i));
  }
  Links links;
  std::string error;
  if (!open_links(shares, links, error)) {
    return fail(error);
  }
  return Session(settings, shares, links, interrupted).run();
}

}  // namespace cw::load
