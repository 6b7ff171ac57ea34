// What the admin socket can ask of a running gateway. The dataplane implements it; tests have a fake.
//
// Called on the admin thread, one call at a time; status(), policy() and connections() on the live page's thread too, and
// status(), stats() and transport_events() on the recorder's, at the same time. An implementation may ask the poll cores and wait
// for them, for at most 200 ms, and answers with what it has after that. Strings are for people and for JSON alike: addresses as
// text, names from the config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "verbs/queue_pair_info.h"

namespace cw::control {

struct PortStatus {
  std::string device;
  std::string mac;
  std::vector<std::string> addresses;  // with prefix length
  uint32_t mtu = 0;
  uint32_t path_mtu = 0;  // largest that fits
  bool link_up = false;
  uint32_t link_mbps = 0;  // 0 = unknown
  std::string driver;      // DPDK's name
  uint32_t queues = 0;     // receive and transmit queues
  std::string steering;    // how packets reach their core: "flow", "rss", "software", or "none" where there is one core
};

// A port of an RDMA device that a verbs listener uses.
struct RdmaPortStatus {
  std::string device;
  std::optional<uint32_t> port;  // absent: the device is not there
  std::string state;             // the kernel's word: "ACTIVE", "DOWN" ...; "absent"
  bool active = false;
};

// Of clients' calls, in all poll cores together; absent: as many as come.
struct RateStatus {
  std::optional<uint64_t> calls_per_second;
  std::optional<uint64_t> bytes_per_second;
};

// What clients asked for and got, ever since.
struct UseStatus {
  uint64_t calls = 0;
  uint64_t replies = 0;
  uint64_t errors = 0;  // replies that refuse the call, and calls that were lost with their connection
  uint64_t call_bytes = 0;
  uint64_t reply_bytes = 0;
};

struct ListenerStatus {
  std::string name;
  uint32_t port = 0;
  std::string transport;            // "roce", "iwarp" or "verbs"; empty: removed
  std::string device;               // of verbs, the RDMA device; empty: whatever device a client comes by
  std::string cut_off;              // why no client can reach it; empty: as far as is known they can
  std::string backend;              // empty: by route only, or removed
  std::optional<uint32_t> credits;  // this and the other limits: absent when removed
  std::optional<uint32_t> inline_bytes;
  uint32_t connections = 0;
  std::optional<uint32_t> connections_max;
  RateStatus rates_max;
  uint64_t calls_postponed = 0;  // until these rates allowed them, or what their [[client]] section may have
  UseStatus use;
  bool removed = false;  // a reload has taken it away: nobody can connect, and it is listed until its last connection has ended
};

struct BackendStatus {
  std::string name;
  std::string type;        // "tcp" or "builtin"
  std::string address;     // empty for builtin
  std::optional<bool> up;  // a server of it is up, or unchecked: the last attempt to reach it succeeded; absent: not known yet
  uint64_t calls_in_flight = 0;
  uint64_t reconnects = 0;
  uint64_t call_timeouts = 0;
};

// One server of a TCP backend.
struct ServerStatus {
  std::string backend;
  std::string address;
  std::string role;        // "primary" or "backup"
  std::optional<bool> up;  // absent: its checks are off, or none has ended yet
  bool checked = false;    // its checks are on
  bool preferred = false;  // where a new connection to the backend goes
  uint64_t connections = 0;
  uint64_t calls_in_flight = 0;
  uint64_t checks = 0;
  uint64_t check_failures = 0;
  std::optional<Duration> check_age;  // since the last one ended
  Duration check_duration;            // of the last one
  std::string check_error;            // of the last one; empty: it succeeded
};

// Which backend takes the calls of a program that come in by a listener.
struct RouteStatus {
  std::string listener;
  std::optional<uint32_t> program;  // absent: all that have no route of their own
  std::string backend;              // empty: calls are answered with PROG_UNAVAIL
  uint64_t calls = 0;
};

// A [[client]] section: its budget, and what is used of it.
struct ClientStatus {
  std::string name;
  std::vector<std::string> prefixes;
  bool allow = true;
  uint64_t connections = 0;
  std::optional<uint64_t> connections_max;  // of all its clients together; absent: as listeners and limits say
  std::optional<uint32_t> credits_max;      // of each connection; absent: as the listener says
  uint64_t credits_granted = 0;             // to all of them together
  uint64_t credits_in_use = 0;              // of these: calls that are not answered yet
  uint64_t bytes_in_flight = 0;             // of chunks
  std::optional<uint64_t> bytes_in_flight_max;
  RateStatus rates_max;
  uint32_t weight = 1;           // beside other sections, where a listener's rate does not do for all
  uint64_t calls_postponed = 0;  // until others of the section were over, or the rates allowed them
  uint64_t refused_denied = 0;   // connection requests, because of `allow`
  uint64_t refused_limit = 0;    // the same, because of connections_max
  UseStatus use;
};

// What the configuration sends where, whom it grants how much, and how that goes.
struct PolicyStatus {
  std::vector<ServerStatus> servers;  // of the backends, in order of preference
  std::vector<RouteStatus> routes;    // by listener; the program that is absent last
  std::vector<ClientStatus> clients;  // in order of the configuration
};

struct GatewayStatus {
  std::string version;
  std::string instance;
  Duration uptime;
  bool ready = false;                 // as /readyz: telemetry/health.h
  std::string reason;                 // why it is not ready; empty: it is
  std::vector<std::string> warnings;  // what to correct though clients are served
  bool draining = false;              // refuses new connections
  uint32_t connections = 0;
  std::vector<PortStatus> ports;
  std::vector<RdmaPortStatus> rdma_ports;
  std::vector<ListenerStatus> listeners;
  std::vector<BackendStatus> backends;
  PolicyStatus policy;
};

struct ConnectionStatus {
  uint64_t id = 0;
  std::string listener;
  std::string peer_address;
  uint32_t peer_port = 0;  // RoCE: the client's chosen port, of the RDMA IP CM header; iWARP: its TCP port
  std::string section;     // name of the [[client]] section whose budget it counts in; empty = none
  std::string state;       // of the connection manager: "established", "rep_sent" ...
  uint32_t lcore = 0;
  uint32_t inline_send_bytes = 0;
  uint32_t inline_receive_bytes = 0;
  bool remote_invalidate = false;
  uint32_t credits_granted = 0;
  uint32_t calls_in_flight = 0;
  uint32_t reverse_credits_granted = 0;  // by the client, for calls of the backend to it; 0 = it takes none
  uint32_t reverse_calls_in_flight = 0;
  uint64_t rpcs = 0;
  Duration age;
  verbs::QueuePairInfo qp;
};

// Transport state of one queue pair: what every transport has, and what its own describes of itself.
struct QueuePairStatus {
  uint64_t connection = 0;  // ConnectionStatus::id
  std::string listener;
  std::string peer_address;
  uint32_t lcore = 0;
  verbs::QueuePairInfo info;  // shown by its fields()
};

// Something out of the ordinary that happened on a wire (verbs/transport_event.h).
struct TransportEventStatus {
  Duration ago;        // the last of them
  Duration first_ago;  // the first
  uint32_t lcore = 0;
  uint32_t local_qpn = 0;  // 0: its wire has no numbers
  std::string peer;        // address and port, where queue pairs have no numbers; else empty
  std::string event;       // "ack_timeout", "nak_received", "terminate_sent" ...
  std::string reason;      // in words; empty = the event says it all
  uint32_t sequence = 0;   // PSN or MSN of the last of them
  uint32_t count = 0;
};

// A NULL call to a backend over the way of clients' calls.
struct PingStatus {
  bool done = false;
  bool alive = false;   // something that speaks RPC answered
  std::string outcome;  // "success", "program unavailable", "not reached" ...
  Duration connect;     // to the worker, a connection made, and back
  Duration call;        // to the worker, the backend's answer, and back
};

// Calls of one procedure, answered.
struct ProcedureStatus {
  std::string program;    // "nfs3", "nfs4" ...
  std::string procedure;  // of NFSv4: the operation that a COMPOUND was about
  uint64_t calls = 0;
  Duration spent;  // by all of them together, from the call's SEND to the reply's
};

// What one client address does. Known are those that are connected, and those that left last.
struct ActivityStatus {
  std::string client;   // address
  std::string section;  // name of the [[client]] section whose budget it counts in; empty = none
  uint32_t connections = 0;
  UseStatus use;
  std::vector<ProcedureStatus> procedures;  // those that it called, in a fixed order
};

struct CoreStatus {
  uint32_t lcore = 0;
  std::string role;
  uint64_t connections = 0;
  double busy_seconds = 0;  // in turns that found work
  double idle_seconds = 0;  // in others, sleep included
  uint64_t polls_busy = 0;
  uint64_t polls_idle = 0;
  uint64_t sleeps = 0;
};

// What a family of exported numbers means.
struct StatInfo {
  std::string name;
  std::string kind;  // "counter", "gauge", "histogram"
  std::string unit;  // "seconds", "bytes", or empty: things are counted
  std::string help;
};

struct NamedValue {
  std::string name;  // "causeway_connections", 'causeway_roce_packets_total{direction="rx",port="0"}'
  double value = 0;
};

class GatewayView {
 public:
  virtual ~GatewayView() = default;
  [[nodiscard]] virtual GatewayStatus status() = 0;
  // A part of that, cheaper to ask for.
  [[nodiscard]] virtual PolicyStatus policy() = 0;
  [[nodiscard]] virtual std::vector<ConnectionStatus> connections() = 0;
  [[nodiscard]] virtual std::vector<QueuePairStatus> queue_pairs() = 0;
  [[nodiscard]] virtual std::vector<CoreStatus> cores() = 0;
  // By client address, in no particular order. Empty where a core does not answer.
  [[nodiscard]] virtual std::vector<ActivityStatus> activity() = 0;
  // What is remembered of queue pairs, all cores together, oldest first; of each wire of each core the youngest `each_max`.
  [[nodiscard]] virtual std::vector<TransportEventStatus> transport_events(uint32_t each_max) = 0;
  // Begins a ping of the backend with this name by the first core. False: there is no such backend, or another ping is under way;
  // `problem` says which.
  [[nodiscard]] virtual bool start_ping(const std::string& backend, uint32_t program, uint32_t version, std::string& problem) = 0;
  // Of the ping started last.
  [[nodiscard]] virtual PingStatus ping() = 0;
  // Every exported number, flat, named as in the metrics.
  [[nodiscard]] virtual std::vector<NamedValue> stats() = 0;
  // What they mean, by family, in the same order.
  [[nodiscard]] virtual std::vector<StatInfo> stat_schema() = 0;
};

}  // namespace cw::control
