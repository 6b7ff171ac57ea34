#include "dataplane/assemble.h"

#include <algorithm>

#include "control/config/buffer_plan.h"
#include "control/config/memory_plan.h"
#include "dataplane/shared_quota.h"
#include "gateway/listener_lanes.h"

namespace cw::dataplane {
namespace {

// EUI-64 of a MAC, the name of this node in connection management (RFC 4291 appendix A).
uint64_t guid_of(const wire::MacAddress& mac) {
  const auto& o = mac.raw;
  return (uint64_t{o[0]} ^ 2) << 56 | uint64_t{o[1]} << 48 | uint64_t{o[2]} << 40 | 0xff'fe00'0000ULL | uint64_t{o[3]} << 16 |
         uint64_t{o[4]} << 8 | o[5];
}

// A core's part of what all of them share.
uint32_t share_of(uint32_t total, const CoreShare& core) {
  return (total + core.count - 1) / core.count;
}

// Half a second's worth at once: requests of honest clients come in bursts.
RateLimit rate_of(uint32_t per_second) {
  return {per_second, std::max(16u, per_second / 2)};
}

// Precondition: they have numbers.
void add_routes(std::span<const gateway::RouteKey> keys, uint32_t listener_number, const gateway::RouteIds& numbers,
                gateway::ListenerOptions& listener) {
  for (const gateway::RouteKey& key : keys) {
    if (key.listener != listener_number) {
      continue;
    }
    if (key.program) {
      listener.routes.push_back({*key.program, key.backend, *numbers.find(key)});
    } else {
      listener.other_route = *numbers.find(key);
    }
  }
}

// The longest of the backends that its calls can go to.
Duration call_timeout_of(const gateway::GatewayOptions& options, const gateway::ListenerOptions& listener) {
  Duration longest;
  const gateway::ListenerLanes lanes(listener);
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    if (const uint32_t backend = lanes.backend(lane); backend != gateway::ListenerOptions::kNoBackend) {
      longest = std::max(longest, options.backends[backend].call_timeout);
    }
  }
  return longest;
}

uint32_t reads_in_flight_max(const control::Config& config, control::TransportKind wire) {
  switch (wire) {
    case control::TransportKind::kRoce:
      return config.roce.reads_in_flight_max;
    case control::TransportKind::kIwarp:
      return config.iwarp.reads_in_flight_max;
    case control::TransportKind::kVerbs:
      return rnic::RnicOptions().reads_max;
  }
  return 1;
}

// Every queue full: clients that acknowledge nothing keep what they hold until they are found out, and leave the others theirs.
// What no client has needed takes no memory, since a slab touches none before.
uint32_t send_works(const control::LimitsConfig& limits, const CoreShare& core) {
  constexpr uint64_t kWorksMax = 1u << 20;
  const uint64_t connections =
      core.count == 1 ? limits.connections_max : uint64_t{share_of(limits.connections_max, core)} * 3 / 2;
  return static_cast<uint32_t>(std::min(connections * rc::RcOptions().send_queue_depth, kWorksMax));
}

// The same for iWARP and verbs: how many connections peers may have, and ask for.
template <typename Options>
void limit_connections(Options& options, const control::LimitsConfig& limits, const CoreShare& core) {
  options.connections_max = limits.connections_max;
  options.half_open_max = share_of(limits.half_open_max, core);
  options.request_rate = rate_of(share_of(limits.cm_requests_per_second, core));
  options.prefix.request_rate = rate_of(share_of(limits.cm_requests_per_second_per_prefix, core));
  options.prefix.half_open_max = share_of(limits.half_open_max_per_prefix, core);
  options.prefix.ipv4_bits = static_cast<uint8_t>(limits.prefix_bits_ipv4);
  options.prefix.ipv6_bits = static_cast<uint8_t>(limits.prefix_bits_ipv6);
}

}  // namespace

CpuSettings cpu_settings(const control::Config& config) {
  return {.main_lcore = config.dataplane.main_lcore,
          .poll_lcores = control::poll_cpus(config),
          .worker_lcores = config.dataplane.worker_lcores};
}

EalSettings eal_settings(const control::Config& config) {
  EalSettings eal;
  eal.instance = config.gateway.instance;
  eal.cpus = cpu_settings(config);
  eal.hugepages = config.dataplane.hugepages;
  eal.memory_mb = config.dataplane.memory_mb;
  eal.telemetry = config.metrics.dpdk_telemetry;
  for (const control::PortConfig& port : config.ports) {
    if (port.device.find(':') != std::string::npos && port.device.find('=') == std::string::npos) {
      eal.pci_devices.push_back(port.device);
    }
  }
  return eal;
}

PortSettings port_settings(const control::Config& config, const control::PortConfig& port) {
  PortSettings settings;
  settings.cores = control::poll_core_count(config);
  settings.cores_without_queue = static_cast<uint32_t>(config.iwarp.poll_lcores.size());
  settings.device = port.device;
  settings.mtu = port.mtu;
  settings.beside_kernel = port.beside_kernel;
  settings.exception_tap = port.exception_tap;
  settings.vlan = static_cast<uint16_t>(port.vlan);
  for (const control::IpPrefix& prefix : port.addresses) {
    settings.taken.push_back(prefix.address);
  }
  return settings;
}

node::NodeOptions node_options(const control::Config& config, std::span<const wire::MacAddress> macs, const CoreShare& core,
                               uint64_t qpn_key) {
  node::NodeOptions options;
  if (config.ports.empty()) {
    options = node::without_ports();
  }
  options.endpoint.core = core;
  options.endpoint.qpn_key = qpn_key;
  options.cm.core = core;
  if (config.ports.empty()) {
    return options;
  }
  for (size_t i = 0; i < config.ports.size(); ++i) {
    const control::PortConfig& port = config.ports[i];
    link::StationOptions& station = options.ports.emplace_back();
    station.mac = macs[i];
    station.port = static_cast<uint16_t>(i);
    station.vlan = static_cast<uint16_t>(port.vlan);
    station.mtu = port.mtu;
    for (const control::IpPrefix& prefix : port.addresses) {
      station.addresses.push_back({prefix.address, prefix.length_bits});
    }
    station.is_silent = port.beside_kernel || !port.exception_tap.empty();
    station.gateway4 = port.gateway4;
    station.gateway6 = port.gateway6;
  }
  const control::LimitsConfig& limits = config.limits;
  options.endpoint.qp_max = limits.connections_max + limits.half_open_max;
  options.endpoint.send_work_max = std::max({16384u, 8 * share_of(limits.calls_in_flight_max, core), send_works(limits, core)});
  options.endpoint.ack_delay = rc::kAckDelay;
  options.endpoint.receive_work_max = 0;
  for (const control::ListenerConfig& listener : config.listeners) {
    const uint32_t receives = listener.credits + listener.reverse_credits;
    options.endpoint.receive_work_max += receives * control::connections_max_of(listener, limits);
  }
  options.endpoint.receive_work_max += limits.half_open_max;  // one each
  // A reload may grant more, as long as the packet buffers back it: a receive takes one or more of them.
  options.endpoint.receive_work_max = std::max(options.endpoint.receive_work_max, config.dataplane.rx_buffers);
  // Connections spread over the cores, but not so evenly that half as many again would not be met.
  const uint32_t receives =
      core.count == 1 ? options.endpoint.receive_work_max : share_of(options.endpoint.receive_work_max, core) * 3 / 2;
  options.endpoint.receive_work_max = std::min(receives, 1u << 20);
  options.endpoint.recovery = rc::recovery_limits(limits.connections_max, share_of(control::plan_buffers(config).held_max, core));
  options.endpoint.rate_limits_max = limits.connections_max;
  options.endpoint.read_replay_max = 0;  // the server exposes no memory
  options.cm.local_ca_guid = guid_of(macs.front());
  options.cm.connection_max = limits.connections_max + limits.half_open_max;
  options.cm.half_open_max = share_of(limits.half_open_max, core);
  options.cm.handshakes_at_once_max = 2 * options.cm.half_open_max;
  options.cm.request_rate = rate_of(share_of(limits.cm_requests_per_second, core));
  options.cm.prefix.half_open_max = share_of(limits.half_open_max_per_prefix, core);
  options.cm.prefix.request_rate = rate_of(share_of(limits.cm_requests_per_second_per_prefix, core));
  options.cm.prefix.ipv4_bits = static_cast<uint8_t>(limits.prefix_bits_ipv4);
  options.cm.prefix.ipv6_bits = static_cast<uint8_t>(limits.prefix_bits_ipv6);
  uint32_t path_mtu = 4096;
  for (const control::PortConfig& port : config.ports) {
    path_mtu = std::min(path_mtu, control::path_mtu_for(port.mtu, config.roce.path_mtu_max));
  }
  options.cm.path_mtu_max = cm::path_mtu_for(path_mtu);
  return options;
}

std::unique_ptr<gateway::ConnectionQuota> connection_quota(const control::Config& config, const gateway::ConfigIds& numbers) {
  std::vector<uint32_t> per_listener(gateway::kListenerIdsMax);
  for (const control::ListenerConfig& listener : config.listeners) {
    per_listener[numbers.of(listener)] = control::connections_max_of(listener, config.limits);
  }
  return std::make_unique<SharedQuota>(config.limits.connections_max, per_listener);
}

uint32_t client_connections_max(const control::ClientConfig& client) {
  return client.connections_max == 0 ? UINT32_MAX : client.connections_max;
}

std::unique_ptr<gateway::ConnectionQuota> client_quota(const control::Config& config, const gateway::ConfigIds& numbers) {
  std::vector<uint32_t> per_class(gateway::kClientIdsMax);
  for (const control::ClientConfig& client : config.clients) {
    per_class[*numbers.clients.find(client.name)] = client_connections_max(client);
  }
  return std::make_unique<SharedQuota>(UINT32_MAX, per_class);
}

void set_rates(const control::Config& config, const gateway::ConfigIds& numbers, const gateway::Rates& rates) {
  for (const control::ListenerConfig& listener : config.listeners) {
    rates.listeners[numbers.of(listener)].set(listener.calls_per_second, listener.bytes_per_second);
  }
  for (const control::ClientConfig& client : config.clients) {
    rates.clients[*numbers.clients.find(client.name)].set(client.calls_per_second, client.bytes_per_second);
  }
}

gateway::GatewayOptions gateway_options(const control::Config& config, const CoreShare& core, gateway::ConnectionQuota& quota,
                                        gateway::ConnectionQuota& client_quota, const gateway::Rates& rates,
                                        gateway::SourcePorts& source_ports, const gateway::ConfigIds& numbers) {
  gateway::GatewayOptions options;
  options.core = core;
  options.quota = &quota;
  options.source_ports = &source_ports;
  const control::LimitsConfig& limits = config.limits;
  for (const gateway::BackendIdentity& identity : numbers.backends.values()) {
    gateway::BackendOptions& backend = options.backends.emplace_back();
    backend.name = identity.name;
    backend.kind = identity.type == control::BackendType::kTcp ? gateway::BackendKind::kTcp : gateway::BackendKind::kBuiltin;
    backend.removed = true;
  }
  for (const control::BackendConfig& config_backend : config.backends) {
    const uint32_t number = numbers.of(config_backend);
    gateway::BackendOptions& backend = options.backends[number];
    backend.removed = false;
    backend.servers.clear();
    for (const control::SocketAddress& server : control::servers_of(config_backend)) {
      backend.servers.push_back(numbers.of_server(number, server));
    }
    backend.checked = config_backend.type == control::BackendType::kTcp && config_backend.check != control::CheckKind::kOff;
    backend.from_client = config_backend.source == control::SourceKind::kClient;
    backend.open_timeout = Duration::ms(config_backend.connect_timeout_ms);
    backend.call_timeout = Duration::seconds(config_backend.call_timeout_s);
  }
  const std::vector<gateway::RouteKey> keys = gateway::route_keys(config, numbers);
  for (const gateway::ListenerIdentity& identity : numbers.listeners.values()) {
    gateway::ListenerOptions& listener = options.listeners.emplace_back();
    listener.name = identity.name;
    listener.port = identity.port;
    listener.transport = static_cast<uint32_t>(identity.transport);
    listener.removed = true;
  }
  for (const control::ListenerConfig& config_listener : config.listeners) {
    const uint32_t number = numbers.of(config_listener);
    gateway::ListenerOptions& listener = options.listeners[number];
    listener.removed = false;
    listener.backend = numbers.of_backend(config, config_listener.backend);
    add_routes(keys, number, numbers.routes, listener);
    listener.inline_bytes = config_listener.inline_bytes;
    listener.remote_invalidate = config_listener.remote_invalidate;
    listener.allow = config_listener.allow;
    listener.connections_max = control::connections_max_of(config_listener, limits);
    listener.calls_per_second = config_listener.calls_per_second;
    listener.bytes_per_second = config_listener.bytes_per_second;
    listener.server.credits = config_listener.credits;
    listener.server.reverse_credits = config_listener.reverse_credits;
    listener.server.call_bytes_max = limits.call_bytes_max;
    listener.server.reply_bytes_max = limits.reply_bytes_max;
    listener.server.reads_in_flight_max = reads_in_flight_max(config, config_listener.transport);
    listener.server.call_timeout = call_timeout_of(options, listener);
    listener.server.read_timeout = Duration::seconds(limits.read_timeout_s);
    listener.server.reply_timeout = Duration::seconds(limits.reply_timeout_s);
    options.orphan_max = std::min(options.orphan_max, listener.server.call_timeout / 2);
    listener.server.limits.read_segments_max = limits.read_segments_max;
    listener.server.limits.plain_segments_max = limits.plain_segments_max;
    listener.server.limits.write_chunks_max = limits.write_chunks_max;
    listener.server.limits.read_bytes_max = limits.call_bytes_max;
  }
  options.client_quota = &client_quota;
  options.rates = &rates;
  options.clients.resize(numbers.clients.values().size());
  for (const control::ClientConfig& config_client : config.clients) {
    gateway::ClientClassOptions& clients = options.clients[*numbers.clients.find(config_client.name)];
    clients.name = config_client.name;
    clients.prefixes = config_client.prefixes;
    clients.allow = config_client.allow;
    clients.connections_max = client_connections_max(config_client);
    clients.calls_per_second = config_client.calls_per_second;
    clients.bytes_per_second = config_client.bytes_per_second;
    clients.weight = config_client.weight;
    clients.credits_max = config_client.credits == 0 ? UINT32_MAX : config_client.credits;
    if (config_client.bytes_in_flight_max != 0) {
      clients.bytes_in_flight_max = std::max<uint64_t>(1, config_client.bytes_in_flight_max / core.count);
    }
  }
  options.connections_max = limits.connections_max;
  options.half_open_max = share_of(limits.half_open_max, core);
  options.calls_in_flight_max = share_of(limits.calls_in_flight_max, core);
  options.pull_buffers_max = share_of(control::plan_buffers(config).pulled_max, core);
  options.reply_bytes_max = uint64_t{control::pool_sizes(config).large_buffers} * control::kLargeBufferBytes / core.count;
  options.reserved_packet_bytes = control::smallest_path_mtu(config);
  return options;
}

iwarp::IwarpOptions iwarp_options(const control::Config& config, const CoreShare& core) {
  const control::LimitsConfig& limits = config.limits;
  iwarp::IwarpOptions options;
  limit_connections(options, limits, core);
  // A quarter of the packet buffers, at about the size that most have.
  options.input_bytes_max = uint64_t{share_of(config.dataplane.rx_buffers, core)} / 4 * 2048;
  options.crc = config.iwarp.crc;
  options.ord = static_cast<uint16_t>(config.iwarp.reads_in_flight_max);
  options.fpdu_bytes_max = config.iwarp.fpdu_bytes_max;
  options.handshake_timeout = Duration::seconds(config.iwarp.handshake_timeout_s);
  options.send_work_max = std::max({16384u, 8 * share_of(limits.calls_in_flight_max, core), send_works(limits, core)});
  for (const control::ListenerConfig& listener : config.listeners) {
    const uint32_t receives = listener.credits + listener.reverse_credits;
    options.receive_work_max =
        std::max(options.receive_work_max, std::min(receives * control::connections_max_of(listener, limits), 1u << 20));
  }
  return options;
}

rnic::RnicOptions rnic_options(const control::Config& config, const CoreShare& core) {
  rnic::RnicOptions options;
  limit_connections(options, config.limits, core);
  options.keepalive = Duration::seconds(config.roce.keepalive_s);
  options.receive_queue_depth = 1;
  for (const control::ListenerConfig& listener : config.listeners) {
    if (listener.transport == control::TransportKind::kVerbs) {
      options.receive_queue_depth = std::max(options.receive_queue_depth, listener.credits + listener.reverse_credits);
    }
  }
  return options;
}

RdmaHostOptions rdma_options(const control::Config& config, const CoreShare& core) {
  RdmaHostOptions options;
  options.listens = core.index == 0;
  options.retries = {.timeout_min = static_cast<uint8_t>(config.roce.ack_timeout),
                     .retries_max = static_cast<uint8_t>(config.roce.retry_count),
                     .rnr_retries_max = static_cast<uint8_t>(config.roce.rnr_retry_count)};
  options.min_rnr_timer = static_cast<uint8_t>(config.roce.rnr_timer);
  for (const control::ListenerConfig& listener : config.listeners) {
    if (listener.transport == control::TransportKind::kVerbs || !listener.device.empty()) {
      options.listen.push_back({listener.port, listener.address, listener.device});
    }
  }
  return options;
}

TcpStreamsOptions tcp_options(const control::Config& config, const CoreShare& core) {
  TcpStreamsOptions options;
  options.listens = control::serves_iwarp(config, core.index);
  for (const control::ListenerConfig& listener : config.listeners) {
    if (listener.address && listener.transport != control::TransportKind::kVerbs) {
      options.listen.push_back({*listener.address, listener.port});
    }
  }
  options.keepalive = Duration::seconds(config.iwarp.keepalive_s);
  options.user_timeout = Duration::seconds(config.iwarp.user_timeout_s);
  return options;
}

node::RoceOptions roce_options(const control::Config& config, const CoreShare& core) {
  node::RoceOptions options;
  options.connections_max =
      config.ports.empty() ? 1 : config.limits.connections_max + share_of(config.limits.half_open_max, core);
  options.rc.send_window_packets = config.roce.send_window_packets;
  options.rc.min_rnr_timer = static_cast<uint8_t>(config.roce.rnr_timer);
  options.rc.initiator_depth_max = static_cast<uint8_t>(config.roce.reads_in_flight_max);
  options.rc.keepalive = Duration::seconds(config.roce.keepalive_s);
  options.rc.selective_recovery = config.roce.selective_recovery;
  options.rc.congestion_control = config.roce.congestion_control;
  options.rc.responder_resources_max = 0;
  options.retry_count = static_cast<uint8_t>(config.roce.retry_count);
  options.rnr_retry_count = static_cast<uint8_t>(config.roce.rnr_retry_count);
  options.ack_timeout_min_code = static_cast<uint8_t>(config.roce.ack_timeout);
  return options;
}

WorkerPoolOptions worker_options(const control::Config& config) {
  WorkerPoolOptions options;
  options.workers = config.dataplane.workers;
  options.cores = control::poll_core_count(config);
  options.spin = config.dataplane.idle == control::IdleMode::kSpin;
  for (const control::BackendConfig& backend : config.backends) {
    options.names.push_back(backend.name);
    options.from_client.push_back(backend.source == control::SourceKind::kClient);
    std::vector<control::SocketAddress>& servers = options.backends.emplace_back();
    for (const control::SocketAddress& server : control::servers_of(backend)) {
      servers.push_back({server.address, server.port});
    }
  }
  options.limits.message_bytes_max = config.limits.reply_bytes_max;
  options.reply_buffers = control::pool_sizes(config).large_buffers;
  options.reply_buffers_min = static_cast<uint32_t>(control::large_buffers_min(config));
  return options;
}

}  // namespace cw::dataplane
