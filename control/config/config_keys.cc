#include "control/config/config_keys.h"

#include <array>

#include "rocev2/rc/rc_options.h"

namespace cw::control {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

constexpr std::array kIdleNames = {"sleep", "spin"};
constexpr std::array kTransportNames = {"roce", "iwarp", "verbs"};
constexpr std::array kBackendTypeNames = {"tcp", "builtin"};
constexpr std::array kSourceNames = {"gateway", "client"};
constexpr std::array kCheckNames = {"rpc", "tcp", "off"};
constexpr std::array kLogLevelNames = {"trace", "debug", "info", "warning", "error"};
constexpr std::array kLogFormatNames = {"auto", "text", "json", "journal"};
constexpr std::array kPathMtuNames = {"256", "512", "1024", "2048", "4096"};

const std::array<Key<GatewayConfig>, 2> kGatewayKeys = {{
    {.name = "instance",
     .member = &GatewayConfig::instance,
     .help = "Name of this gateway among several on one host: DPDK file prefix, admin socket, metrics.",
     .rule = TextRule::kName},
    {.name = "drain_on_stop_s",
     .member = &GatewayConfig::drain_on_stop_s,
     .help = "Seconds that the gateway, told to end (SIGTERM, systemctl stop), waits for calls under way to be answered. "
             "Then it disconnects who is left. 0: at once.",
     .bounds = {0, 600},
     .live = true},
}};

const std::array<Key<DataplaneConfig>, 8> kDataplaneKeys = {{
    {.name = "main_lcore",
     .member = &DataplaneConfig::main_lcore,
     .help = "CPU of the control thread. It may also be one of poll_lcores, on a machine with few cores.",
     .bounds = {0, 1023}},
    {.name = "poll_lcores",
     .member = &DataplaneConfig::poll_lcores,
     .help =
         "CPUs that poll the ports, one core each. Connections spread over them; limits of rates and memory are shared evenly.",
     .bounds = {0, 1023, 1, 64}},
    {.name = "worker_lcores",
     .member = &DataplaneConfig::worker_lcores,
     .help = "CPUs that the workers run on, for example those of the NIC's NUMA node. Not given: all that no poll core has. "
             "Where CPUs are few, a poll core's may be among them: whoever has nothing to do leaves it to the other.",
     .example = "[2, 3]",
     .bounds = {0, 1023, 1, 64}},
    {.name = "hugepages",
     .member = &DataplaneConfig::hugepages,
     .help = "Memory from hugepages. Physical NICs need them; TAP, AF_PACKET, memif and vhost do not."},
    {.name = "memory_mb",
     .member = &DataplaneConfig::memory_mb,
     .help = "Memory for packets and tables, MiB.",
     .bounds = {64, 1048576}},
    {.name = "idle",
     .member = Choice<DataplaneConfig>{kIdleNames, [](const DataplaneConfig& c) { return static_cast<uint32_t>(c.idle); },
                                       [](DataplaneConfig& c, uint32_t i) { c.idle = static_cast<IdleMode>(i); }},
     .help = "What a poll core does when nothing happens: sleep, or spin (lowest latency, a whole CPU always). "
             "Who sleeps does so for microseconds at first, and for up to 3 ms when nothing has happened for long."},
    {.name = "rx_buffers",
     .member = &DataplaneConfig::rx_buffers,
     .help = "Packet buffers. "
             "Each granted credit reserves as many as an inline message takes at the port's path MTU: "
             "connections x credits x packets must fit.",
     .bounds = {1024, 4194304}},
    {.name = "workers", .member = &DataplaneConfig::workers, .help = "Threads that talk to backends.", .bounds = {1, 64}},
}};

const std::array<Key<PortConfig>, 8> kPortKeys = {{
    {.name = "device",
     .member = &PortConfig::device,
     .help = "PCI address of a NIC, or a DPDK virtual device with its arguments.",
     .example = "\"net_tap0,iface=cw0\"",
     .required = true},
    {.name = "mtu",
     .member = &PortConfig::mtu,
     .help = "Ethernet MTU. 4200 or more lets RoCE use its largest path MTU, 4096.",
     .bounds = {1280, 9000}},
    {.name = "addresses",
     .member = &PortConfig::addresses,
     .help = "Own addresses with prefix length, IPv4 and IPv6. "
             "Required, but with beside_kernel: there the default is those that the interface has when the gateway starts.",
     .example = "[\"192.0.2.1/24\", \"2001:db8::1/64\"]",
     .bounds = {.count_max = kPortAddressesMax},
     .rule = TextRule::kHost,
     .shown = true},
    {.name = "beside_kernel",
     .member = &PortConfig::beside_kernel,
     .help = "The kernel keeps the interface and the addresses (ssh, rpcbind, mountd, ping), and only UDP 4791 to them is taken: "
             "by an XDP program (net_af_xdp; mtu up to 3400, RoCE packets of 2048 bytes), "
             "or by rules of the driver (rte_flow isolation; NICs that keep their kernel driver, such as mlx5, "
             "and net_tap with remote=)."},
    {.name = "exception_tap",
     .member = &PortConfig::exception_tap,
     .help = "For a device that DPDK has whole: the TAP interface by which the kernel has the addresses. "
             "All frames but RoCE packets to them go there and come from there. Give it the addresses (ip address add); "
             "made when it is not there.",
     .example = "\"cw0\"",
     .rule = TextRule::kName},
    {.name = "vlan", .member = &PortConfig::vlan, .help = "VLAN id; 0 = untagged.", .bounds = {0, 4094}},
    {.name = "gateway4",
     .member = &PortConfig::gateway4,
     .help = "IPv4 next hop for clients outside the port's networks.",
     .example = "\"192.0.2.254\""},
    {.name = "gateway6", .member = &PortConfig::gateway6, .help = "IPv6 next hop.", .example = "\"2001:db8::fe\""},
}};

const std::array<Key<ListenerConfig>, 14> kListenerKeys = {{
    {.name = "name",
     .member = &ListenerConfig::name,
     .help =
         "Name for routes and in causewayctl. Without it, the backend's name. A listener of another name is another listener.",
     .example = "\"nfs\"",
     .rule = TextRule::kName,
     .live = true},
    {.name = "transport",
     .member = Choice<ListenerConfig>{kTransportNames, [](const ListenerConfig& c) { return static_cast<uint32_t>(c.transport); },
                                      [](ListenerConfig& c, uint32_t i) { c.transport = static_cast<TransportKind>(i); }},
     .help = "The wire: roce, RoCEv2 on the [[port]]s; iwarp, RDMA over the kernel's TCP, on whatever addresses the host has; "
             "or verbs, an RDMA device of the host (RNIC, rxe, siw) through rdma-core."},
    {.name = "address",
     .member = &ListenerConfig::address,
     .help = "iwarp and verbs: the own address that is listened on. Not given: all that the host has.",
     .example = "\"192.0.2.1\""},
    {.name = "device",
     .member = &ListenerConfig::device,
     .help = "verbs: the RDMA device that clients come by (rdma link). Not given: whatever device has the address.",
     .example = "\"rxe0\"",
     .rule = TextRule::kName},
    {.name = "port",
     .member = &ListenerConfig::port,
     .help = "Port that clients connect to (mount option port=). With iwarp a TCP port; with roce the packets are UDP 4791.",
     .bounds = {1, 65535}},
    {.name = "backend",
     .member = &ListenerConfig::backend,
     .help =
         "Which [[backend]] answers. It is connected before a client is accepted, so that one whose backend is down is refused. "
         "May be left out when there are [[route]]s: calls of other programs are then answered with PROG_UNAVAIL.",
     .example = "\"nfs\"",
     .rule = TextRule::kName,
     .shown = true,
     .live = true},
    {.name = "credits",
     .member = &ListenerConfig::credits,
     .help = "Calls in flight per connection. Buffers are reserved for all of them; "
             "a client whose path MTU is smaller than the port's gets as many as these buffers do for.",
     .bounds = {1, 1024},
     .live = true},
    {.name = "reverse_credits",
     .member = &ListenerConfig::reverse_credits,
     .help = "Calls from the backend to one client in flight, NFSv4.1 callbacks for example; 0 = none are passed on.",
     .bounds = {0, 256},
     .live = true},
    {.name = "inline_bytes",
     .member = &ListenerConfig::inline_bytes,
     .help = "Largest message without RDMA Reads or Writes (RFC 8797 inline threshold).",
     .bounds = {1024, 65536, 1024},
     .live = true},
    {.name = "remote_invalidate",
     .member = &ListenerConfig::remote_invalidate,
     .help = "Invalidate a client's memory handle with the reply when the client supports it: saves it work.",
     .live = true},
    {.name = "allow",
     .member = &ListenerConfig::allow,
     .help = "Clients that may connect, as addresses or prefixes; empty = everyone. "
             "A backend without source = \"client\" sees the gateway's address, not the client's: "
             "restrict here what its export list would.",
     .example = "[\"192.0.2.0/24\"]",
     .bounds = {.count_max = 256},
     .live = true},
    {.name = "connections_max",
     .member = &ListenerConfig::connections_max,
     .help = "Connections of this listener; 0 = as limits.connections_max.",
     .bounds = {0, 131072},
     .live = true},
    {.name = "calls_per_second",
     .member = &ListenerConfig::calls_per_second,
     .help = "Calls that all its clients together may make per second, on all poll cores. "
             "A call beyond waits for its turn, without its data being read, and keeps its credit. "
             "[[client]] sections get shares by their weight, and connections of one section take turns. 0 = no limit.",
     .bounds = {0, 1'000'000'000},
     .live = true},
    {.name = "bytes_per_second",
     .member = &ListenerConfig::bytes_per_second,
     .help = "The same for the bytes of their calls and of the replies to them, chunks included. 0 = no limit.",
     .bounds = {0, 1ULL << 40},
     .live = true},
}};

const std::array<Key<BackendConfig>, 13> kBackendKeys = {{
    {.name = "name",
     .member = &BackendConfig::name,
     .help = "Name for listeners and metrics. A backend of another name is another backend.",
     .example = "\"nfs\"",
     .rule = TextRule::kName,
     .required = true,
     .live = true},
    {.name = "type",
     .member = Choice<BackendConfig>{kBackendTypeNames, [](const BackendConfig& c) { return static_cast<uint32_t>(c.type); },
                                     [](BackendConfig& c, uint32_t i) { c.type = static_cast<BackendType>(i); }},
     .help = "tcp: an RPC server reached over TCP. builtin: programs inside the gateway."},
    {.name = "address",
     .member = &BackendConfig::address,
     .help = "tcp: IP address and port of the server. Names are not resolved.",
     .example = "\"127.0.0.1:2049\"",
     .shown = true,
     .live = true},
    {.name = "backups",
     .member = &BackendConfig::backups,
     .help = "tcp: servers that stand in while address is down, in order of preference. "
             "New connections go to the first server that is up, and to address again when it is back; "
             "connections that are there stay where they are until their server closes them, and their clients then come again. "
             "All servers must serve the same: file handles, and for NFSv4 the state (opens, locks, delegations, sessions), "
             "are a server's own. "
             "After a move clients get NFS4ERR_BADSESSION or NFS4ERR_STALE_CLIENTID and reclaim, "
             "which works only with servers that share or fail over their state (a cluster with a grace period); "
             "with others, locks and open files are lost. NFSv3 needs the same file handles.",
     .example = "[\"127.0.0.2:2049\"]",
     .bounds = {.count_max = kBackupsMax},
     .live = true},
    {.name = "source",
     .member = Choice<BackendConfig>{kSourceNames, [](const BackendConfig& c) { return static_cast<uint32_t>(c.source); },
                                     [](BackendConfig& c, uint32_t i) { c.source = static_cast<SourceKind>(i); }},
     .help = "tcp: whose address the server sees. gateway: this host's. "
             "client: the client's own, for export lists and logs by client. "
             "It takes CAP_NET_RAW, and routes that bring the server's answers back to this host: deploy/README.md. "
             "Either way a client's n-th connection always comes from the same port, "
             "so that servers recognize calls that it repeats."},
    {.name = "check",
     .member = Choice<BackendConfig>{kCheckNames, [](const BackendConfig& c) { return static_cast<uint32_t>(c.check); },
                                     [](BackendConfig& c, uint32_t i) { c.check = static_cast<CheckKind>(i); }},
     .help = "tcp: how servers are checked. "
             "rpc: a NULL call (NFS version 4) on a connection of its own is answered, with an error too. "
             "tcp: a connection is taken. off: servers are never down, and backups never used.",
     .live = true},
    {.name = "check_interval_ms",
     .member = &BackendConfig::check_interval_ms,
     .help = "From one check of a server to the next, ms.",
     .bounds = {100, 600000},
     .live = true},
    {.name = "check_timeout_ms",
     .member = &BackendConfig::check_timeout_ms,
     .help = "A check that takes longer has failed, ms.",
     .bounds = {100, 60000},
     .live = true},
    {.name = "check_fall",
     .member = &BackendConfig::check_fall,
     .help = "Checks in a row that fail until a server is down. The first check after the start decides alone.",
     .bounds = {1, 100},
     .live = true},
    {.name = "check_rise",
     .member = &BackendConfig::check_rise,
     .help = "Checks in a row that succeed until a server is up again.",
     .bounds = {1, 100},
     .live = true},
    {.name = "programs",
     .member = &BackendConfig::programs,
     .help = "builtin: which programs.",
     .example = "[\"bench\"]",
     .bounds = {.count_max = 8},
     .rule = TextRule::kName},
    {.name = "connect_timeout_ms",
     .member = &BackendConfig::connect_timeout_ms,
     .help = "How long a new connection waits for its backend connection before it ends, ms.",
     .bounds = {100, 60000},
     .live = true},
    {.name = "call_timeout_s",
     .member = &BackendConfig::call_timeout_s,
     .help = "A backend that is silent for so long with calls waiting costs its connection, s.",
     .bounds = {1, 3600},
     .live = true},
}};

const std::array<Key<RouteConfig>, 3> kRouteKeys = {{
    {.name = "listener",
     .member = &RouteConfig::listener,
     .help = "Name of the [[listener]].",
     .example = "\"nfs\"",
     .rule = TextRule::kName,
     .required = true,
     .live = true},
    {.name = "program",
     .member = &RouteConfig::program,
     .help = "RPC program number: NFS 100003, MOUNT 100005, NLM 100021, NFSACL 100227, bench 536922878.",
     .example = "100227",
     .bounds = {1, UINT32_MAX},
     .required = true,
     .live = true},
    {.name = "backend",
     .member = &RouteConfig::backend,
     .help = "Which [[backend]] answers these calls. A client's connection to it is made when the first call wants it. "
             "When that cannot be, those calls are answered with SYSTEM_ERR and the next one tries again; "
             "the connection and its other programs go on.",
     .example = "\"nfs\"",
     .rule = TextRule::kName,
     .required = true,
     .live = true},
}};

const std::array<Key<ClientConfig>, 9> kClientKeys = {{
    {.name = "name",
     .member = &ClientConfig::name,
     .help = "Name in metrics. A section of another name is another section.",
     .example = "\"cluster\"",
     .rule = TextRule::kName,
     .required = true,
     .live = true},
    {.name = "prefixes",
     .member = &ClientConfig::prefixes,
     .help = "Who they are: addresses or prefixes. The longest prefix that an address is in decides; "
             "\"0.0.0.0/0\" and \"::/0\" are everyone else.",
     .example = "[\"192.0.2.0/24\"]",
     .bounds = {.count_max = 64},
     .required = true,
     .live = true},
    {.name = "allow",
     .member = &ClientConfig::allow,
     .help = "false: they may not connect, whatever the listeners' allow lists say. Both must agree.",
     .live = true},
    {.name = "connections_max",
     .member = &ClientConfig::connections_max,
     .help = "Connections of all of them together; more are refused. 0 = as the listener and [limits] say.",
     .bounds = {0, 16384},
     .live = true},
    {.name = "credits",
     .member = &ClientConfig::credits,
     .help = "Calls in flight of each of their connections, if fewer than the listener's; 0 = as the listener says.",
     .bounds = {0, 1024},
     .live = true},
    {.name = "bytes_in_flight_max",
     .member = &ClientConfig::bytes_in_flight_max,
     .help = "Bytes that the chunks of all their calls may hold together: data that is read from them, "
             "and the room that they offer for results. "
             "A call beyond waits, without its data being read, and keeps its credit, until others are answered; "
             "one is always served. Poll cores share it evenly. 0 = no limit.",
     .bounds = {0, 1ULL << 40},
     .live = true},
    {.name = "calls_per_second",
     .member = &ClientConfig::calls_per_second,
     .help = "Calls that all of them together may make per second, on all poll cores. "
             "A call beyond waits for its turn, without its data being read, and keeps its credit. 0 = no limit.",
     .bounds = {0, 1'000'000'000},
     .live = true},
    {.name = "bytes_per_second",
     .member = &ClientConfig::bytes_per_second,
     .help = "The same for the bytes of their calls and of the replies to them, chunks included. "
             "A call counts as long as the room that it offers until its reply is there. 0 = no limit.",
     .bounds = {0, 1ULL << 40},
     .live = true},
    {.name = "weight",
     .member = &ClientConfig::weight,
     .help = "How much of a listener's calls_per_second and bytes_per_second they get while other sections wait for these, too: "
             "a section of weight 2 gets twice what one of weight 1 does. What one does not ask for is the others'. "
             "Clients without a section are one of weight 1.",
     .bounds = {1, 100},
     .live = true},
}};

const std::array<Key<LimitsConfig>, 15> kLimitsKeys = {{
    {.name = "read_segments_max",
     .member = &LimitsConfig::read_segments_max,
     .help = "Segments in a Read list.",
     .bounds = {1, rpcrdma::kReadSegmentsMax},
     .live = true},
    {.name = "write_chunks_max",
     .member = &LimitsConfig::write_chunks_max,
     .help = "Chunks in a Write list.",
     .bounds = {1, rpcrdma::kWriteChunksMax},
     .live = true},
    {.name = "plain_segments_max",
     .member = &LimitsConfig::plain_segments_max,
     .help = "Segments of Write list and Reply chunk together.",
     .bounds = {1, rpcrdma::kPlainSegmentsMax},
     .live = true},
    {.name = "call_bytes_max",
     .member = &LimitsConfig::call_bytes_max,
     .help = "Longest call, bytes, RDMA Reads included.",
     .bounds = {64 * kKiB, 64 * kMiB},
     .live = true},
    {.name = "reply_bytes_max",
     .member = &LimitsConfig::reply_bytes_max,
     .help = "Longest reply taken from a backend, bytes. memory_mb has to hold one. "
             "A reply that stands still for 10 s, or takes longer than 60 s to come, costs the backend connection.",
     .bounds = {64 * kKiB, 64 * kMiB}},
    {.name = "read_timeout_s",
     .member = &LimitsConfig::read_timeout_s,
     .help = "A client that answers none of its RDMA Reads for so long loses its connection, s. "
             "So does one that is slower than 1 MiB/s: it has the time that its data takes at that rate, "
             "and twice this timeout on top. "
             "What is being read from it is taken from what all clients share: "
             "clients whose calls take longer than 750 ms to read may hold a quarter of that together, "
             "and lose connections while others wait and they hold more.",
     .bounds = {1, 3600},
     .live = true},
    {.name = "reply_timeout_s",
     .member = &LimitsConfig::reply_timeout_s,
     .help = "A client that does not acknowledge a reply for so long loses its connection, after at most twice the time, s. "
             "Replies that it does not take keep buffers that all clients share.",
     .bounds = {1, 3600},
     .live = true},
    {.name = "calls_in_flight_max",
     .member = &LimitsConfig::calls_in_flight_max,
     .help = "Calls not yet answered, all connections together. "
             "Of several backends one has at most four times as many as are left: "
             "one that does not answer leaves a fifth to the others. "
             "A client that is alone leaves a sixteenth, so that the next one finds some at once.",
     .bounds = {1, 1048576}},
    {.name = "connections_max",
     .member = &LimitsConfig::connections_max,
     .help = "Connections, all listeners together.",
     .bounds = {1, 131072}},
    {.name = "half_open_max",
     .member = &LimitsConfig::half_open_max,
     .help = "Connection requests not yet established, of each kind of transport; "
             "of iWARP, TCP connections until the client is ready. "
             "Beyond it the oldest of the network that holds the most makes room.",
     .bounds = {1, 4096}},
    {.name = "cm_requests_per_second",
     .member = &LimitsConfig::cm_requests_per_second,
     .help = "Connection requests looked at per second; more are dropped, and honest clients repeat theirs. "
             "iWARP counts TCP connections, and resets those beyond. "
             "An address that has had a connection may ask twice a second beyond it; all such together, a twentieth of it.",
     .bounds = {1, 1000000}},
    {.name = "half_open_max_per_prefix",
     .member = &LimitsConfig::half_open_max_per_prefix,
     .help = "The same as half_open_max, for the clients of one network together.",
     .bounds = {1, 4096}},
    {.name = "cm_requests_per_second_per_prefix",
     .member = &LimitsConfig::cm_requests_per_second_per_prefix,
     .help = "The same as cm_requests_per_second, for the clients of one network together.",
     .bounds = {1, 1000000}},
    {.name = "prefix_bits_ipv4",
     .member = &LimitsConfig::prefix_bits_ipv4,
     .help = "Bits of an IPv4 address that name the client's network; 32 = each address for itself.",
     .bounds = {0, 32}},
    {.name = "prefix_bits_ipv6",
     .member = &LimitsConfig::prefix_bits_ipv6,
     .help = "Bits of an IPv6 address that name the client's network. A client can have any address of its /64.",
     .bounds = {0, 128}},
}};

constexpr uint32_t path_mtu_index(uint32_t bytes) {
  uint32_t index = 0;
  while ((256u << index) < bytes) {
    ++index;
  }
  return index;
}

const std::array<Key<RoceConfig>, 10> kRoceKeys = {{
    {.name = "path_mtu_max",
     .member = Choice<RoceConfig>{kPathMtuNames, [](const RoceConfig& c) { return path_mtu_index(c.path_mtu_max); },
                                  [](RoceConfig& c, uint32_t i) { c.path_mtu_max = 256u << i; }},
     .help = "Largest RoCE path MTU to agree to, bytes; the port's mtu bounds it too."},
    {.name = "ack_timeout",
     .member = &RoceConfig::ack_timeout,
     .help = "ACK timeout as an exponent: 4.096 us x 2^n. 14 = 67 ms.",
     .bounds = {rc::kAckTimeoutMin, rc::kAckTimeoutMax},
     .live = true},
    {.name = "retry_count",
     .member = &RoceConfig::retry_count,
     .help = "Repetitions without an answer before a connection is given up.",
     .bounds = {0, 7},
     .live = true},
    {.name = "rnr_retry_count",
     .member = &RoceConfig::rnr_retry_count,
     .help = "Repetitions when the client has no receive buffer posted; 7 = without end, until limits.reply_timeout_s.",
     .bounds = {0, 7},
     .live = true},
    {.name = "rnr_timer",
     .member = &RoceConfig::rnr_timer,
     .help =
         "Delay that a client is asked for when we have no receive buffer: timer code of the InfiniBand standard. 12 = 0.64 ms. "
         "Those of transport = \"verbs\" too.",
     .bounds = {1, 31},
     .live = true},
    {.name = "send_window_packets",
     .member = &RoceConfig::send_window_packets,
     .help = "Packets in flight per connection.",
     .bounds = {1, 4096},
     .live = true},
    {.name = "reads_in_flight_max",
     .member = &RoceConfig::reads_in_flight_max,
     .help = "RDMA Reads in flight per connection.",
     .bounds = {1, rc::kReadsMax},
     .live = true},
    {.name = "keepalive_s",
     .member = &RoceConfig::keepalive_s,
     .help = "Seconds without a packet from a client after which an idle connection asks whether it is there, "
             "and ends when it does not answer. 0: never. Those of transport = \"verbs\" too.",
     .bounds = {0, 86400},
     .live = true},
    {.name = "selective_recovery",
     .member = &RoceConfig::selective_recovery,
     .help = "Keep packets that arrive behind a gap. Clients that are Causeway too then send only lost packets again; "
             "others are told of a gap only when the missing packet does not come within a reordering window.",
     .live = true},
    {.name = "congestion_control",
     .member = &RoceConfig::congestion_control,
     .help = "Mark packets as ECN-capable, answer congestion marks with CNPs, and slow down when clients send CNPs (DCQCN).",
     .live = true},
}};

const std::array<Key<IwarpConfig>, 7> kIwarpKeys = {{
    {.name = "poll_lcores",
     .member = &IwarpConfig::poll_lcores,
     .help = "CPUs of poll cores that serve iWARP and nothing else; those of [dataplane] then leave it to them. "
             "Limits of rates and memory are shared evenly among all. Not given: the poll cores of [dataplane] serve iWARP, too.",
     .example = "[2, 3]",
     .bounds = {0, 1023, 1, 64}},
    {.name = "crc",
     .member = &IwarpConfig::crc,
     .help = "Ask for a CRC on each FPDU. TCP's own checksum is weak; a client that asks for CRCs has them anyway.",
     .live = true},
    {.name = "reads_in_flight_max",
     .member = &IwarpConfig::reads_in_flight_max,
     .help = "RDMA Reads in flight per connection; the client's IRD bounds it too.",
     .bounds = {1, 128},
     .live = true},
    {.name = "fpdu_bytes_max",
     .member = &IwarpConfig::fpdu_bytes_max,
     .help = "Longest FPDU that is sent, bytes; TCP's segment size bounds it too.",
     .bounds = {1024, 65535},
     .live = true},
    {.name = "handshake_timeout_s",
     .member = &IwarpConfig::handshake_timeout_s,
     .help = "Seconds that a client has for its MPA Request, and then to say that it is ready.",
     .bounds = {1, 60},
     .live = true},
    {.name = "keepalive_s",
     .member = &IwarpConfig::keepalive_s,
     .help = "Seconds without a word from a client after which TCP asks whether it is there. 0: never.",
     .bounds = {0, 32767},
     .live = true},
    {.name = "user_timeout_s",
     .member = &IwarpConfig::user_timeout_s,
     .help = "Seconds without an acknowledgement after which TCP gives a client up.",
     .bounds = {1, 3600},
     .live = true},
}};

const std::array<Key<MetricsConfig>, 5> kMetricsKeys = {{
    {.name = "listen",
     .member = &MetricsConfig::listen,
     .help = "Address and TCP port of /metrics, or \"off\". "
             "On a kernel interface: DPDK ports are not reachable from the host itself. "
             "On a loopback address only requests for a loopback name (Host: localhost, 127.0.0.1, [::1]) are answered; "
             "on another one, whoever reaches it reads it, unless web_config asks for a password.",
     .rule = TextRule::kSocket},
    {.name = "web_config",
     .member = &MetricsConfig::web_config,
     .help = "Web configuration file as Prometheus' exporters have it: TLS (tls_server_config) and passwords (basic_auth_users). "
             "The gateway's user has to read it and the files that it names; when they change they are read again. "
             "Without it, plain HTTP for everybody who reaches the address.",
     .example = "\"/etc/causeway/web-config.yml\"",
     .rule = TextRule::kPath},
    {.name = "page",
     .member = &MetricsConfig::page,
     .help = "Serve the live page there too, at http://ADDRESS:PORT/. "
             "Nothing can be changed by it, but it names clients and shows the last log lines to whoever reaches the address.",
     .live = true},
    {.name = "addresses_max",
     .member = &MetricsConfig::addresses_max,
     .help = "How many client addresses have series of their own (causeway_address_..., six each). "
             "First come those that are connected, then those with the most calls. "
             "0: none; causewayctl top and the live page name clients all the same.",
     .bounds = {0, 1000}},
    {.name = "dpdk_telemetry",
     .member = &MetricsConfig::dpdk_telemetry,
     .help = "Answer /causeway/... at DPDK's telemetry socket too, dpdk_telemetry.v2 among DPDK's runtime files, "
             "for telegraf's dpdk plugin or dpdk-telemetry.py."},
}};

const std::array<Key<AdminConfig>, 4> kAdminKeys = {{
    {.name = "socket",
     .member = &AdminConfig::socket,
     .help = "UNIX socket of causewayctl. Without it, /run/causeway/<instance>.sock.",
     .example = "\"/run/causeway/default.sock\"",
     .rule = TextRule::kPath},
    {.name = "group",
     .member = &AdminConfig::group,
     .help = "Group whose members may open the socket and look. Without it, the group of the process.",
     .example = "\"causeway\""},
    {.name = "admins",
     .member = &AdminConfig::admins,
     .help = "Users who may change something (drain, reload, log level, capture), besides root and the gateway's own user. "
             "They must be able to open the socket.",
     .example = "[\"alice\"]",
     .bounds = {.count_max = 32}},
    {.name = "admin_groups",
     .member = &AdminConfig::admin_groups,
     .help = "The same for the members of these groups.",
     .example = "[\"storage-admins\"]",
     .bounds = {.count_max = 32}},
}};

const std::array<Key<LogConfig>, 2> kLogKeys = {{
    {.name = "level",
     .member = Choice<LogConfig>{kLogLevelNames, [](const LogConfig& c) { return static_cast<uint32_t>(c.level); },
                                 [](LogConfig& c, uint32_t i) { c.level = static_cast<LogLevel>(i); }},
     .help = "The least important lines that are written to stderr.",
     .live = true},
    {.name = "format",
     .member = Choice<LogConfig>{kLogFormatNames, [](const LogConfig& c) { return static_cast<uint32_t>(c.format); },
                                 [](LogConfig& c, uint32_t i) { c.format = static_cast<LogLineFormat>(i); }},
     .help = "How lines are written: text, for people; json, one object a line, with the line's fields; "
             "journal, with a priority that journald reads, and with the fields too where stderr goes to journald. "
             "auto: journal when stderr goes to journald, else text.",
     .live = true},
}};

}  // namespace

const Section<GatewayConfig>& gateway_section() {
  static const Section<GatewayConfig> kSection{
      {.name = "gateway", .help = "The process.", .waits = "files and sockets are named by it"}, kGatewayKeys};
  return kSection;
}
const Section<DataplaneConfig>& dataplane_section() {
  static const Section<DataplaneConfig> kSection{
      {.name = "dataplane", .help = "Cores and memory.", .waits = "threads and memory are set up at the start"}, kDataplaneKeys};
  return kSection;
}
const Section<PortConfig>& port_section() {
  static const Section<PortConfig> kSection{{.name = "port",
                                             .help = "A network port that DPDK drives. At least one.",
                                             .count_max = kPortsMax,
                                             .waits = "devices are opened at the start"},
                                            kPortKeys};
  return kSection;
}
const Section<ListenerConfig>& listener_section() {
  static const Section<ListenerConfig> kSection{
      {.name = "listener",
       .help = "What clients connect to. At least one. A reload adds, changes and removes them; "
               "one that is removed refuses new connections, and those that it has go on.",
       .count_max = kListenersMax,
       .live = true,
       .waits = "connections and metrics know it by its name and port; under another name a reload applies it"},
      kListenerKeys};
  return kSection;
}
const Section<BackendConfig>& backend_section() {
  static const Section<BackendConfig> kSection{
      {.name = "backend",
       .help = "What answers the calls. At least one. A reload adds, changes and removes them; "
               "connections that lead to one that is removed go on until they end.",
       .count_max = kBackendsMax,
       .live = true,
       .waits = "connections and metrics know it as what it is; under another name a reload applies it"},
      kBackendKeys};
  return kSection;
}
const Section<RouteConfig>& route_section() {
  static const Section<RouteConfig> kSection{
      {.name = "route",
       .help = "Sends a listener's calls of one RPC program to a backend of their own. A reload adds, changes and removes them.",
       .count_max = kRoutesMax,
       .optional = true,
       .live = true},
      kRouteKeys};
  return kSection;
}
const Section<ClientConfig>& client_section() {
  static const Section<ClientConfig> kSection{
      {.name = "client",
       .help = "Clients that share a budget. A reload adds, changes and removes sections; "
               "connections count, until they end, in the one that they began in.",
       .count_max = kClientClassesMax,
       .optional = true,
       .live = true},
      kClientKeys};
  return kSection;
}
const Section<LimitsConfig>& limits_section() {
  static const Section<LimitsConfig> kSection{{.name = "limits",
                                               .help = "Caps on everything that a client can ask for.",
                                               .waits = "tables of this size are made at the start"},
                                              kLimitsKeys};
  return kSection;
}
const Section<RoceConfig>& roce_section() {
  static const Section<RoceConfig> kSection{
      {.name = "roce", .help = "The RDMA transport.", .waits = "buffers and connection management are set up with it"},
      kRoceKeys};
  return kSection;
}
const Section<IwarpConfig>& iwarp_section() {
  static const Section<IwarpConfig> kSection{
      {.name = "iwarp", .help = "RDMA over TCP, of new connections.", .waits = "sockets are opened at the start"}, kIwarpKeys};
  return kSection;
}
const Section<MetricsConfig>& metrics_section() {
  static const Section<MetricsConfig> kSection{
      {.name = "metrics", .help = "Prometheus, and the live page.", .waits = "sockets are opened at the start"}, kMetricsKeys};
  return kSection;
}
const Section<AdminConfig>& admin_section() {
  static const Section<AdminConfig> kSection{
      {.name = "admin", .help = "causewayctl.", .waits = "the socket is opened at the start"}, kAdminKeys};
  return kSection;
}
const Section<LogConfig>& log_section() {
  static const Section<LogConfig> kSection{{"log", "Log lines."}, kLogKeys};
  return kSection;
}

}  // namespace cw::control
