// How long a small call waits beside bulk: ECHO of 64 bytes, while SOURCE (RDMA WRITE by the gateway) or SINK (RDMA READ by it)
// of 1 MiB keep the gateway as busy as they can.
//
//   latency_bench [--repeats N] [--json FILE]
//
//   alone               one call in flight, nothing else
//   other connection    the same, while another client has 8 calls of 1 MiB in flight
//   same connection     one connection with 8 calls in flight, four small ones for each of 1 MiB: a small call stands behind the
//                       packets of large ones in both send queues
//
// All ends are in this thread by turns, with the clock on the wall: a small call waits for the work of the gateway and for that
// of the clients, which on machines of their own would not be in its way. So these are upper bounds of what the gateway adds. A
// repeat is a fifth of a second; the spread is that of the repeats' percentiles.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/measure.h"
#include "tests/bench/rpc_pair.h"

namespace cw::bench {
namespace {

using load::CallKind;

constexpr uint32_t kBulkBytes = 1 << 20;
constexpr uint32_t kBulkWindow = 8;

// A second client of the gateway: small calls, one at a time.
class SmallCaller : public sim::ClientStack {
 public:
  SmallCaller(const sim::WorldOptions& options, uint64_t seed)
      : ClientStack(options, seed, 3), driver(load_options(options), client, packets) {}
  load::LoadDriver driver;

 private:
  static load::LoadOptions load_options(const sim::WorldOptions& options) {
    load::LoadOptions load = options.load;
    load.server = sim::sim_ip(options.ipv6, 1);
    return load;
  }
};

sim::WorldOptions options_of(uint32_t window) {
  sim::WorldOptions options;
  options.load.operation = load::BenchProcedure::kEcho;
  options.load.bytes = 64;
  options.load.window = window;
  options.load.verify_every = 64;
  return options;
}

// A gateway and two clients, each behind a wire of its own; a frame's destination says whose it is.
class Trio {
 public:
  // `bulk`: what the first client does; nothing: it stays away.
  Trio(const std::optional<load::CallMix>& bulk, bool small_calls)
      : small_calls_(small_calls),
        bulk_calls_(bulk.has_value()),
        bulk_options_(options_of(kBulkWindow)),
        server(bulk_options_, 3),
        bulk_client(with_mix(bulk_options_, bulk), 4),
        small_client(options_of(1), 5),
        backend(server.large),
        to_server(server.packets),
        to_bulk(bulk_client.packets),
        to_small(small_client.packets),
        server_batch_(server.packets),
        bulk_batch_(bulk_client.packets),
        small_batch_(small_client.packets) {
    if (bulk_calls_) {
      bulk_client.driver.start(now);
    }
    if (small_calls_) {
      small_client.driver.start(now);
    }
  }
  // Each holds Buffers of the others' pools: see RpcPair.
  ~Trio() {
    bulk_client.driver.stop();
    small_client.driver.stop();
    for (uint32_t quiet = 0, turns = 0; quiet < 8 && turns < 1'000'000; ++turns) {
      const uint64_t packets = all_packets();
      now = now + Duration::us(1);
      turn();
      const bool idle = bulk_client.driver.in_flight() + small_client.driver.in_flight() == 0 && packets == all_packets();
      quiet = idle ? quiet + 1 : 0;
    }
    to_server.drop_all();
    to_bulk.drop_all();
    to_small.drop_all();
  }

  void turn() {
    serve_client(bulk_client, to_bulk, bulk_batch_);
    serve_client(small_client, to_small, small_batch_);
    to_server.carry();
    receive(server.node, to_server, server.packets);
    gateway::BackendEvent event;
    while (backend.poll(event)) {
      server.gateway.on_backend_event(now, std::move(event));
    }
    server.gateway.run(now);
    gateway::BackendRequest request;
    while (server.gateway.poll_backend_request(request)) {
      backend.on_request(std::move(request));
    }
    rpcrdma::CallDone done;
    while (server.gateway.poll_done(done)) {
    }
    server.node.on_deadline(now);
    for (bool full = true; full && to_bulk.has_room() && to_small.has_room();) {
      server.node.poll_transmit(now, server_batch_);
      full = server_batch_.full();
      for (const wire::TxPacket& packet : server_batch_.packets()) {
        const bool small = packet.front()[5] == 3;  // the last byte of the destination's MAC
        (small ? to_small : to_bulk).send(packet);
      }
      server_batch_.reset();
    }
    to_bulk.carry();
    to_small.carry();
  }
  [[nodiscard]] bool good() const { return clean(bulk_client.driver.stats()) && clean(small_client.driver.stats()); }

 private:
  bool small_calls_;
  bool bulk_calls_;
  sim::WorldOptions bulk_options_;

 public:
  Instant now = Instant::from_ns(1'000'000'000);
  sim::GatewayHost server;
  sim::ClientHost bulk_client;
  SmallCaller small_client;
  RingBackend backend;
  Wire to_server;
  Wire to_bulk;
  Wire to_small;

 private:
  static sim::WorldOptions with_mix(sim::WorldOptions options, const std::optional<load::CallMix>& mix) {
    options.load.mix = mix;
    return options;
  }
  static bool clean(const load::LoadStats& stats) { return stats.wrong + stats.lost + stats.refused + stats.all_failed() == 0; }
  [[nodiscard]] uint64_t all_packets() const { return to_server.packets() + to_bulk.packets() + to_small.packets(); }

  template <typename Host>
  void serve_client(Host& host, Wire& from, wire::TxBatch& batch) {
    receive(host.node, from, host.packets);
    (void)host.driver.turn(now);
    host.node.on_deadline(now);
    for (bool full = true; full && to_server.has_room();) {
      host.node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        to_server.send(packet);
      }
      batch.reset();
    }
  }
  void receive(node::Node& node, Wire& from, BufferPool& /*pool*/) {
    std::array<Buffer*, RpcPair::kBurst> frames;
    size_t count = 0;
    while (count < frames.size() && (frames[count] = from.receive()) != nullptr) {
      ++count;
    }
    const size_t left = node.on_frames(now, std::span(frames).first(count), 0);
    for (size_t i = 0; i < left; ++i) {
      release_buffers(frames[i]);
    }
  }

  wire::TxBatch server_batch_;
  wire::TxBatch bulk_batch_;
  wire::TxBatch small_batch_;
};

struct Case {
  const char* name;
  std::optional<load::CallMix> bulk;
  bool small_calls = true;        // by a client of their own
  std::optional<uint32_t> entry;  // of the bulk client's mix: the small calls
};

load::CallMix mix_of(const char* text) {
  load::CallMix mix;
  std::string problem;
  CW_ASSERT(mix.parse(text, problem));
  return mix;
}

struct Percentiles {
  std::vector<double> p50_us;
  std::vector<double> p99_us;
  std::vector<double> bulk_gigabytes;
  uint64_t calls = 0;
  bool good = false;
};

Percentiles run(const Case& one, uint32_t repeats, Duration length, const TscTime& time) {
  Percentiles out;
  auto trio = std::make_unique<Trio>(one.bulk, one.small_calls);
  const load::LoadDriver& driver = one.small_calls ? trio->small_client.driver : trio->bulk_client.driver;
  const load::LoadDriver& bulk = trio->bulk_client.driver;
  const Instant base = trio->now;
  const Instant begun = time.now();
  // The first repeat warms up.
  for (uint32_t repeat = 0; repeat <= repeats; ++repeat) {
    const auto before = std::make_unique<load::LoadStats>(driver.stats());
    const uint64_t bulk_before = bulk.stats().bytes;
    const Instant start = time.now();
    Instant clock = start;
    while (clock - start < length) {
      clock = time.now();
      trio->now = base + (clock - begun);
      trio->turn();
    }
    const auto since = std::make_unique<load::LoadStats>(driver.stats());
    since->subtract(*before);
    const load::FineHistogram& latency = since->entries[one.entry.value_or(0)].latency;
    if (repeat == 0 || latency.count() == 0) {
      continue;
    }
    out.calls += latency.count();
    out.p50_us.push_back(latency.percentile(0.5).to_seconds() * 1e6);
    out.p99_us.push_back(latency.percentile(0.99).to_seconds() * 1e6);
    out.bulk_gigabytes.push_back(static_cast<double>(bulk.stats().bytes - bulk_before) / (clock - start).to_seconds() / 1e9);
  }
  out.good = trio->good() && !out.p50_us.empty();
  return out;
}

int main_of(int count, char** words) {
  BenchOptions options{.repeats = 11, .json = {}, .only = {}};
  if (!options.parse(count, words)) {
    std::fputs("usage: latency_bench [--repeats N] [--json FILE]\n", stderr);
    return 2;
  }
  const Duration length = options.repeats < 5 ? Duration::ms(20) : Duration::ms(200);
  const load::CallMix source(load::MixEntry{.kind = CallKind::kSource, .bytes = kBulkBytes});
  const load::CallMix sink(load::MixEntry{.kind = CallKind::kSink, .bytes = kBulkBytes});
  const Case cases[] = {
      {"alone", std::nullopt, true, std::nullopt},
      {"beside_writes_other_connection", source, true, std::nullopt},
      {"beside_reads_other_connection", sink, true, std::nullopt},
      {"beside_writes_same_connection", mix_of("echo/64:4,source/1m:1"), false, 0},
      {"beside_reads_same_connection", mix_of("echo/64:4,sink/1m:1"), false, 0},
  };
  const TscTime time;
  nlohmann::json rows = nlohmann::json::array();
  bool good = true;
  double alone_us = 0;
  std::printf("%-34s %10s %20s %10s %10s %10s\n", "small calls", "p50 us", "[quartiles]", "p99 us", "bulk GB/s", "calls");
  for (const Case& one : cases) {
    const Percentiles found = run(one, options.repeats, length, time);
    if (found.p50_us.empty()) {
      std::printf("%-34s no small call was answered\n", one.name);
      good = false;
      continue;
    }
    const Spread p50 = spread_of(found.p50_us);
    const Spread p99 = spread_of(found.p99_us);
    alone_us = alone_us == 0 ? p50.median : alone_us;
    nlohmann::json figure = row_beside(std::string("latency/") + one.name, p50, "us", alone_us, "alone", false);
    figure["p99_us"] = p99.median;
    figure["bulk_gigabytes_per_second"] = spread_of(found.bulk_gigabytes).median;
    figure["good"] = found.good;
    rows.push_back(std::move(figure));
    std::printf("%-34s %10.1f [%8.1f %8.1f] %10.1f %10.2f %10" PRIu64 "%s\n", one.name, p50.median, p50.low, p50.high, p99.median,
                spread_of(found.bulk_gigabytes).median, found.calls, found.good ? "" : "  WRONG ANSWERS");
    std::fflush(stdout);
    good = good && found.good;
  }
  return write_rows(options.json, rows) && good ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
