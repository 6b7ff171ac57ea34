// Both ends of an ONC RPC connection over the kernel's TCP, for gateway_bench.py: what stands behind a gateway, and what its
// clients would do without one.
//
//   tcp_peer serve [--cpu N] [--spin]                                         prints "port N", serves until SIGTERM
//   tcp_peer load --port N [--threads N] [--connections N] [--window N] [--bytes N] [--seconds N] [--cpu N] [--spin]
//
// The load is a closed loop like causeway-load's: each connection keeps so many ECHO calls in flight, every answer is checked,
// and the connections are shared out to the threads. Whatever became ready is sent in one sendmsg per connection and turn. With
// --spin nobody sleeps; without it, who has nothing to do waits in poll().
// Prints one line of JSON.
#include <poll.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "apps/load/fine_histogram.h"
#include "base/heap_buffer_pool.h"
#include "dataplane/sockets/backend_stream.h"
#include "rpcrdma/backend/bench_client.h"
#include "tests/bench/measure.h"
#include "tests/support/tcp_bench_server.h"

namespace cw::bench {
namespace {

using Clock = std::chrono::steady_clock;
using dataplane::BackendStream;

struct Settings {
  uint16_t port = 0;
  uint32_t threads = 1;
  uint32_t connections = 1;
  uint32_t window = 32;
  uint32_t bytes = 64;
  uint32_t seconds = 1;
  int cpu = -1;
  bool spin = false;
};

std::atomic<bool> interrupted{false};

// One connection and its calls: the XID says which place of the window a reply is for.
class Caller {
 public:
  Caller(const Settings& settings, BufferPool& pool)
      : pool_(pool), data_(settings.bytes, 0x5a), sent_(settings.window), stream_(address_of(settings), {}, admission_, {}) {}

  // Waits until the connection is up.
  [[nodiscard]] bool connect() {
    pollfd waiter{stream_.fd(), POLLOUT, 0};
    if (stream_.state() == BackendStream::State::kConnecting && poll(&waiter, 1, 5000) == 1) {
      stream_.finish_connect();
    }
    return stream_.state() == BackendStream::State::kOpen;
  }
  void start(Instant now) {
    for (uint32_t place = 0; place < sent_.size(); ++place) {
      send(now, place);
    }
    stream_.flush();
  }
  // True when something came.
  bool turn(Instant now) {
    stream_.read();
    Chain reply;
    bool came = false;
    while (stream_.poll_message(reply)) {
      came = true;
      on_reply(now, reply);
      reply.clear();
    }
    if (came || stream_.wants_write()) {
      stream_.flush();
    }
    return came;
  }
  [[nodiscard]] bool is_alive() const { return stream_.state() == BackendStream::State::kOpen; }
  [[nodiscard]] int fd() const { return stream_.fd(); }

  uint64_t calls = 0;
  uint64_t wrong = 0;
  bool counting = false;
  load::FineHistogram latency;

 private:
  static control::SocketAddress address_of(const Settings& settings) { return {IpAddress::v4(0x7f00'0001), settings.port}; }
  void send(Instant now, uint32_t place) {
    Chain message;
    CW_ASSERT(rpcrdma::build_bench_echo(pool_, data_, rpcrdma::BenchData::kInStream, message));
    store_be32(message.head()->data, place);
    sent_[place] = now;
    stream_.queue(std::move(message));
  }
  void on_reply(Instant now, const Chain& reply) {
    std::array<uint8_t, 4> xid{};
    reply.copy_to(0, xid);
    const uint32_t place = load_be32(xid.data());
    if (place >= sent_.size() || !rpcrdma::check_bench_echo({.message = &reply}, data_)) {
      ++wrong;
      return;
    }
    if (counting) {
      ++calls;
      latency.record(now - sent_[place]);
    }
    send(now, place);
  }

  BufferPool& pool_;
  std::vector<uint8_t> data_;
  std::vector<Instant> sent_;
  rpcrdma::RecordAdmission admission_{pool_};
  BackendStream stream_;
};

struct Outcome {
  uint64_t calls = 0;
  uint64_t wrong = 0;
  double seconds = 0;
  load::FineHistogram latency;
  bool good = false;
};

Outcome load_thread(const Settings& settings, uint32_t connections) {
  if (settings.cpu >= 0) {
    (void)pin_to(settings.cpu);
  }
  Outcome out;
  const uint32_t calls = connections * settings.window;
  HeapBufferPool pool(4 * calls + 64, std::max(2048u, settings.bytes + 256), 8 * calls + 256);
  std::vector<std::unique_ptr<Caller>> callers;
  for (uint32_t i = 0; i < connections; ++i) {
    callers.push_back(std::make_unique<Caller>(settings, pool));
    if (!callers.back()->connect()) {
      std::fprintf(stderr, "tcp_peer: no connection to port %u\n", settings.port);
      return out;
    }
  }
  const TscTime time;
  for (const auto& caller : callers) {
    caller->start(time.now());
  }
  // A fifth of a second to warm up.
  const Instant begin = time.now() + Duration::ms(200);
  const Instant end = begin + Duration::seconds(settings.seconds);
  std::vector<pollfd> polled;
  Instant now = time.now();
  bool counting = false;
  while (now < end && !interrupted) {
    if (!counting && now >= begin) {
      counting = true;
      for (const auto& caller : callers) {
        caller->counting = true;
      }
    }
    bool worked = false;
    bool alive = true;
    for (const auto& caller : callers) {
      worked |= caller->turn(now);
      alive = alive && caller->is_alive();
    }
    if (!alive) {
      std::fputs("tcp_peer: a connection was lost\n", stderr);
      return out;
    }
    if (!worked && !settings.spin) {
      polled.clear();
      for (const auto& caller : callers) {
        polled.push_back({caller->fd(), POLLIN, 0});
      }
      (void)poll(polled.data(), polled.size(), 10);
    }
    now = time.now();
  }
  out.seconds = (now - begin).to_seconds();
  for (const auto& caller : callers) {
    out.calls += caller->calls;
    out.wrong += caller->wrong;
    out.latency.merge(caller->latency);
  }
  out.good = out.wrong == 0 && out.calls > 0;
  return out;
}

int load(const Settings& settings) {
  std::vector<Outcome> outcomes(settings.threads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < settings.threads; ++i) {
    const uint32_t share = settings.connections / settings.threads + (i < settings.connections % settings.threads ? 1 : 0);
    threads.emplace_back([&settings, &outcomes, i, share] { outcomes[i] = load_thread(settings, std::max(share, 1u)); });
  }
  Outcome all{.good = true};
  double rate = 0;
  for (uint32_t i = 0; i < settings.threads; ++i) {
    threads[i].join();
    all.calls += outcomes[i].calls;
    all.wrong += outcomes[i].wrong;
    all.latency.merge(outcomes[i].latency);
    all.good = all.good && outcomes[i].good;
    rate += outcomes[i].seconds > 0 ? static_cast<double>(outcomes[i].calls) / outcomes[i].seconds : 0;
  }
  const nlohmann::json report = {{"calls", all.calls},
                                 {"calls_per_second", rate},
                                 {"wrong", all.wrong},
                                 {"p50_us", all.latency.percentile(0.5).to_seconds() * 1e6},
                                 {"p99_us", all.latency.percentile(0.99).to_seconds() * 1e6}};
  std::printf("%s\n", report.dump().c_str());
  return all.good ? 0 : 1;
}

int serve(const Settings& settings) {
  if (settings.cpu >= 0) {
    (void)pin_to(settings.cpu);  // and with it the server's thread
  }
  const test::TcpBenchServer server(
      test::TcpBenchServerOptions{.port = settings.port, .spin = settings.spin, .buffer_count = 2048});
  std::printf("port %u\n", server.port());
  std::fflush(stdout);
  while (!interrupted) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}

int main_of(int count, char** words) {
  signal(SIGTERM, [](int) { interrupted = true; });
  signal(SIGINT, [](int) { interrupted = true; });
  Settings settings;
  CLI::App cli("tcp_peer: an ONC RPC server over TCP with the bench program, and a load on one.");
  cli.require_subcommand(1);
  CLI::App* server = cli.add_subcommand("serve", "answers until SIGTERM");
  CLI::App* client = cli.add_subcommand("load", "keeps connections busy and measures");
  for (CLI::App* both : {server, client}) {
    both->add_option("--port", settings.port, "TCP port on the loopback interface; serve: 0 is any that is free")
        ->capture_default_str();
    both->add_option("--cpu", settings.cpu, "stay on this CPU; load: all threads do");
    both->add_flag("--spin", settings.spin, "never sleep");
  }
  client->add_option("--threads", settings.threads, "threads")->capture_default_str()->check(CLI::Range(1, 64));
  client->add_option("--connections", settings.connections, "connections of all threads")->capture_default_str();
  client->add_option("--window", settings.window, "calls in flight per connection")->capture_default_str();
  client->add_option("--bytes", settings.bytes, "data per call")->capture_default_str()->check(CLI::Range(0, 65536));
  client->add_option("--seconds", settings.seconds, "seconds to measure")->capture_default_str();
  try {
    cli.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : 2;
  }
  return server->parsed() ? serve(settings) : load(settings);
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
