// What one core's gateway counts, and what it tells the log.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ip_address.h"
#include "gateway/client_use.h"
#include "rpcrdma/ulb/compound_call.h"
#include "verbs/ids.h"
#include "verbs/queue_pair_info.h"

namespace cw::gateway {

// Backends and listeners that there may have been since the start of the process: each keeps its number (BackendIds,
// ListenerIds).
inline constexpr uint32_t kBackendIdsMax = 32;
inline constexpr uint32_t kListenerIdsMax = 32;
// Servers that a backend may have had since the start of the process: each keeps its number (ServerIds).
inline constexpr uint32_t kBackendServersMax = 32;
// Classes of clients that there may have been since the start of the process: each keeps its number (ClientIds).
inline constexpr uint32_t kClientIdsMax = 64;
// Ways that calls may have gone since the start of the process: each keeps its number (RouteIds). A start needs one for each
// route, and one for each listener.
inline constexpr uint32_t kRouteIdsMax = 256;

struct BackendStats {
  uint64_t up = 0;  // gauge: by its checks a server of it is up; unchecked: the last attempt to reach it succeeded; built-in: 1
  uint64_t checked = 0;          // gauge: a check of a server of it has ended
  uint64_t links = 0;            // gauge: open backend connections
  uint64_t calls_in_flight = 0;  // gauge
  uint64_t opens = 0;            // connections made
  uint64_t open_failures = 0;
  uint64_t forgotten_failures = 0;  // of these: before a reload removed it or brought it back; it is judged by the others
  uint64_t closes = 0;              // closed by the backend
  uint64_t call_timeouts = 0;       // it kept a call too long: the connection was given up
  uint64_t calls = 0;
  uint64_t replies = 0;
  uint64_t bytes_out = 0;  // to the backend
  uint64_t bytes_in = 0;
  uint64_t errors = 0;   // replies that refuse the call (RFC 5531 9)
  uint64_t call_ns = 0;  // of a TCP backend: that its replies took, from the call being given to a worker
  std::array<uint64_t, kBackendServersMax> server_links{};  // gauge: open connections by server number
  std::array<uint64_t, kBackendServersMax> server_calls{};  // gauge: of calls_in_flight, those at each server

  // Something is known of it. Without checks only a client makes the gateway ask a TCP backend.
  [[nodiscard]] bool is_judged() const { return up > 0 || checked > 0 || open_failures > forgotten_failures; }
};

struct ListenerStats {
  uint64_t calls_postponed = 0;  // until its rates allowed them, or the budgets and rates of their clients' class
  ClientUse use;
};

// A class of clients with a budget of its own.
struct ClientClassStats {
  uint64_t connections = 0;      // gauge
  uint64_t refused_denied = 0;   // connection requests
  uint64_t refused_limit = 0;    // the same: the class has as many connections as it may
  uint64_t bytes_in_flight = 0;  // gauge: of chunks
  uint64_t calls_postponed = 0;  // until others of the class were over, or the rates allowed them
  uint64_t credits_granted = 0;  // gauge
  uint64_t credits_in_use = 0;   // gauge: calls received and not yet answered
  ClientUse use;
};

// How connections ended or were refused, each under one.
enum class ConnectionResult : uint8_t {
  kAccepted,
  kRefusedAcl,
  kRefusedLimit,
  kRefusedClientDenied,  // by its class
  kRefusedClientLimit,   // its class has as many connections as it may
  kRefusedBackend,       // the backend could not be reached
  kRefusedResources,     // no queue pair, no memory
  kRefusedDraining,
  kClosedByPeer,
  kClosedByUs,            // shutdown, or a drain that had to come to an end
  kDrained,               // ended in order: every call that it had taken was answered
  kTakenOver,             // from the process before this one: accepted by it, and established since
  kHandedOver,            // to the process after this one
  kFailedTransport,       // retries exhausted, NAK, malformed packets of the peer; a TCP connection that was reset or silent
  kFailedProtocol,        // RPC-over-RDMA violation
  kFailedBackend,         // the backend closed
  kFailedBackendTimeout,  // the backend kept a call too long
  kFailedReadTimeout,     // the client answered no RDMA Read
  kFailedSlowReads,       // the client's RDMA Reads were slow while others waited for the buffers
  kFailedReplyTimeout,    // the client did not acknowledge a reply
  kFailedStarved,         // it waited too long for what all share
  kFailedHandshake,       // REP never answered
  kCount,
};
[[nodiscard]] const char* to_string(ConnectionResult result) noexcept;
// Never established: it costs who asks a datagram, whoever he is.
[[nodiscard]] constexpr bool is_refusal(ConnectionResult result) noexcept {
  return (result > ConnectionResult::kAccepted && result <= ConnectionResult::kRefusedDraining) ||
         result == ConnectionResult::kFailedHandshake;
}

// Why a call of a backend to its client (RFC 8167) did not get there.
enum class ReverseDrop : uint8_t {
  kNotEnabled,    // the client has not said that it takes calls
  kTooLong,       // for one inline message of the connection
  kDuplicateXid,  // its XID is in flight already
  kQueueFull,     // too many wait for the client's credits
  kExpired,       // it has waited for a credit for too long
  kRefused,       // the client answered RDMA_ERROR
  kCount,
};
[[nodiscard]] const char* to_string(ReverseDrop reason) noexcept;

struct GatewayStats {
  std::array<uint64_t, static_cast<size_t>(ConnectionResult::kCount)> connections{};
  std::array<BackendStats, kBackendIdsMax> backends{};               // by BackendIds
  std::array<ClientClassStats, kClientIdsMax> clients{};             // by ClientIds
  std::array<uint64_t, kRouteIdsMax> route_calls{};                  // by RouteIds, unrouted ones included
  std::array<uint64_t, rpcrdma::kNfs4Operations> nfs4_operations{};  // in COMPOUNDs of clients, by number
  uint64_t connections_open = 0;                                     // gauge
  uint64_t replies_unmatched = 0;                                    // from a backend, with an XID that nobody waits for
  uint64_t reverse_calls = 0;                                        // of backends, taken to be sent to clients
  uint64_t reverse_replies = 0;                                      // of clients, handed to backends
  std::array<uint64_t, static_cast<size_t>(ReverseDrop::kCount)> reverse_calls_dropped{};
  uint64_t messages_malformed = 0;  // from a backend, too short to be RPC
  uint64_t duplicate_xids = 0;      // from a client, in flight twice at once
  uint64_t calls_unrouted = 0;      // of programs without a route, at listeners without a backend of their own
  uint64_t lane_failures = 0;       // backends of routes that could not be reached when a call wanted one
  uint64_t orphaned_calls = 0;      // at the backend when their client's connection ended
  uint64_t orphaned_expired = 0;    // of these: not answered within orphan_max
  uint64_t orphans = 0;             // gauge: backend connections that are kept until their calls have been answered
  uint64_t connections_held = 0;    // connections whose calls had to wait for those of the client's connections before
  uint64_t grants_lowered = 0;      // times that the table of calls was nearly full
  uint64_t notices_dropped = 0;
  std::array<ListenerStats, kListenerIdsMax> listeners{};  // by ListenerIds
};

// One line for the log; the text is made by whoever prints it.
struct Notice {
  ConnectionResult result = ConnectionResult::kAccepted;
  IpAddress peer;
  uint16_t peer_port = 0;  // with the address the name of a connection, where there are no queue pair numbers
  uint16_t listener_port = 0;
  uint32_t backend = 0;
  std::optional<uint32_t> client_class;  // that refused it: kRefusedClientDenied and kRefusedClientLimit
  std::string_view wire = "none";        // QueuePairInfo
  verbs::Qpn local_qpn;
  verbs::Qpn remote_qpn;
  verbs::QueuePairError qp_error;
  uint64_t calls = 0;  // answered over the connection's life
  uint32_t inline_send_bytes = 0;
  uint32_t inline_receive_bytes = 0;
  uint32_t packet_bytes = 0;  // of a message, in one packet
  bool remote_invalidation = false;
};

}  // namespace cw::gateway
