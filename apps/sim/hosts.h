// The two kinds of host that live in a simulation: a gateway with its simulated backend, and a client's stack. Real objects
// throughout; only what is outside the process (ports, workers, clock, randomness) is simulated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/load/load_driver.h"
#include "apps/sim/sim_backend.h"
#include "apps/sim/tcp.h"
#include "base/heap_buffer_pool.h"
#include "gateway/client/client.h"
#include "gateway/gateway.h"
#include "gateway/node/node.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"
#include "rpcrdma/backend/bench_program.h"

namespace cw::sim {

// What both ends of an iWARP connection have, unless production has other limits.
struct IwarpWorld {
  bool gateway_crc = true;  // asked for
  bool client_crc = true;
  uint16_t client_ird = 16;
  uint16_t gateway_ord = 32;
  uint16_t send_queue_depth = iwarp::IwarpOptions().send_queue_depth;  // of the gateway
  uint32_t fpdu_bytes_max = iwarp::IwarpOptions().fpdu_bytes_max;
  uint64_t input_bytes_max = iwarp::IwarpOptions().input_bytes_max;
  Duration fpdu_timeout = iwarp::IwarpOptions().fpdu_timeout;
  Duration handshake_timeout = iwarp::IwarpOptions().handshake_timeout;
  TcpOptions tcp;
};

struct WorldOptions {
  uint64_t seed = 1;
  load::LoadOptions load;
  bool ipv6 = false;
  uint16_t vlan = 0;
  uint32_t path_mtu = 4096;
  uint32_t reserved_packet_bytes = 256;  // GatewayOptions
  uint32_t credits = 64;
  uint32_t reverse_credits = 16;        // asked for by the gateway
  uint32_t client_reverse_credits = 0;  // of clients without the load driver, which sets its own
  uint32_t gateway_inline_bytes = 4096;
  bool remote_invalidate = true;
  bool gateway_recovers_selectively = true;
  bool client_recovers_selectively = true;
  std::optional<std::vector<uint8_t>> client_private_data;  // in place of its sizes
  bool gateway_private_data = true;
  bool own_backends = false;                  // listener i leads to backend i
  uint16_t gateway_ports = 1;                 // listeners at GatewayHost::kPort and above, all alike
  CoreShare core;                             // of the gateway's process
  gateway::ConnectionQuota* quota = nullptr;  // of that process; must outlive the hosts
  gateway::BackendKind backend = gateway::BackendKind::kBuiltin;
  bool run_on_workers = false;
  uint32_t backends = 1;  // all alike
  std::vector<gateway::RouteOptions> routes;
  bool backend_from_client = false;
  std::vector<control::IpPrefix> allow;
  std::vector<gateway::ClientClassOptions> clients;
  uint32_t connections_max = 64;
  uint32_t connections_over = 0;  // room in the tables for so many besides the load's: connections that are over rest for a while
  uint32_t half_open_max = 0;     // of the gateway; 0: a crowd may ask at once
  uint32_t calls_in_flight_max = 0;  // of the gateway; 0: as many as the load has, or as in production
  uint32_t packet_buffers = 16384;
  uint32_t large_buffers = 512;
  uint64_t pull_buffers_max = UINT64_MAX;
  Duration server_call_timeout = Duration::seconds(120);
  Duration client_call_timeout = Duration::seconds(60);
  uint32_t segment_bytes_max = 0;  // of the client's chunks
  uint8_t ack_timeout = 14;        // of the client
  uint32_t send_window_packets = rc::RcOptions().send_window_packets;
  uint32_t read_request_packets = rc::RcOptions().read_request_packets;
  uint32_t read_window_packets = rc::RcOptions().read_window_packets;
  Duration ack_delay = rc::kAckDelay;                        // EndpointOptions::ack_delay of both ends
  bool express = true;                                       // of both ends; false: everything takes the general paths
  rc::RecoveryLimits recovery = EndpointOptions().recovery;  // of both ends, but for a gateway with the limits of production
  // Tables for a handful of connections instead of hundreds: thousands of worlds are made in a sweep.
  bool small_tables = false;
  uint32_t views = 0;  // of each pool; 0: by the size of the tables
  // The gateway has the limits and pools of production (production.h), and each listener a backend of its own: listener i,
  // backend i.
  bool production = false;
  // A restarted client's first queue pair has the number of its last life's, as with kernels that count from a fixed one.
  bool client_qpns_repeat = false;
  // iWARP: of a gateway a second wire with a listener of its own, of a client the only one. nullptr: RoCE. Outlives the hosts.
  TcpNet* tcp = nullptr;
  IwarpWorld iwarp;
  // What the gateway and its backend run; nullptr: the bench program as it is. Must outlive the hosts.
  rpcrdma::Program* program = nullptr;
  // Whose calls the client makes; nullptr: the bench program's. Must outlive the hosts.
  load::Workload* workload = nullptr;
};

[[nodiscard]] wire::MacAddress sim_mac(uint8_t last);
[[nodiscard]] IpAddress sim_ip(bool ipv6, uint8_t last);
[[nodiscard]] node::NodeOptions sim_node_options(const WorldOptions& options, uint8_t last, bool exposes_memory);

// What the gateway of a world is made of.
[[nodiscard]] gateway::GatewayOptions sim_gateway_options(const WorldOptions& options);
[[nodiscard]] node::RoceOptions sim_roce_options(const WorldOptions& options);
[[nodiscard]] iwarp::IwarpOptions sim_iwarp_options(const WorldOptions& options);

class GatewayHost {
 public:
  static constexpr uint16_t kPort = 20049;
  static constexpr uint32_t kIwarp = 1;  // ListenerOptions::transport
  GatewayHost(const WorldOptions& options, uint64_t seed);

  // One turn of its poll core without the frames: backend, deadlines, gateway.
  void turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;

  SeededRandom random;
  HeapBufferPool packets;
  HeapBufferPool large;
  rpcrdma::BenchProgram bench;
  rpcrdma::ProgramRegistry programs;
  SimBackend backend;
  gateway::PortBook source_ports{32'768, 60'999};
  node::Node node;
  node::RoceTransport transport;
  std::unique_ptr<TcpHost> tcp;  // nullptr: RoCE alone
  std::unique_ptr<iwarp::IwarpTransport> iwarp;
  gateway::Gateway gateway;
};

// What a client's process has of Causeway.
class ClientStack {
 public:
  // `last`: of its addresses.
  ClientStack(const WorldOptions& options, uint64_t seed, uint8_t last);
  [[nodiscard]] Instant next_deadline() const { return earlier(node.next_deadline(), client.next_deadline()); }

  SeededRandom random;
  HeapBufferPool packets;
  verbs::MemoryTable memory;
  node::Node node;
  rpcrdma::BenchProgram bench;  // what servers may call back
  rpcrdma::ProgramRegistry programs;
  node::RoceTransport transport;
  std::unique_ptr<TcpHost> tcp;  // nullptr: RoCE
  std::unique_ptr<iwarp::IwarpTransport> iwarp;
  client::Client client;
};

// A client's stack with the load driver on top.
class ClientHost : public ClientStack {
 public:
  ClientHost(const WorldOptions& options, uint64_t seed, uint8_t last = 2);
  [[nodiscard]] Instant next_deadline() const { return earlier(ClientStack::next_deadline(), driver.next_deadline()); }
  load::LoadDriver driver;
};

// Puts a frame into a port of `node`, in a Buffer of `pool`. False: there was none, or the frame is longer.
[[nodiscard]] bool deliver_frame(Instant now, node::Node& node, BufferPool& pool, Bytes raw);
// Frames that came one after the other, in bursts as a port gives them. Says how many were not put there.
[[nodiscard]] uint64_t deliver_frames(Instant now, node::Node& node, BufferPool& pool, std::span<const std::vector<uint8_t>> raw);

}  // namespace cw::sim
