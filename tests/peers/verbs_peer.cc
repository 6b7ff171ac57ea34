// causeway-verbs-peer: rping's and perftest's counterpart on our own endpoint, for tests against the tools of rdma-core.
//
// One DPDK port or the kernel's TCP, one core, one test; then it says in one line what came of it. Exit status: 0 = the test went
// through, 1 = not.
#include <fmt/format.h>
#include <signal.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/client/client_wire.h"
#include "apps/load/link_options.h"
#include "control/config/config.h"
#include "dataplane/core_loop.h"
#include "dataplane/entropy.h"
#include "tests/peers/peer_host.h"
#include "tests/peers/perftest_peer.h"
#include "tests/peers/rping.h"

namespace cw::peers {
namespace {

struct Settings {
  test::LinkOptions link;
  uint32_t path_mtu = 4096;
  uint32_t timeout_seconds = 60;
  uint16_t port = 0;  // 0: the protocol's own
  bool rping_server = false;
  std::string rping_client;
  std::string perftest;
  bool server = false;
  std::string client;
  uint64_t size = 0;  // 0: the protocol's own
  bool all_sizes = false;
  uint64_t iterations = 1000;
  uint32_t qps = 1;
  uint32_t depth = 128;
  bool verify = false;
  bool stay = false;

  [[nodiscard]] bool is_rping() const { return rping_server || !rping_client.empty(); }
  [[nodiscard]] bool is_server() const { return rping_server || server; }
  [[nodiscard]] const std::string& other() const { return rping_client.empty() ? client : rping_client; }
  [[nodiscard]] uint32_t sessions() const { return is_rping() ? qps : 1; }
};

std::atomic<bool> interrupted{false};

int fail(const std::string& sentence) {
  fmt::print(stderr, "causeway-verbs-peer: {}\n", sentence);
  return 1;
}

// Turns the host until all is over, the time is, or somebody interrupts. Calls `calls` times, one after the other: rping -s -P
// loses one of two requests that come at once.
class PeerApp final : public dataplane::CoreApp {
 public:
  PeerApp(PeerSessions& host, Duration time_limit, uint32_t calls, std::function<void(Instant)> call, std::atomic<bool>& stop)
      : host_(host), time_limit_(time_limit), calls_(calls), call_(std::move(call)), stop_(stop) {}
  bool turn(Instant now) override {
    end_ = earlier(end_, now + time_limit_);
    if (called_ < calls_ && host_.connections_made() >= called_) {
      ++called_;
      call_(now);
    }
    const bool worked = host_.run(now);
    if (now >= end_) {
      called_ = calls_;
      host_.give_up("not through in the time given");
    } else if (interrupted.load(std::memory_order_relaxed)) {
      called_ = calls_;
      host_.give_up("interrupted");
    }
    if (called_ == calls_ && host_.is_over()) {
      stop_.store(true, std::memory_order_relaxed);
    }
    return worked;
  }
  [[nodiscard]] bool has_input() const override { return interrupted.load(std::memory_order_relaxed); }
  [[nodiscard]] Instant next_deadline() const override { return host_.next_deadline(); }

 private:
  PeerSessions& host_;
  Duration time_limit_;
  uint32_t calls_;
  uint32_t called_ = 0;
  std::function<void(Instant)> call_;
  std::atomic<bool>& stop_;
  Instant end_ = Instant::never();
};

// Makes the peers that the command line asks for, each with a protection domain of its own.
class PeerMaker {
 public:
  PeerMaker(const Settings& settings, verbs::MemoryTable& memory, dataplane::BufferPools& pools)
      : settings_(settings), memory_(memory), pools_(pools) {}

  [[nodiscard]] std::unique_ptr<Peer> make() {
    const verbs::ProtectionDomain domain(next_domain_++);
    if (settings_.rping_server) {
      return std::make_unique<RpingServer>(pools_.packets());
    }
    if (settings_.is_rping()) {
      const RpingClient::Options options{static_cast<uint32_t>(settings_.size), static_cast<uint32_t>(settings_.iterations),
                                         domain};
      return std::make_unique<RpingClient>(options, memory_, pools_.packets());
    }
    return std::make_unique<PerftestPeer>(perftest_options(settings_), settings_.path_mtu, domain, memory_, pools_.packets(),
                                          pools_.large());
  }
  [[nodiscard]] static PerftestOptions perftest_options(const Settings& settings) {
    PerftestOptions options;
    options.operation = *parse_perftest_operation(settings.perftest);
    options.role = settings.server ? PerftestRole::kServer : PerftestRole::kClient;
    options.sizes = {settings.size};
    if (settings.all_sizes) {
      options.sizes = perftest_all_sizes(options.operation);
    }
    options.iterations = settings.iterations;
    options.qps = settings.qps;
    options.depth = settings.depth;
    options.verify = settings.verify;
    options.credits = settings.link.wire == client::Wire::kIwarp;
    return options;
  }

 private:
  const Settings& settings_;
  verbs::MemoryTable& memory_;
  dataplane::BufferPools& pools_;
  uint32_t next_domain_ = 1;
};

nlohmann::json counters(const rc::RcStats& stats) {
  nlohmann::json drops = nlohmann::json::object();
  for (size_t i = 0; i < stats.discards.size(); ++i) {
    if (stats.discards[i] > 0) {
      drops[wire::to_string(static_cast<wire::DropReason>(i))] = stats.discards[i];
    }
  }
  return {{"packets_in", stats.packets_in},
          {"packets_out", stats.packets_out},
          {"payload_bytes_in", stats.payload_bytes_in},
          {"payload_bytes_out", stats.payload_bytes_out},
          {"retransmitted", stats.packets_retransmitted},
          {"ack_timeouts", stats.ack_timeouts},
          {"tail_probes", stats.tail_probes},
          {"naks_sent", stats.naks_sent},
          {"naks_received", stats.naks_received},
          {"rnr_naks_sent", stats.rnr_naks_sent},
          {"rnr_naks_received", stats.rnr_naks_received},
          {"duplicate_requests", stats.duplicate_requests},
          {"out_of_sequence", stats.out_of_sequence},
          {"reads_replayed", stats.reads_replayed},
          {"atomics_replayed", stats.atomics_replayed},
          {"qps_failed", stats.qps_failed},
          {"discards", drops}};
}

nlohmann::json session_report(const Peer& peer) {
  nlohmann::json json = {{"done", peer.outcome() == Outcome::kDone}};
  if (!peer.failure().empty()) {
    json["failure"] = peer.failure();
  }
  if (const auto* rping = dynamic_cast<const RpingPeer*>(&peer)) {
    json["pings"] = rping->pings();
  } else if (const auto* perftest = dynamic_cast<const PerftestPeer*>(&peer)) {
    json["other_version"] = perftest->other_version().text.data();
    for (const PerftestResult& result : perftest->results()) {
      const double seconds = result.time.to_seconds();
      const double bytes = static_cast<double>(result.message_bytes * result.messages);
      json["results"].push_back({{"bytes", result.message_bytes},
                                 {"messages", result.messages},
                                 {"seconds", seconds},
                                 {"megabytes_per_second", seconds > 0 ? bytes / seconds / 1e6 : 0},
                                 {"us_per_message", seconds * 1e6 / static_cast<double>(result.messages)}});
    }
  }
  return json;
}

// The line that the test lab reads. Returns the exit status.
int report(const Settings& settings, PeerSessions& host, const nlohmann::json& counters) {
  nlohmann::json sessions = nlohmann::json::array();
  bool fine = host.session_count() == settings.sessions();
  for (size_t i = 0; i < host.session_count(); ++i) {
    const Peer& peer = host.peer(i);
    sessions.push_back(session_report(peer));
    fine = fine && peer.outcome() == Outcome::kDone;
    if (!peer.failure().empty()) {
      fmt::print(stderr, "causeway-verbs-peer: session {}: {}\n", i, peer.failure());
    }
  }
  const nlohmann::json json = {
      {"ok", fine}, {"connections", host.connections_made()}, {"sessions", sessions}, {"counters", counters}};
  fmt::print("result {}\n", json.dump());
  std::fflush(stdout);
  return fine ? 0 : 1;
}

node::NodeOptions node_options(const Settings& settings, const dataplane::OnePort& link) {
  const control::IpPrefix own = settings.link.own();
  node::NodeOptions options = link.node_options(own.address, own.length_bits);
  const uint32_t qps = 2 * settings.qps + 16;
  options.endpoint.qp_max = qps;
  options.endpoint.read_replay_max = qps;
  options.endpoint.send_work_max = qps * (settings.depth + 16);
  options.endpoint.receive_work_max = 16384;
  options.cm.connection_max = qps;
  return options;
}

nlohmann::json counters(const iwarp::IwarpTransport& transport) {
  uint64_t failed = 0;
  nlohmann::json ends = nlohmann::json::object();
  for (size_t i = 0; i < transport.stats().stream_errors.size(); ++i) {
    const auto cause = static_cast<iwarp::StreamErrorCause>(i);
    if (const uint64_t count = transport.stats().stream_errors[i]; count > 0) {
      ends[std::string(to_string(cause))] = count;
      const bool in_order = cause == iwarp::StreamErrorCause::kClosed || cause == iwarp::StreamErrorCause::kPeerClosed ||
                            cause == iwarp::StreamErrorCause::kTcpReset;
      failed += in_order ? 0 : count;
    }
  }
  return {{"qps_failed", failed}, {"ends", ends}};
}

// What a test runs on, whatever the wire.
struct Stage {
  PeerSessions& host;
  PeerMaker& maker;
  dataplane::TscClock& clock;
  std::function<std::unique_ptr<dataplane::CoreLoop>(dataplane::CoreApp& app, dataplane::Wakeup& wakeup)> make_loop;
  std::function<uint32_t()> live_count;
  std::function<nlohmann::json()> counters;
};

int run(const Settings& settings, const IpAddress& server, const Stage& stage) {
  PeerSessions& host = stage.host;
  const uint16_t port = settings.port != 0 ? settings.port : settings.is_rping() ? kRpingPort : kPerftestPort;
  if (settings.is_server()) {
    if (!host.serve(port, settings.sessions(), [&] { return stage.maker.make(); }).ok()) {
      return fail("cannot listen");
    }
  }
  std::atomic<bool> stop{false};
  PeerApp app(
      host, Duration::seconds(settings.timeout_seconds), settings.is_server() ? 0 : settings.sessions(),
      [&](Instant now) { host.open(now, server, port, stage.maker.make()); }, stop);
  dataplane::Wakeup wakeup;
  const auto loop = stage.make_loop(app, wakeup);
  fmt::print("causeway-verbs-peer: ready\n");
  std::fflush(stdout);
  loop->run(stop);
  // Say goodbye, so that the other side does not have to find out by time-outs.
  const Instant goodbye = stage.clock.now() + Duration::ms(500);
  while (stage.clock.now() < goodbye && stage.live_count() > 0) {
    (void)loop->turn(stage.clock.now());
  }
  const int status = report(settings, host, stage.counters());
  if (settings.stay) {
    loop->run(interrupted);
  }
  return status;
}

int run_iwarp(const Settings& settings, const IpAddress& server) {
  std::string error;
  const auto pools = test::open_heap(settings.link, error);
  if (pools == nullptr) {
    return fail(error);
  }
  dataplane::TscClock clock;
  const client::IwarpClientOptions options{.connections_max = 2 * settings.qps + 16,
                                           .calls_max = settings.qps * (settings.depth + 16),
                                           .crc = settings.link.crc,
                                           .send_queue_depth = static_cast<uint16_t>(settings.depth + 256)};
  client::ClientWire wire(*pools, options, 2 * settings.qps + 16);
  const std::unique_ptr<verbs::Transport> transport = wire.make_transport({});
  PeerHostOptions host_options;
  host_options.settling_time = wire.settling_time();
  TransportPeerHost host(host_options, *transport);
  PeerMaker maker(settings, wire.memory(), *pools);
  return run(settings, server,
             {.host = host,
              .maker = maker,
              .clock = clock,
              .make_loop = [&](auto& app, auto& wakeup) { return wire.make_loop(clock, app, wakeup, {}); },
              .live_count = [&] { return transport->live_count(); },
              .counters = [&] { return counters(static_cast<const iwarp::IwarpTransport&>(*transport)); }});
}

int run_roce(const Settings& settings, const IpAddress& server) {
  std::string error;
  const auto link = dataplane::OnePort::open(settings.link.port, error);
  if (link == nullptr) {
    return fail(error);
  }
  dataplane::TscClock clock;
  dataplane::Entropy entropy;
  verbs::MemoryTable memory(2 * settings.qps + 16, entropy);
  node::Node node(node_options(settings, *link), entropy, &memory);
  PeerHostOptions host_options;
  host_options.path_mtu_bytes = settings.path_mtu;
  PeerHost host(host_options, node, entropy);
  PeerMaker maker(settings, memory, link->pools());
  const auto make_loop = [&](dataplane::CoreApp& app, dataplane::Wakeup& wakeup) {
    auto loop =
        std::make_unique<dataplane::CoreLoop>(node, link->queues(), link->pools(), clock, app, wakeup, dataplane::IdlePolicy{});
    node.station(0).announce();
    return loop;
  };
  return run(settings, server,
             {.host = host,
              .maker = maker,
              .clock = clock,
              .make_loop = make_loop,
              .live_count = [&] { return node.cm().live_count(); },
              .counters = [&] { return counters(node.endpoint().stats()); }});
}

void add_options(CLI::App& cli, Settings& settings) {
  test::add_wire_options(cli, settings.link);
  cli.add_flag("--rping-server", settings.rping_server, "serve rping -c");
  cli.add_option("--rping-client", settings.rping_client, "ping the rping -s at this address");
  cli.add_option("--perftest", settings.perftest, "send_bw, send_lat, write_bw ... atomic_lat, with ib_...'s -R");
  cli.add_flag("--server", settings.server, "perftest: wait for ib_...'s client");
  cli.add_option("--client", settings.client, "perftest: test with the ib_... server at this address");
  cli.add_option("--port", settings.port, "RDMA port; default rping's 7174 or perftest's 18515");
  cli.add_option("-s,--size", settings.size, "bytes of a message; default 64 for rping, 65536 for bandwidth, 2 for latency");
  cli.add_flag("--all", settings.all_sizes, "perftest's -a: 2 bytes to 8 MiB");
  cli.add_option("-n,--iterations", settings.iterations,
                 "pings, or messages per queue pair and size; perftest: as the other side")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000));
  cli.add_option("-q,--qps", settings.qps, "perftest: queue pairs. rping: connections, each with its own pings")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  cli.add_option("--depth", settings.depth, "operations in flight per queue pair")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cli.add_option("-m,--path-mtu", settings.path_mtu, "of connections that we open")
      ->capture_default_str()
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  cli.add_flag("--verify", settings.verify, "both sides are causeway-verbs-peer: compare every byte");
  cli.add_flag("--stay", settings.stay,
               "after the result stay on the link until SIGTERM: a DREQ that comes again finds its answer");
  cli.add_option("--timeout", settings.timeout_seconds, "seconds until a test counts as failed")->capture_default_str();
}

// One sentence about the first thing that is wrong; empty when nothing is. Fills in the defaults of the test chosen.
std::string settle(Settings& settings) {
  const bool perftest = !settings.perftest.empty();
  if (settings.rping_server + !settings.rping_client.empty() + perftest != 1) {
    return "choose one of --rping-server, --rping-client and --perftest";
  }
  if (perftest) {
    const auto operation = parse_perftest_operation(settings.perftest);
    if (!operation) {
      return fmt::format("--perftest {}: there is no such test", settings.perftest);
    }
    if (settings.server == !settings.client.empty()) {
      return "--perftest: choose one of --server and --client";
    }
    if (is_latency(*operation) && settings.qps != 1) {
      return "a latency test has one queue pair";
    }
    if (is_atomic(*operation) && settings.link.wire == client::Wire::kIwarp) {
      return "iWARP has no atomic operations";
    }
    if (is_atomic(*operation)) {
      settings.size = verbs::kAtomicBytes;
    } else if (settings.size == 0) {
      settings.size = is_latency(*operation) ? 2 : 65536;
    }
    if (settings.size > (8u << 20)) {
      return "--size: at most 8 MiB";
    }
  } else if (settings.size == 0) {
    settings.size = 64;
  }
  if (!perftest && settings.size > kRpingBytesMax) {
    return "--size: rping takes at most 64 KiB";
  }
  settings.path_mtu = std::min(settings.path_mtu, control::path_mtu_for(settings.link.port.mtu, 4096));
  return "";
}

int parse_and_run(int argc, char** argv) {
  Settings settings;
  settings.link.port.instance = "peer";
  settings.link.port.large_buffers = 512;
  settings.link.port.views = 65536;
  CLI::App cli("causeway-verbs-peer: rping's and perftest's counterpart, for tests of Causeway's transport");
  add_options(cli, settings);
  CLI11_PARSE(cli, argc, argv);
  std::string problem = test::link_problem(cli, settings.link);
  if (problem.empty() && settings.link.wire == client::Wire::kVerbs) {
    problem = "--transport verbs: an RDMA device has rping and perftest of its own";
  }
  if (problem.empty()) {
    problem = settle(settings);
  }
  if (!problem.empty()) {
    return fail(problem);
  }
  IpAddress server;
  if (!settings.is_server()) {
    const auto parsed = parse_ip(settings.other());
    if (!parsed.ok()) {
      return fail(fmt::format("'{}' is not an IP address", settings.other()));
    }
    server = *parsed;
  }
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });
  return settings.link.wire == client::Wire::kIwarp ? run_iwarp(settings, server) : run_roce(settings, server);
}

}  // namespace
}  // namespace cw::peers

int main(int argc, char** argv) {
  return cw::peers::parse_and_run(argc, argv);
}
