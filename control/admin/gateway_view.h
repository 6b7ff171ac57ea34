// What the admin socket can ask of a running gateway. The dataplane implements it; tests have a fake.
//
// Called on the admin thread, one call at a time; status() and connections() on the live page's thread too, at the same time.
// An implementation may ask the poll cores and wait for them, for at most 200 ms, and answers with what it has after that.
// Strings are for people and for JSON alike: addresses as text, names from the config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rocev2/base/time.h"

namespace cw::control {

struct PortStatus {
  std::string device;
  std::string mac;
  std::vector<std::string> addresses;  // with prefix length
  uint32_t mtu = 0;
  uint32_t path_mtu = 0;  // largest that fits
  bool link_up = false;
  uint32_t link_mbps = 0;  // 0 = unknown
};

struct ListenerStatus {
  std::string name;
  uint32_t port = 0;
  std::string backend;
  uint32_t credits = 0;
  uint32_t inline_bytes = 0;
  uint32_t connections = 0;
  uint32_t connections_max = 0;
};

struct BackendStatus {
  std::string name;
  std::string type;        // "tcp" or "builtin"
  std::string address;     // empty for builtin
  std::optional<bool> up;  // the last attempt to reach it succeeded; absent: no client has asked for it yet
  uint64_t calls_in_flight = 0;
  uint64_t reconnects = 0;
  uint64_t call_timeouts = 0;
};

struct GatewayStatus {
  std::string version;
  std::string instance;
  Duration uptime;
  bool ready = false;     // listening, and every backend that can be judged is up
  bool draining = false;  // refuses new connections
  uint32_t connections = 0;
  std::vector<PortStatus> ports;
  std::vector<ListenerStatus> listeners;
  std::vector<BackendStatus> backends;
};

struct ConnectionStatus {
  uint64_t id = 0;
  std::string listener;
  std::string peer_address;
  uint32_t peer_port = 0;  // of the RDMA IP CM header: the client's chosen port
  uint32_t local_qpn = 0;
  uint32_t remote_qpn = 0;
  std::string state;  // of the connection manager: "established", "rep_sent" ...
  uint32_t lcore = 0;
  uint32_t path_mtu = 0;
  uint32_t inline_send_bytes = 0;
  uint32_t inline_receive_bytes = 0;
  bool remote_invalidate = false;
  uint32_t credits_granted = 0;
  uint32_t calls_in_flight = 0;
  uint32_t reverse_credits_granted = 0;  // by the client, for calls of the backend to it; 0 = it takes none
  uint32_t reverse_calls_in_flight = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t rpcs = 0;
  uint64_t retransmits = 0;
  Duration round_trip;                 // on the wire, smoothed; 0 = not measured yet
  bool selective_recovery = false;     // agreed with the peer
  uint64_t cnps_received = 0;          // congestion notifications
  uint64_t rate_bytes_per_second = 0;  // limit because of them; 0 = none
  Duration age;
  std::string last_error;  // empty = none
};

struct NamedValue {
  std::string name;  // "causeway_connections", 'causeway_roce_packets_total{direction="rx",port="0"}'
  double value = 0;
};

class GatewayView {
 public:
  virtual ~GatewayView() = default;
  [[nodiscard]] virtual GatewayStatus status() = 0;
  [[nodiscard]] virtual std::vector<ConnectionStatus> connections() = 0;
  // Every exported number, flat, named as in the metrics.
  [[nodiscard]] virtual std::vector<NamedValue> stats() = 0;
};

}  // namespace cw::control
