// What one core's gateway is made of: where it listens, what stands behind, what a connection may cost.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/core_share.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "control/config/ip_text.h"
#include "gateway/connection_quota.h"
#include "gateway/gateway_stats.h"
#include "gateway/source_ports.h"
#include "rpcrdma/endpoint/rate_lines.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"

namespace cw::gateway {

enum class BackendKind : uint8_t { kTcp, kBuiltin };

struct BackendOptions {
  std::string name;
  BackendKind kind = BackendKind::kBuiltin;
  // kTcp: the numbers of its servers (ServerIds), in order of preference, at least one; the workers know their addresses.
  std::vector<uint32_t> servers = {0};
  bool removed = false;         // by a reload: only connections from before lead to it
  bool checked = false;         // kTcp: checks say which servers are up; else the last attempt to connect does
  bool from_client = false;     // kTcp: connections come from clients' addresses, and one that fails says nothing of others
  bool run_on_workers = false;  // kBuiltin: programs that may take long; else they run on the poll core
  Duration open_timeout = Duration::seconds(5);
  Duration call_timeout = Duration::seconds(120);  // where a listener has routes; else ServerOptions::call_timeout counts
};

// Calls of a program go to a backend of their own.
struct RouteOptions {
  uint32_t program = 0;
  uint32_t backend = 0;  // BackendIds
  uint32_t number = 0;   // RouteIds
};

struct ListenerOptions {
  static constexpr uint32_t kNoBackend = UINT32_MAX;

  std::string name;
  uint32_t transport = 0;  // a place in the gateway's list
  uint16_t port = 20049;   // of the RDMA IP CM service, TCP port space
  bool removed = false;    // by a reload: nobody connects to it, and its connections go on
  // BackendIds; kNoBackend: calls of programs without a route are answered with PROG_UNAVAIL.
  uint32_t backend = 0;
  uint32_t other_route = 0;          // number (RouteIds) of what happens to programs without a route
  std::vector<RouteOptions> routes;  // each program once
  rpcrdma::ServerOptions server;     // with routes its call_timeout is the longest of the backends'
  uint32_t inline_bytes = 4096;      // our send and receive size in RFC 8797 private data
  bool remote_invalidate = true;
  bool private_data = true;              // false: say nothing (RFC 8797 is optional); both thresholds are 1024 then
  std::vector<control::IpPrefix> allow;  // clients that may connect; empty = all
  uint32_t connections_max = 1024;
  uint64_t calls_per_second = 0;  // of all its connections together, on all cores; 0: as many as come
  uint64_t bytes_per_second = 0;  // the same for the bytes of their calls and replies
};

// A backend connection that waits for its source port waits for orphan_max, the life of the one that has it, and no longer than
// this on top: closing takes its time.
inline constexpr Duration kPortSlack = Duration::seconds(4);

// Clients that share a budget: those whose address is in one of the prefixes, and in no longer one of another class.
struct ClientClassOptions {
  std::string name;
  std::vector<control::IpPrefix> prefixes;  // none: a reload has removed it, and connections from before count in it
  bool allow = true;
  uint32_t connections_max = UINT32_MAX;      // of all of them together
  uint32_t credits_max = UINT32_MAX;          // of each connection
  uint64_t bytes_in_flight_max = UINT64_MAX;  // of the chunks of their calls, on this core
  uint64_t calls_per_second = 0;              // as those of a listener
  uint64_t bytes_per_second = 0;
  uint32_t weight = 1;  // of what they get where a listener's rate does not do for all, beside other classes
};

// None is nullptr.
struct Rates {
  std::array<rpcrdma::SharedRates, kListenerIdsMax> listeners;  // by ListenerIds
  std::array<rpcrdma::SharedRates, kClientIdsMax> clients;      // by ClientIds
  rpcrdma::RateShares* shares = nullptr;
};

// With limiters and shares of this kind.
template <typename Limiter, typename Shares>
class OwnedRates {
 public:
  OwnedRates() {
    size_t next = 0;
    const auto own = [&](rpcrdma::SharedRates& rates) {
      rates = {.calls = &limiters_[next], .bytes = &limiters_[next + 1]};
      next += 2;
    };
    std::ranges::for_each(rates_.listeners, own);
    std::ranges::for_each(rates_.clients, own);
    rates_.shares = &shares_;
  }
  [[nodiscard]] const Rates& rates() const { return rates_; }

 private:
  std::array<Limiter, size_t{2} * (kListenerIdsMax + kClientIdsMax)> limiters_;
  Shares shares_{kListenerIdsMax, kClientIdsMax + 1};
  Rates rates_;
};

struct GatewayOptions {
  std::vector<ListenerOptions> listeners;   // by ListenerIds
  std::vector<BackendOptions> backends;     // by BackendIds
  std::vector<ClientClassOptions> clients;  // by ClientIds
  ConnectionQuota* client_quota = nullptr;  // by class; as with `quota`
  const Rates* rates = nullptr;             // as with `quota`; whoever owns them sets them
  CoreShare core;                           // links tell the core
  uint32_t connections_max = 1024;          // of this core, and of all together when they share `quota`
  ConnectionQuota* quota = nullptr;         // outlives the gateways that share it; nullptr = this gateway is alone
  SourcePorts* source_ports = nullptr;      // as with `quota`; nullptr = backend connections come from any port
  uint32_t half_open_max = 512;             // connections without a place of each transport, as it has them on this core
  uint32_t calls_in_flight_max = 16384;     // over all connections
  bool express = true;                      // rpcrdma::ServerShared::express
  uint64_t pull_buffers_max = UINT64_MAX;   // receive buffers that pulled call data may hold: well below the pool
  uint64_t reply_bytes_max = UINT64_MAX;    // of buffers that replies may keep on this core: see rpcrdma::ServerShared
  // Buffers are reserved for the messages of all credits in packets of this size (verbs::ConnectionLimits). A client whose
  // packets are smaller is granted as many as fit into what is reserved for it. 256, the smallest there is: all.
  uint32_t reserved_packet_bytes = 256;
  // How long a backend may take for a call that nobody waits for; the next calls of its client wait for it. Well below the
  // time-outs of calls, so that these are no victims of the wait.
  Duration orphan_max = Duration::seconds(10);
};

}  // namespace cw::gateway
