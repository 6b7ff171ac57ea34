// A gateway host and a client host on one simulated link: the real stacks, the real gateway and load driver, a simulated
// backend and a simulated clock. Everything follows from the seed.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "control/client/client.h"
#include "control/gateway/gateway.h"
#include "control/node/node.h"
#include "rocev2/base/heap_buffer_pool.h"
#include "rpcrdma/backend/bench_program.h"
#include "tests/loadgen/load_driver.h"
#include "tests/sim/faulty_link.h"

namespace cw::sim {

// Stands for the workers, their sockets and the server behind them: runs the bench program on what it is sent.
class SimBackend {
 public:
  explicit SimBackend(BufferPool& pool) : pool_(pool) { (void)programs_.add(bench_); }

  Duration open_delay = Duration::us(50);
  Duration call_delay = Duration::us(20);
  bool refuses = false;            // opens fail
  uint32_t close_after_calls = 0;  // close each connection after so many calls; 0 = never

  void on_request(Instant now, gateway::BackendRequest&& request) {
    gateway::BackendEvent event;
    event.link = request.link;
    event.backend = request.backend;
    event.call = request.call;
    switch (request.kind) {
      case gateway::BackendRequest::Kind::kOpen:
        event.kind = refuses ? gateway::BackendEvent::Kind::kFailed : gateway::BackendEvent::Kind::kOpened;
        if (!refuses) {
          open_.push_back({request.link, 0});
        }
        later(now + open_delay, std::move(event));
        return;
      case gateway::BackendRequest::Kind::kClose:
        std::erase_if(open_, [&](const Link& link) { return link.id == request.link; });
        return;
      case gateway::BackendRequest::Kind::kSend:
      case gateway::BackendRequest::Kind::kRun:
        break;
    }
    const auto link = std::find_if(open_.begin(), open_.end(), [&](const Link& other) { return other.id == request.link; });
    if (request.kind == gateway::BackendRequest::Kind::kSend) {
      if (link == open_.end()) {
        return;
      }
      if (close_after_calls > 0 && ++link->calls > close_after_calls) {
        open_.erase(link);
        event.kind = gateway::BackendEvent::Kind::kClosed;
        later(now, std::move(event));
        return;
      }
    }
    event.kind = request.kind == gateway::BackendRequest::Kind::kRun ? gateway::BackendEvent::Kind::kRan
                                                                     : gateway::BackendEvent::Kind::kMessage;
    if (!programs_.dispatch(request.context, request.message, pool_, event.message) &&
        request.kind == gateway::BackendRequest::Kind::kSend) {
      return;  // a server without memory says nothing
    }
    later(now + call_delay, std::move(event));
  }
  [[nodiscard]] Instant next_at() const { return events_.empty() ? Instant::never() : events_.front().first; }
  [[nodiscard]] bool poll(Instant now, gateway::BackendEvent& out) {
    if (events_.empty() || events_.front().first > now) {
      return false;
    }
    out = std::move(events_.front().second);
    events_.pop_front();
    return true;
  }
  [[nodiscard]] size_t open_count() const { return open_.size(); }

 private:
  struct Link {
    gateway::LinkId id;
    uint32_t calls = 0;
  };
  void later(Instant at, gateway::BackendEvent&& event) {
    const auto place = std::upper_bound(events_.begin(), events_.end(), at, [](Instant a, const auto& b) { return a < b.first; });
    events_.insert(place, {at, std::move(event)});
  }
  BufferPool& pool_;
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  std::vector<Link> open_;
  std::deque<std::pair<Instant, gateway::BackendEvent>> events_;
};

struct WorldOptions {
  uint64_t seed = 1;
  load::LoadOptions load;
  bool ipv6 = false;
  uint16_t vlan = 0;
  uint32_t path_mtu = 4096;
  uint32_t credits = 64;
  uint32_t gateway_inline_bytes = 4096;
  bool remote_invalidate = true;
  gateway::BackendKind backend = gateway::BackendKind::kBuiltin;
  bool run_on_workers = false;
  std::vector<control::IpPrefix> allow;
  uint32_t connections_max = 64;
  uint32_t packet_buffers = 16384;
  uint32_t large_buffers = 512;
  uint64_t pull_buffers_max = UINT64_MAX;
};

inline wire::MacAddress sim_mac(uint8_t last) {
  return wire::MacAddress{{2, 0, 0, 0, 0, last}};
}
inline wire::IpAddress sim_ip(bool ipv6, uint8_t last) {
  if (!ipv6) {
    return wire::IpAddress::v4(0x0a09'0000u + last);
  }
  std::array<uint8_t, 16> octets{0xfd, 0x09};
  octets[15] = last;
  return wire::IpAddress::v6(octets);
}

inline node::NodeOptions sim_node_options(const WorldOptions& options, uint8_t last, bool exposes_memory) {
  node::NodeOptions node;
  link::StationOptions& station = node.ports.emplace_back();
  station.mac = sim_mac(last);
  station.vlan = options.vlan;
  station.mtu = 9000;
  station.addresses.push_back({sim_ip(options.ipv6, last), static_cast<uint8_t>(options.ipv6 ? 64 : 24)});
  node.endpoint.qp_max = 256;
  node.endpoint.read_replay_max = exposes_memory ? 256 : 0;
  node.cm.local_ca_guid = last;
  return node;
}

class GatewayHost {
 public:
  static constexpr uint32_t kPacketBytes = 9216;
  GatewayHost(const WorldOptions& options, uint64_t seed)
      : random(seed),
        packets(options.packet_buffers, options.path_mtu + 160, 65536),
        large(options.large_buffers, 32768, 65536),
        backend(large),
        node(sim_node_options(options, 1, false), random, nullptr),
        gateway((add_programs(), gateway_options(options)), node, packets, large, programs, random) {
    CW_ASSERT(gateway.start().ok());
  }

  static gateway::GatewayOptions gateway_options(const WorldOptions& options) {
    gateway::GatewayOptions out;
    gateway::BackendOptions& backend_options = out.backends.emplace_back();
    backend_options.name = "backend";
    backend_options.kind = options.backend;
    backend_options.run_on_workers = options.run_on_workers;
    gateway::ListenerOptions& listener = out.listeners.emplace_back();
    listener.name = "listener";
    listener.port = 20049;
    listener.server.credits = options.credits;
    listener.inline_bytes = options.gateway_inline_bytes;
    listener.remote_invalidate = options.remote_invalidate;
    listener.allow = options.allow;
    listener.connections_max = options.connections_max;
    out.connections_max = 128;
    out.calls_in_flight_max = 4096;
    out.pull_buffers_max = options.pull_buffers_max;
    return out;
  }
  void add_programs() { (void)programs.add(bench); }

  SeededRandom random;
  HeapBufferPool packets;
  HeapBufferPool large;
  rpcrdma::BenchProgram bench;
  rpcrdma::ProgramRegistry programs;
  SimBackend backend;
  node::Node node;
  gateway::Gateway gateway;
};

class ClientHost {
 public:
  ClientHost(const WorldOptions& options, uint64_t seed)
      : random(seed),
        packets(options.packet_buffers, options.path_mtu + 160, 65536),
        memory(8192, random),
        node(sim_node_options(options, 2, true), random, &memory),
        client(client_options(options), node, memory, packets, random),
        driver(load_options(options), client, packets) {}

  static client::ClientOptions client_options(const WorldOptions& options) {
    client::ClientOptions out;
    out.connections_max = 128;
    out.inline_bytes = options.load.inline_bytes;
    out.remote_invalidate = options.remote_invalidate;
    out.path_mtu_bytes = options.path_mtu;
    out.rc.responder_resources_max = 16;
    out.rpc.credits_wanted = options.load.window;
    return out;
  }
  static load::LoadOptions load_options(const WorldOptions& options) {
    load::LoadOptions out = options.load;
    out.server = sim_ip(options.ipv6, 1);
    return out;
  }

  SeededRandom random;
  HeapBufferPool packets;
  verbs::MemoryTable memory;
  node::Node node;
  client::Client client;
  load::LoadDriver driver;
};

class World {
 public:
  explicit World(const WorldOptions& options)
      : link(options.seed * 31 + 7),
        server(std::make_unique<GatewayHost>(options, options.seed * 3 + 1)),
        peer(std::make_unique<ClientHost>(options, options.seed * 3 + 2)),
        options_(options) {}

  // Opens the connections of the load.
  void start() { peer->driver.start(now); }

  // Runs until `done(world)` or the time is over; true when done.
  template <typename Done>
  bool run_until(Duration limit, Done&& done) {
    const Instant end = now + limit;
    while (!done(*this)) {
      if (now >= end) {
        return false;
      }
      step();
    }
    return true;
  }
  void run_for(Duration time) {
    const Instant end = now + time;
    (void)run_until(time + Duration::seconds(1), [&](World&) { return now >= end; });
  }
  bool run_calls(uint64_t calls, Duration limit = Duration::seconds(60)) {
    const uint64_t goal = peer->driver.stats().calls + calls;
    return run_until(limit, [&](World& world) { return world.peer->driver.stats().calls >= goal; });
  }
  // Stops the load and waits for what is in flight.
  bool finish(Duration limit = Duration::seconds(60)) {
    peer->driver.stop();
    return run_until(limit, [](World& world) { return world.peer->driver.in_flight() == 0; });
  }

  // One event: everything that is due at the next instant at which anything is.
  void step() {
    serve_gateway();
    serve_client();
    Instant next = link.next_at();
    next = earlier(next, earlier(server->node.next_deadline(), server->gateway.next_deadline()));
    next = earlier(next, server->backend.next_at());
    next = earlier(next, earlier(peer->node.next_deadline(), peer->client.next_deadline()));
    next = earlier(next, now + Duration::ms(1));  // the load driver's own pauses
    now = std::max(next, now + Duration::ns(100));
    while (!link.empty() && link.next_at() <= now) {
      const Frame frame = link.take();
      if (frame.to == 0) {
        deliver(server->node, server->packets, frame.octets);
      } else {
        deliver(peer->node, peer->packets, frame.octets);
      }
    }
  }

  // The gateway's process dies without a word and starts again.
  void restart_gateway() {
    server.reset();
    ++generation_;
    server = std::make_unique<GatewayHost>(options_, options_.seed * 3 + 1 + 1000 * generation_);
  }

  void deliver(node::Node& node, BufferPool& pool, const std::vector<uint8_t>& octets) {
    Buffer* buffer = pool.allocate_one();
    if (buffer == nullptr || buffer->append(octets) != octets.size()) {
      ++undeliverable;
      if (buffer != nullptr) {
        release_buffers(buffer);
      }
      return;
    }
    if (!node.on_frame(now, buffer, 0)) {
      release_buffers(buffer);
    }
  }

  Instant now = Instant::from_ns(1'000'000'000);
  FaultyLink link;
  std::unique_ptr<GatewayHost> server;
  std::unique_ptr<ClientHost> peer;
  uint64_t undeliverable = 0;  // no buffer, or longer than one

 private:
  void serve_gateway() {
    gateway::BackendEvent event;
    while (server->backend.poll(now, event)) {
      server->gateway.on_backend_event(now, std::move(event));
    }
    server->node.on_deadline(now);
    server->gateway.run(now);
    gateway::BackendRequest request;
    while (server->gateway.poll_backend_request(request)) {
      server->backend.on_request(now, std::move(request));
    }
    rpcrdma::CallDone done;
    while (server->gateway.poll_done(done)) {
    }
    transmit(server->node, server->packets, 1);
  }
  void serve_client() {
    peer->node.on_deadline(now);
    (void)peer->driver.turn(now);
    transmit(peer->node, peer->packets, 0);
  }
  void transmit(node::Node& node, BufferPool& pool, uint32_t to) {
    wire::TxBatch batch(pool);
    bool full = true;
    while (full) {
      node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        link.send(now, to, flatten(packet));
      }
      batch.clear();
    }
  }

  WorldOptions options_;
  uint64_t generation_ = 0;
};

}  // namespace cw::sim
