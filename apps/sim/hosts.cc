#include "apps/sim/hosts.h"

#include <algorithm>
#include <array>

#include "apps/sim/production.h"

namespace cw::sim {
namespace {

constexpr uint32_t kViews = 65536;
constexpr uint32_t kSmallViews = 2048;
constexpr uint32_t kLargeBytes = 32768;
constexpr uint32_t kSmallLargeBytes = 8192;
constexpr uint32_t kCrowd = 500;        // connections, above which the limits of ordinary gateways would hold them up
constexpr uint32_t kCrowdMails = 4096;  // of its connection manager at once; who finds no room says it again
constexpr uint32_t kFrameRoom = 160;    // headers and iCRC around the payload

uint32_t views_of(const WorldOptions& options) {
  return options.views > 0 ? options.views : options.small_tables ? kSmallViews : kViews;
}

// Room in a table that takes `usual` entries, one for each connection.
uint32_t room_for(const WorldOptions& options, uint32_t usual) {
  return std::max(usual, options.load.connections + options.connections_over + usual / 8);
}

client::ClientOptions client_options(const WorldOptions& options) {
  client::ClientOptions out;
  out.connections_max = options.small_tables ? 8 : room_for(options, 128);
  out.inline_bytes = options.load.inline_bytes;
  out.remote_invalidate = options.remote_invalidate;
  out.private_data = options.client_private_data;
  out.rpc.credits_wanted = options.load.window;
  out.rpc.reverse_credits = options.client_reverse_credits > 0
                                ? options.client_reverse_credits
                                : load::reverse_credits_for(options.load.operation, options.load.window);
  out.rpc.call_timeout = options.client_call_timeout;
  out.rpc.segment_bytes_max = options.segment_bytes_max;
  return out;
}

// Of both ends.
rc::RcOptions rc_options(const WorldOptions& options) {
  rc::RcOptions out;
  out.send_window_packets = options.send_window_packets;
  out.read_request_packets = options.read_request_packets;
  out.read_window_packets = options.read_window_packets;
  return out;
}

node::RoceOptions client_roce_options(const WorldOptions& options) {
  node::RoceOptions out;
  out.connections_max = client_options(options).connections_max;
  out.path_mtu_bytes = options.path_mtu;
  out.ack_timeout = options.ack_timeout;
  out.rc = rc_options(options);
  out.rc.responder_resources_max = 16;
  out.rc.selective_recovery = options.client_recovers_selectively;
  return out;
}

load::LoadOptions load_options(const WorldOptions& options) {
  load::LoadOptions out = options.load;
  out.server = sim_ip(options.ipv6, 1);
  return out;
}

// So many may come at once.
void allow_crowd(uint32_t count, cm::CmOptions& cm) {
  const RateLimit rate{.per_second = 1'000'000, .burst = count};
  cm.half_open_max = count;
  cm.prefix.half_open_max = count;
  cm.transmit_queue_max = std::min(count, kCrowdMails);
  cm.request_rate = rate;
  cm.answer_rate = rate;
  cm.prefix.request_rate = rate;
  cm.prefix.answer_rate = rate;
}

// What both ends have.
void set_iwarp_world(const IwarpWorld& world, iwarp::IwarpOptions& options) {
  options.fpdu_bytes_max = world.fpdu_bytes_max;
  options.input_bytes_max = world.input_bytes_max;
  options.fpdu_timeout = world.fpdu_timeout;
  options.handshake_timeout = world.handshake_timeout;
}

}  // namespace

namespace {

// Of a gateway. 0: a crowd may ask at once.
uint32_t half_open_max(const WorldOptions& options) {
  return options.half_open_max > 0 ? options.half_open_max
         : options.small_tables    ? 16
                                   : std::max(cm::CmOptions().half_open_max, options.load.connections);
}

ProductionPools gateway_pools(const WorldOptions& options) {
  if (options.production) {
    return production_pools();
  }
  return {.packets = options.packet_buffers,
          .large = options.large_buffers,
          .large_bytes = options.small_tables ? kSmallLargeBytes : kLargeBytes,
          .views = views_of(options),
          .reply_bytes = rpcrdma::RecordLimits().message_bytes_max};
}

}  // namespace

gateway::GatewayOptions sim_gateway_options(const WorldOptions& options) {
  gateway::GatewayOptions out;
  out.express = options.express;
  gateway::BackendOptions& backend_options = out.backends.emplace_back();
  backend_options.name = "backend";
  backend_options.kind = options.backend;
  backend_options.run_on_workers = options.run_on_workers;
  backend_options.from_client = options.backend_from_client;
  out.backends.resize(options.backends, gateway::BackendOptions(backend_options));
  gateway::ListenerOptions& listener = out.listeners.emplace_back();
  listener.name = "listener";
  listener.port = GatewayHost::kPort;
  listener.server.credits = options.credits;
  listener.server.call_timeout = options.server_call_timeout;
  out.orphan_max = std::min(out.orphan_max, options.server_call_timeout / 2);
  listener.inline_bytes = options.gateway_inline_bytes;
  listener.remote_invalidate = options.remote_invalidate;
  listener.server.reverse_credits = options.reverse_credits;
  listener.private_data = options.gateway_private_data;
  listener.allow = options.allow;
  listener.routes = options.routes;
  listener.connections_max = options.connections_max;
  for (uint16_t more = 1; more < options.gateway_ports; ++more) {
    gateway::ListenerOptions another = out.listeners.front();
    another.port = static_cast<uint16_t>(GatewayHost::kPort + more);
    out.listeners.push_back(std::move(another));
  }
  if (options.tcp != nullptr) {
    gateway::ListenerOptions another = out.listeners.front();
    another.name = "iwarp";
    another.transport = GatewayHost::kIwarp;
    out.listeners.push_back(std::move(another));
  }
  out.core = options.core;
  out.quota = options.quota;
  out.clients = options.clients;
  out.connections_max = options.small_tables ? 24 : room_for(options, 128);
  out.half_open_max = half_open_max(options);
  out.calls_in_flight_max = options.small_tables ? 64 : std::max(4096u, options.load.connections * options.load.window);
  if (options.calls_in_flight_max > 0) {
    out.calls_in_flight_max = options.calls_in_flight_max;
  }
  out.pull_buffers_max = options.pull_buffers_max;
  out.reply_bytes_max = uint64_t{gateway_pools(options).large} * gateway_pools(options).large_bytes;
  out.reserved_packet_bytes = options.reserved_packet_bytes;
  if (options.own_backends || options.production) {
    for (uint32_t i = 0; i < out.listeners.size(); ++i) {
      out.listeners[i].backend = out.listeners[i].transport == GatewayHost::kIwarp ? 0 : i;
    }
  }
  if (options.production) {
    apply_production(out);
    out.calls_in_flight_max = options.calls_in_flight_max > 0 ? options.calls_in_flight_max : out.calls_in_flight_max;
  }
  return out;
}

node::RoceOptions sim_roce_options(const WorldOptions& options) {
  node::RoceOptions out;
  const gateway::GatewayOptions gateway = sim_gateway_options(options);
  out.connections_max = gateway.connections_max + gateway.half_open_max;
  out.target_ack_delay_code = 5;  // 131 us: the simulation's cores are never busy
  out.rc = rc_options(options);
  out.rc.keepalive = Duration::ms(200);
  out.rc.selective_recovery = options.gateway_recovers_selectively;
  if (options.production) {
    apply_production(out);
  }
  return out;
}

iwarp::IwarpOptions sim_iwarp_options(const WorldOptions& options) {
  iwarp::IwarpOptions out;
  const gateway::GatewayOptions gateway = sim_gateway_options(options);
  set_iwarp_world(options.iwarp, out);
  out.connections_max = gateway.connections_max;
  out.half_open_max = gateway.half_open_max;
  out.prefix.half_open_max = gateway.half_open_max;
  out.crc = options.iwarp.gateway_crc;
  out.ord = options.iwarp.gateway_ord;
  out.send_queue_depth = options.iwarp.send_queue_depth;
  if (options.production) {
    apply_production(out);
  }
  return out;
}

wire::MacAddress sim_mac(uint8_t last) {
  return wire::MacAddress{{2, 0, 0, 0, 0, last}};
}

IpAddress sim_ip(bool ipv6, uint8_t last) {
  if (!ipv6) {
    return IpAddress::v4(0x0a09'0000u + last);
  }
  std::array<uint8_t, 16> raw{0xfd, 0x09};
  raw[15] = last;
  return IpAddress::v6(raw);
}

namespace {

// A gateway's core: what its process shares with the others is the same for all.
node::NodeOptions gateway_node_options(const WorldOptions& options) {
  node::NodeOptions node = sim_node_options(options, 1, false);
  node.endpoint.core = options.core;
  node.cm.core = options.core;
  node.endpoint.qpn_key = options.seed + 1;  // the next process has it, too
  if (options.half_open_max > 0) {
    node.cm.prefix.half_open_max = options.half_open_max;
  }
  node.cm.half_open_max = half_open_max(options);
  const uint32_t connections = sim_gateway_options(options).connections_max + node.cm.half_open_max;
  node.endpoint.qp_max = connections;
  node.cm.connection_max = std::max(node.cm.connection_max, connections);
  node.cm.handshakes_at_once_max = 2 * node.cm.half_open_max;
  if (options.production) {
    apply_production(node);
  }
  return node;
}

}  // namespace

namespace {

gateway::GatewayOptions gateway_host_options(const WorldOptions& options, gateway::SourcePorts& source_ports) {
  gateway::GatewayOptions out = sim_gateway_options(options);
  out.source_ports = &source_ports;
  return out;
}

std::unique_ptr<TcpHost> tcp_host(const WorldOptions& options, uint8_t last) {
  return options.tcp == nullptr ? nullptr : std::make_unique<TcpHost>(*options.tcp, last - 1, sim_ip(options.ipv6, last));
}

std::unique_ptr<iwarp::IwarpTransport> iwarp_on(TcpHost* tcp, const iwarp::IwarpOptions& options, BufferPool& pool,
                                                RandomSource& random, verbs::MemoryTable* memory) {
  if (tcp == nullptr) {
    return nullptr;
  }
  auto transport = std::make_unique<iwarp::IwarpTransport>(options, *tcp, pool, random, memory);
  tcp->attach(*transport);
  return transport;
}

iwarp::IwarpOptions client_iwarp_options(const WorldOptions& options) {
  iwarp::IwarpOptions out;
  out.connections_max = client_options(options).connections_max;
  out.half_open_max = 1;
  out.crc = options.iwarp.client_crc;
  out.ird = options.iwarp.client_ird;
  set_iwarp_world(options.iwarp, out);
  return out;
}

std::vector<verbs::Transport*> wires_of(node::RoceTransport& roce, iwarp::IwarpTransport* iwarp) {
  std::vector<verbs::Transport*> wires{&roce};
  if (iwarp != nullptr) {
    wires.push_back(iwarp);
  }
  return wires;
}

}  // namespace

node::NodeOptions sim_node_options(const WorldOptions& options, uint8_t last, bool exposes_memory) {
  node::NodeOptions node;
  link::StationOptions& station = node.ports.emplace_back();
  station.mac = sim_mac(last);
  station.vlan = options.vlan;
  station.mtu = 9000;
  station.addresses.push_back({sim_ip(options.ipv6, last), static_cast<uint8_t>(options.ipv6 ? 64 : 24)});
  node.endpoint.ack_delay = options.ack_delay;
  node.endpoint.express = options.express;
  node.endpoint.recovery = options.recovery;
  node.endpoint.qp_max = options.small_tables ? 32 : room_for(options, 256);
  node.endpoint.read_replay_max = exposes_memory ? node.endpoint.qp_max : 0;
  node.cm.local_ca_guid = last;
  node.cm.connection_max = room_for(options, node.cm.connection_max);
  if (options.load.connections > kCrowd) {
    allow_crowd(options.load.connections, node.cm);
  }
  if (options.connections_over > 0) {
    const uint32_t all = options.load.connections + options.connections_over;
    node.endpoint.receive_work_max = 64 * options.load.connections;
    node.endpoint.send_work_max = 64 * options.load.connections;
    node.cm.timewait_max = all;
    node.cm.transmit_queue_max = all;
  }
  if (options.small_tables) {
    node.endpoint.log_events = 64;
    node.endpoint.send_work_max = 512;
    node.endpoint.receive_work_max = 512;
    node.cm.connection_max = 24;
    node.cm.timewait_max = 24;
    node.cm.half_open_max = 16;
    node.cm.transmit_queue_max = 64;
  }
  return node;
}

GatewayHost::GatewayHost(const WorldOptions& options, uint64_t seed)
    : random(seed),
      packets(gateway_pools(options).packets, options.path_mtu + kFrameRoom, gateway_pools(options).views),
      large(gateway_pools(options).large, gateway_pools(options).large_bytes, gateway_pools(options).views),
      backend(large, options.program != nullptr ? *options.program : bench,
              {.buffers = gateway_pools(options).large, .record_bytes = gateway_pools(options).reply_bytes}, options.backends),
      node(gateway_node_options(options), random, nullptr),
      transport(sim_roce_options(options), node, random),
      tcp(tcp_host(options, 1)),
      iwarp(iwarp_on(tcp.get(), sim_iwarp_options(options), packets, random, nullptr)),
      gateway(gateway_host_options(options, source_ports), wires_of(transport, iwarp.get()), packets, large, programs, random) {
  (void)programs.add(options.program != nullptr ? *options.program : bench);
  CW_ASSERT(gateway.start().ok());
  if (options.small_tables) {  // large buffers cost large runs too much
    packets.poison_released();
    large.poison_released();
  }
}

void GatewayHost::turn(Instant now) {
  if (tcp) {
    tcp->receive(now);
  }
  gateway::BackendEvent event;
  while (backend.poll(now, event)) {
    gateway.on_backend_event(now, std::move(event));
  }
  node.on_deadline(now);
  gateway.run(now);
  gateway::BackendRequest request;
  while (gateway.poll_backend_request(request)) {
    backend.on_request(now, std::move(request));
  }
  rpcrdma::CallDone done;
  while (gateway.poll_done(done)) {
  }
  if (tcp) {
    tcp->transmit(now);
  }
}

Instant GatewayHost::next_deadline() const {
  return earlier(backend.next_at(), earlier(node.next_deadline(), gateway.next_deadline()));
}

ClientStack::ClientStack(const WorldOptions& options, uint64_t seed, uint8_t last)
    : random(options.client_qpns_repeat ? last : seed),
      packets(options.packet_buffers, options.path_mtu + kFrameRoom, views_of(options)),
      memory(options.small_tables ? 512 : std::max(2048u, 2 * options.load.connections * options.load.window), random),
      node(sim_node_options(options, last, true), random, &memory),
      transport(client_roce_options(options), node, random),
      tcp(tcp_host(options, last)),
      iwarp(iwarp_on(tcp.get(), client_iwarp_options(options), packets, random, &memory)),
      client(client_options(options), iwarp ? static_cast<verbs::Transport&>(*iwarp) : transport, memory, packets, random) {
  random = SeededRandom(seed);
  if (options.small_tables) {
    packets.poison_released();
  }
  (void)programs.add(bench);
  client.serve(programs);
}

ClientHost::ClientHost(const WorldOptions& options, uint64_t seed, uint8_t last)
    : ClientStack(options, seed, last), driver(load_options(options), client, packets, options.workload) {}

namespace {

// nullptr: there is none, or the frame is longer.
Buffer* buffer_of(BufferPool& pool, Bytes raw) {
  Buffer* buffer = pool.allocate_one();
  if (buffer != nullptr && buffer->append(raw) != raw.size()) {
    release_buffers(buffer);
    return nullptr;
  }
  return buffer;
}

}  // namespace

bool deliver_frame(Instant now, node::Node& node, BufferPool& pool, Bytes raw) {
  Buffer* buffer = buffer_of(pool, raw);
  if (buffer == nullptr) {
    return false;
  }
  if (!node.on_frame(now, buffer, 0)) {
    release_buffers(buffer);
  }
  return true;
}

uint64_t deliver_frames(Instant now, node::Node& node, BufferPool& pool, std::span<const std::vector<uint8_t>> raw) {
  constexpr size_t kBurst = 32;
  std::array<Buffer*, kBurst> burst;
  uint64_t lost = 0;
  while (!raw.empty()) {
    size_t count = 0;
    for (; count < kBurst && !raw.empty(); raw = raw.subspan(1)) {
      burst[count] = buffer_of(pool, raw.front());
      burst[count] == nullptr ? ++lost : ++count;
    }
    const size_t left = node.on_frames(now, std::span(burst).first(count), 0);
    for (size_t i = 0; i < left; ++i) {
      release_buffers(burst[i]);
    }
  }
  return lost;
}

}  // namespace cw::sim
