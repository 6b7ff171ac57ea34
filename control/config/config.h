// Everything an operator can set, as plain structs with the defaults in place. One struct per TOML section.
//
// A file is parsed (config_parse.h), checked across sections (config_check.h) and then frozen: main() hands const references to
// the layers and nothing reads a setting by name at run time. Keys, types, ranges and help texts stand once, in config_keys.cc.
// The defaults run on one core, without hugepages, with 64 clients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "control/config/ip_text.h"
#include "rpcrdma/wire/chunk_list.h"

namespace cw::control {

// [gateway]
struct GatewayConfig {
  // Name of this gateway among several on one host: DPDK file prefix, default admin socket, label of build_info. A name of
  // TextRule::kName, since it becomes a file name.
  std::string instance = "default";
  // Told to end (SIGTERM), it drains first, for so many seconds at most. 0: it disconnects its clients at once.
  uint32_t drain_on_stop_s = 5;
};

// How a poll core behaves when there is nothing to do.
enum class IdleMode : uint8_t {
  kSleep,  // back off to short sleeps: a few percent CPU when idle, up to 50 us more on the first packet
  kSpin,   // poll always: the core is busy at 100 %, latency is lowest
};

// [dataplane]
struct DataplaneConfig {
  // CPU number of the main (control) thread. It may also stand in poll_lcores: on a machine with one core both share it.
  uint32_t main_lcore = 0;
  // CPU numbers of the poll cores, each once.
  std::vector<uint32_t> poll_lcores = {0};
  // CPU numbers that the workers run on, each once; which worker runs on which is the kernel's choice. Empty: those that this
  // process may use and no poll core has, or all when that leaves none.
  std::vector<uint32_t> worker_lcores;
  // True: memory from hugepages (needed by physical NICs in practice). False: ordinary pages, for TAP, AF_PACKET, vhost, memif.
  bool hugepages = false;
  // Memory that DPDK may take, MiB. 640 holds what two cores with frames of 8 KiB and the defaults take.
  uint32_t memory_mb = 640;
  IdleMode idle = IdleMode::kSleep;
  // Packet buffers for received packets, over all ports and cores. Every granted credit has its buffers reserved: 64 connections
  // x 64 credits x 4 packets (4096 bytes inline at path MTU 1024) = 16384, and as many again for Read responses and packets
  // behind a gap; what sending and NIC rings take comes on top (buffer_plan.h).
  uint32_t rx_buffers = 32768;
  // Threads that talk to backends and run slow programs. One serves about 1 GB/s of TCP.
  uint32_t workers = 1;
};

// [[port]]
struct PortConfig {
  // DPDK device: a PCI address ("0000:3b:00.0") or a virtual device with its arguments ("net_tap0,iface=cw0").
  std::string device;
  // Ethernet MTU (bytes of IP packet). The RoCE path MTU follows from it: path_mtu_for().
  uint32_t mtu = 1500;
  // Own addresses, each once. With beside_kernel none may be given: then those that the interface has at the start.
  std::vector<IpPrefix> addresses;
  // The kernel keeps the interface and answers for `addresses`; RoCE packets to them are all that is taken. For devices that
  // is_af_xdp() or may_isolate() says.
  bool beside_kernel = false;
  // Interface, of the TAP kind, by which the kernel has `addresses` on this port: what is no RoCE packet to them goes to it and
  // comes back from it. Empty: there is none, and the gateway answers ARP, neighbour discovery and ping itself.
  std::string exception_tap;
  // VLAN id; 0 = untagged.
  uint32_t vlan = 0;
  // Next hop for clients outside `addresses`. Absent: only neighbours are reached.
  std::optional<IpAddress> gateway4;
  std::optional<IpAddress> gateway6;
};

// The wire that clients come by.
enum class TransportKind : uint8_t {
  kRoce,   // RoCEv2 on the [[port]]s
  kIwarp,  // iWARP on the kernel's TCP
  kVerbs,  // an RDMA device that rdma-core drives
};
// As the file has it: "roce".
[[nodiscard]] const char* to_string(TransportKind kind) noexcept;

// [[listener]]
struct ListenerConfig {
  // Name in metrics and in causewayctl. Empty in the file: the backend's name.
  std::string name;
  TransportKind transport = TransportKind::kRoce;
  // kIwarp, kVerbs: the own address that is listened on. Absent: all of the kernel's, IPv4 and IPv6.
  std::optional<IpAddress> address;
  // kVerbs: the RDMA device that clients come by, "rxe0". Empty: whatever device has the address.
  std::string device;
  // 20049 is registered for NFS over RDMA (RFC 8166 9). kRoce: the low 16 bits of the CM service id, no UDP port. kIwarp: a TCP
  // port. kVerbs: either, as the device is of InfiniBand and RoCE, or iWARP.
  uint16_t port = 20049;
  // Name of a [[backend]]. Empty: calls go where a [[route]] leads, or are answered with PROG_UNAVAIL.
  std::string backend;
  // Calls that one connection may have in flight = receive buffers reserved for it. Linux asks for 128 and takes what it gets.
  uint32_t credits = 64;
  // Calls of the backend to one client that may be in flight (RFC 8167), if the client grants as many; 0 = none are passed on.
  // Linux grants 16.
  uint32_t reverse_credits = 16;
  // Largest message sent or received without chunks, bytes (RFC 8797 2.1 counts in KiB).
  uint32_t inline_bytes = 4096;
  // Offer SEND with Invalidate (RFC 8797), which saves the client one work request per call.
  bool remote_invalidate = true;
  // Clients that may connect; empty = all. The host-based access control of backends that see the gateway's address
  // (SourceKind::kGateway).
  std::vector<IpPrefix> allow;
  // Connections of this listener; 0 = as limits.connections_max.
  uint32_t connections_max = 0;
  // Of all its connections together, on all poll cores; 0 = no limit.
  uint64_t calls_per_second = 0;
  uint64_t bytes_per_second = 0;
};

enum class BackendType : uint8_t {
  kTcp,      // an RPC server reached over TCP
  kBuiltin,  // programs inside the gateway
};

// How a server of a backend is checked.
enum class CheckKind : uint8_t {
  kRpc,  // a NULL call is answered, whatever the answer
  kTcp,  // it takes a connection
  kOff,
};

// Whose address the connections to a backend come from.
enum class SourceKind : uint8_t {
  kGateway,
  kClient,
};

// [[backend]]
struct BackendConfig {
  // Referred to by listeners; label of the backend metrics.
  std::string name;
  BackendType type = BackendType::kTcp;
  // kTcp: the server, IP address and port.
  std::optional<SocketAddress> address;
  // kTcp: servers that stand in for it, in this order. New connections go to the first of all that is up.
  std::vector<SocketAddress> backups;
  // kTcp: whose address it sees. A client of the other address family than the server is seen as the gateway.
  SourceKind source = SourceKind::kGateway;
  CheckKind check = CheckKind::kRpc;
  // From one check of a server to the next, and how long it may take, ms. With three failures to be down, a server that dies is
  // noticed after 4 to 8 s.
  uint32_t check_interval_ms = 2000;
  uint32_t check_timeout_ms = 2000;
  // Checks in a row that fail until a server is down, and that succeed until it is up again.
  uint32_t check_fall = 3;
  uint32_t check_rise = 2;
  // kBuiltin: names of built-in programs; "bench" is the one there is.
  std::vector<std::string> programs;
  // How long a new connection waits for its backend connection before it ends, ms. 3 s = one SYN retransmission after 1 s, one
  // after 3.
  uint32_t connect_timeout_ms = 3000;
  // A backend that is silent with calls in flight for so long costs its connection, s. Above the 60 s that NFS clients wait.
  uint32_t call_timeout_s = 120;
};

// [[route]]
struct RouteConfig {
  // Name of a [[listener]].
  std::string listener;
  // RPC program number, RFC 5531 13: NFS 100003, MOUNT 100005, NLM 100021, NFSACL 100227.
  uint32_t program = 0;
  // Name of a [[backend]].
  std::string backend;
};

// [[client]]: clients that share a budget. An address is counted where its longest prefix is.
struct ClientConfig {
  // Label of metrics.
  std::string name;
  std::vector<IpPrefix> prefixes;
  bool allow = true;
  // Connections of all of them together; 0 = as the listener and [limits] say.
  uint32_t connections_max = 0;
  // Calls in flight of each connection; 0 = as the listener says.
  uint32_t credits = 0;
  // Bytes of the chunks of their calls in flight, over all connections; 0 = no limit. Poll cores share it evenly. 64 MiB are 64
  // reads or writes of 1 MiB: 5 ms of 100 Gbit/s.
  uint64_t bytes_in_flight_max = 0;
  // Of all of them together, on all poll cores; 0 = no limit.
  uint64_t calls_per_second = 0;
  uint64_t bytes_per_second = 0;
  // Of what a listener's rates let through, beside other sections whose calls wait for these, too. Clients without a section
  // count as one of weight 1.
  uint32_t weight = 1;
};

// [limits]: caps on every count that a peer controls. Each refusal has a reason in the metrics.
struct LimitsConfig {
  // Segments in one Read list. Linux uses up to 19 for 1 MiB with 64 KiB segments plus a Position-Zero chunk.
  uint32_t read_segments_max = rpcrdma::kReadSegmentsMax;
  // Chunks in one Write list.
  uint32_t write_chunks_max = rpcrdma::kWriteChunksMax;
  // Segments of Write list and Reply chunk together.
  uint32_t plain_segments_max = rpcrdma::kPlainSegmentsMax;
  // Longest call after its Read chunks are pulled, bytes. 1 MiB of NFS WRITE data needs little more than 1 MiB.
  uint64_t call_bytes_max = 4ULL << 20;
  // Longest reply taken from a backend, bytes.
  uint64_t reply_bytes_max = 8ULL << 20;
  // Seconds without an answered RDMA Read, while some are under way, after which a client is given up. The transport
  // repeats a request within that many times. Beside it stands a rate of 1 MiB/s: a connection has the time that its data takes
  // at that rate, and two read timeouts on top (rpcrdma::ServerEndpoint::kReadBytesPerSecondMin). And slow clients together
  // hold at most a quarter of the buffers while others wait for some (rpcrdma::ServerShared::kSlowPart).
  uint32_t read_timeout_s = 10;
  // Seconds that a client may take to acknowledge a reply: it has no receive for it, or does not answer at all.
  uint32_t reply_timeout_s = 30;
  // Calls received and not yet answered over all connections. 64 connections x 64 credits. Several backends share
  // them (rpcrdma::ServerShared::may_begin). A client that is alone leaves a sixteenth of them, so that the next one finds some
  // at once (rpcrdma::ServerShared::kReservedPart).
  uint32_t calls_in_flight_max = 4096;
  // Connections over all listeners.
  uint32_t connections_max = 64;
  // Connection requests not yet established, of each kind of transport, besides connections_max. About 4 KB each. Beyond it the
  // oldest of the network that holds the most makes room: a client that exists answers within milliseconds.
  uint32_t half_open_max = 512;
  // Connection requests looked at per second; more are dropped and counted.
  uint32_t cm_requests_per_second = 1000;
  // The same for the clients of one network together: three quarters, so that the flood of one leaves the others a quarter. A
  // thousand clients of one network that come back at once are through after 9 s (they repeat each 4.3 s, for a minute).
  uint32_t half_open_max_per_prefix = 384;
  uint32_t cm_requests_per_second_per_prefix = 750;
  // How many bits of a client's address are its network.
  uint32_t prefix_bits_ipv4 = 24;
  uint32_t prefix_bits_ipv6 = 64;
};

// [roce]
struct RoceConfig {
  // Largest path MTU to agree to, bytes. Also bound by the port's mtu.
  uint32_t path_mtu_max = 4096;
  // Local ACK timeout exponent: 4.096 us x 2^n. 14 = 67 ms, what Linux rdma_cm uses on healthy paths.
  uint32_t ack_timeout = 14;
  // Retries after ACK timeouts or sequence NAKs before the connection is given up.
  uint32_t retry_count = 7;
  // Retries after RNR NAKs; 7 = without end (IBA 9.7.5.2.8).
  uint32_t rnr_retry_count = 7;
  // Delay asked of a peer by an RNR NAK, timer code of IBA table 45. 12 = 0.64 ms.
  uint32_t rnr_timer = 12;
  // Packets in flight per connection. 128 packets of 4096 bytes cover 40 us of 100 Gbit/s.
  uint32_t send_window_packets = 128;
  // RDMA Reads in flight per connection; the peer's responder resources bound it further.
  uint32_t reads_in_flight_max = 16;
  // Seconds without a packet from a client after which an idle connection asks whether it is there; 0: never. A client that is
  // gone holds a connection, its receives and its backend connection until then.
  uint32_t keepalive_s = 30;
  // Towards clients that are Causeway too: keep what arrives behind a lost packet, and have only what is missing sent again.
  bool selective_recovery = true;
  // Send ECN-capable packets, notify clients whose packets come marked (CNP), and obey their notifications (DCQCN).
  bool congestion_control = true;
};

// [iwarp]
struct IwarpConfig {
  // CPU numbers of poll cores that serve iWARP and nothing else, each once and none of DataplaneConfig::poll_lcores, which then
  // serve the other wires. Empty: those serve iWARP, too.
  std::vector<uint32_t> poll_lcores;
  // Ask for a CRC on each FPDU; a client that asks has it anyway.
  bool crc = true;
  // RDMA Reads in flight per connection; the client's IRD bounds it further.
  uint32_t reads_in_flight_max = 16;
  // Longest FPDU that we send, bytes; TCP's segment size bounds it too.
  uint32_t fpdu_bytes_max = 65535;
  // Seconds for a client's MPA Request, and for its first FPDU where it has announced one.
  uint32_t handshake_timeout_s = 5;
  // Seconds without a segment from a client after which TCP asks whether it is there (TCP_KEEPIDLE); 0: never.
  uint32_t keepalive_s = 30;
  // Seconds without an acknowledgement after which a client is gone (TCP_USER_TIMEOUT).
  uint32_t user_timeout_s = 30;
};

// [metrics]
struct MetricsConfig {
  // Where /metrics is served, on a kernel interface (DPDK ports are not reachable from the host itself). Absent ("off"): not
  // served. Loopback, since nothing asks for a password unless web_config does.
  std::optional<SocketAddress> listen = SocketAddress{IpAddress::v4(0x7f00'0001), 9464};
  // The file that says by which certificate and to whom (telemetry/web_config.h). Empty: HTTP, without a password.
  std::string web_config;
  // The live page and its data are served there too, at "/". They name clients by their addresses.
  bool page = true;
  // Series of so many client addresses, the busiest. 0: none.
  uint32_t addresses_max = 0;
  // DPDK opens its telemetry socket beside its other runtime files. Whoever may write to the socket may ask anything of DPDK's
  // libraries too, hence off unless somebody collects there.
  bool dpdk_telemetry = false;
};

// [admin]
struct AdminConfig {
  // UNIX socket of causewayctl. Empty: /run/causeway/<instance>.sock. See admin_socket_path().
  std::string socket;
  // Group of the socket's file: its members may look. Empty: the group of the process.
  std::string group;
  // Users, and groups of users, that may change something, besides root and the gateway's own user.
  std::vector<std::string> admins;
  std::vector<std::string> admin_groups;
};

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarning, kError };
[[nodiscard]] const char* to_string(LogLevel level) noexcept;
[[nodiscard]] std::optional<LogLevel> log_level_of(std::string_view name);

enum class LogLineFormat : uint8_t { kAuto, kText, kJson, kJournal };

// [log]
struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogLineFormat format = LogLineFormat::kAuto;
};

struct Config {
  GatewayConfig gateway;
  DataplaneConfig dataplane;
  std::vector<PortConfig> ports;
  std::vector<ListenerConfig> listeners;
  std::vector<BackendConfig> backends;
  std::vector<RouteConfig> routes;
  std::vector<ClientConfig> clients;
  LimitsConfig limits;
  RoceConfig roce;
  IwarpConfig iwarp;
  MetricsConfig metrics;
  AdminConfig admin;
  LogConfig log;
};

inline constexpr uint32_t kPortsMax = 8;
inline constexpr uint32_t kPortAddressesMax = 8;
inline constexpr uint32_t kListenersMax = 16;
inline constexpr uint32_t kBackendsMax = 16;
inline constexpr uint32_t kBackupsMax = 7;
inline constexpr uint32_t kRoutesMax = 64;
inline constexpr uint32_t kClientClassesMax = 16;

// CPUs of all poll cores, by their index: those of [dataplane], which have the ports, then those of iWARP alone. None in a Config
// that was not checked: one is counted.
[[nodiscard]] std::vector<uint32_t> poll_cpus(const Config& config);
[[nodiscard]] uint32_t poll_core_count(const Config& config);
// Whether the poll core of this index takes clients of iWARP.
[[nodiscard]] bool serves_iwarp(const Config& config, uint32_t core);

// DPDK is for ports; a gateway without any runs in ordinary memory and threads.
[[nodiscard]] inline bool needs_dpdk(const Config& config) {
  return !config.ports.empty();
}
// Largest RoCE path MTU that fits an Ethernet MTU: 4096, 2048, 1024, 512 or 256, at most `path_mtu_max`. Room for the longest
// headers that a full packet carries: IPv6 40, UDP 8, BTH 12, RETH 16, ImmDt 4, iCRC 4.
[[nodiscard]] uint32_t path_mtu_for(uint32_t ethernet_mtu, uint32_t path_mtu_max);

// A backend's servers in order of preference; none of a built-in one.
[[nodiscard]] std::vector<SocketAddress> servers_of(const BackendConfig& backend);

// Largest MTU of all ports when one is an AF_XDP socket: a packet's buffer, with 256 bytes for the kernel and 320 of ours, is
// one page. RoCE packets of 2048 bytes fit (from 2132 on), those of 4096 never do.
inline constexpr uint32_t kAfXdpMtuMax = 3400;
[[nodiscard]] inline bool is_af_xdp(const std::string& device) {
  return device.starts_with("net_af_xdp");
}

// A device whose driver may leave the kernel its packets by rules of its own: a NIC, or net_tap in front of an interface
// (remote=). Whether it can is known when it is opened.
[[nodiscard]] bool may_isolate(const std::string& device);

// The configured socket, or the default of the instance.
[[nodiscard]] std::string admin_socket_path(const Config& config);
[[nodiscard]] std::string default_admin_socket(const std::string& instance);

// Connections that a listener may hold: its own cap, or the global one.
[[nodiscard]] uint32_t connections_max_of(const ListenerConfig& listener, const LimitsConfig& limits);

}  // namespace cw::control
