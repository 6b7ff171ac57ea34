// Everything that one core counts, in one trivially copyable struct: what Published<> carries from a core to the telemetry
// thread.
//
// The dataplane fills what it has and leaves the rest zero. Values of several cores are added up; where only one core knows a
// thing (a port's hardware counters, a pool) it alone fills it in.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "control/cm/cm_stats.h"
#include "control/config/config.h"
#include "gateway/gateway_stats.h"
#include "iwarp/transport.h"
#include "rnic/transport.h"
#include "rocev2/gsi/gsi_qp.h"
#include "rocev2/rc/rc_stats.h"
#include "rocev2/wire/drop_reason.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "telemetry/rpc_durations.h"

namespace cw::telemetry {

// Turns of one poll loop.
struct CoreLoopStats {
  uint64_t polls_busy = 0;  // turns that found something to do
  uint64_t polls_idle = 0;
  uint64_t sleeps = 0;             // idle turns that ended in a sleep
  uint64_t busy_ns = 0;            // time in busy turns
  uint64_t idle_ns = 0;            // time in idle turns, sleep included
  uint64_t frames_handed = 0;      // received here, given to the core that they are for
  uint64_t frames_not_handed = 0;  // dropped, since that core had too many waiting
};

// One port as one core sees it.
struct PortStats {
  uint64_t rx_packets = 0;  // all frames, also those that are not RoCE
  uint64_t tx_packets = 0;
  uint64_t rx_bytes = 0;  // Ethernet header to end of payload, no FCS
  uint64_t tx_bytes = 0;
  uint64_t roce_rx_packets = 0;  // UDP 4791 for us, discarded ones included
  uint64_t roce_tx_packets = 0;
  uint64_t roce_rx_bytes = 0;
  uint64_t roce_tx_bytes = 0;
  uint64_t rx_missed = 0;   // the NIC had no descriptor (imissed): the core is too slow
  uint64_t rx_no_mbuf = 0;  // the driver had no buffer (rx_nombuf): the pool is too small
  uint64_t rx_errors = 0;   // frames broken on the wire (ierrors) or longer than the MTU allows
  uint64_t tx_dropped = 0;  // the NIC's queue was full
  uint64_t arp_rx = 0;
  uint64_t arp_tx = 0;
  uint64_t nd_rx = 0;  // IPv6 neighbour discovery
  uint64_t nd_tx = 0;
  uint64_t icmp_rx = 0;  // echo, both families
  uint64_t icmp_tx = 0;
  uint64_t other_rx = 0;                                    // neither RoCE nor one of the above: ignored
  uint64_t to_kernel = 0;                                   // given to the exception tap
  uint64_t from_kernel = 0;                                 // taken from it
  uint64_t to_kernel_dropped = 0;                           // it had too many waiting, or the interface is down
  uint64_t from_kernel_dropped = 0;                         // the device took no more, or no packet buffer was left
  uint64_t links_refused = 0;                               // other ends of a memif link that were sent away
  uint64_t link_up = 0;                                     // gauge, 0 or 1
  std::array<uint64_t, wire::kDropReasonCount> discards{};  // decided before a queue pair was found, by wire::DropReason
};

// Gauges of one packet pool.
struct PoolStats {
  uint64_t objects = 0;
  uint64_t available = 0;
  uint64_t empty = 0;  // counter: allocations refused
};

// What only the connection manager knows of connections; how they ended or were refused stands in gateway::GatewayStats.
struct ConnectionGauges {
  uint64_t half_open = 0;
  uint64_t timewait = 0;
};

// Of all workers together.
struct WorkerStats {
  uint64_t replies_waiting = 0;  // gauge: replies that wait for memory; nothing more is read of their connections
  uint64_t replies_waited = 0;   // ever
  uint64_t replies_stalled = 0;  // that a backend began and did not go on with: their connections were closed
  uint64_t other_ports = 0;      // backend connections made from another port than their client's, which stayed busy
};

// A listener of transport = "verbs", as rdma-core has it. Told by the core that listens.
struct VerbsListener {
  uint64_t port = 0;              // 0: there is none
  uint64_t is_lost = 0;           // 0 or 1: no device has its address now
  std::array<char, 64> device{};  // that has its address, ends with a zero; empty: it has no address of its own, or is lost
};

inline constexpr uint32_t kPoolsMax = 4;

struct CoreSnapshot {
  CoreLoopStats loop;
  rc::RcStats rc;
  gsi::GsiStats gsi;
  cm::CmStats cm;
  iwarp::IwarpStats iwarp;
  iwarp::StreamStats iwarp_streams;
  iwarp::TcpStats iwarp_tcp;
  rnic::RnicStats rnic;
  rnic::RnicWorkStats rnic_works;
  rpcrdma::RpcRdmaStats rpcrdma;
  gateway::GatewayStats gateway;
  ConnectionGauges connections;
  std::array<PortStats, control::kPortsMax> ports{};  // in order of Config::ports
  std::array<PoolStats, kPoolsMax> pools{};           // in order of MetricSources::pools
  WorkerStats workers;
  std::array<VerbsListener, control::kListenersMax> verbs_listeners{};
  RpcDurations durations;
};
static_assert(std::is_trivially_copyable_v<CoreSnapshot>);
static_assert(gateway::kBackendIdsMax >= control::kBackendsMax && gateway::kListenerIdsMax >= control::kListenersMax);
static_assert(gateway::kRouteIdsMax >= control::kRoutesMax + control::kListenersMax);
static_assert(gateway::kClientIdsMax >= control::kClientClassesMax);

}  // namespace cw::telemetry
