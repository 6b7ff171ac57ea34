// A connection's ways to the backends of its listener. The first lane is opened when the connection is established and ends with
// it; those of routes are opened by the first call that wants them. One of these whose backend cannot be reached costs the calls
// that wanted it, which no backend has seen: they are answered with SYSTEM_ERR, and the next call tries again. One that the
// backend closes while it owes replies ends the whole connection, as with the first lane: only the client can say its calls
// again.
#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "gateway/backends.h"
#include "gateway/call_holds.h"
#include "gateway/connection_table.h"
#include "gateway/gateway_stats.h"
#include "gateway/listeners.h"
#include "gateway/orphans.h"
#include "gateway/replay_guard.h"
#include "gateway/source_ports.h"
#include "gateway/worker_requests.h"

namespace cw::gateway {

// Everything that the links of a gateway's connections have to do with; all must outlive them.
struct BackendLinksParts {
  ConnectionTable& connections;
  Listeners& listeners;
  Backends& backends;
  ReplayGuard& guard;
  CallHolds& holds;
  Orphans& orphans;
  WorkerRequests& requests;
  GatewayStats& stats;
  BufferPool& packets;
  SourcePorts* source_ports = nullptr;  // nullptr: backend connections come from any port
};

class BackendLinks {
 public:
  explicit BackendLinks(const BackendLinksParts& parts) : parts_(parts) {}

  // Of a connection that is established: all lanes, none open.
  void add_lanes(Connection& connection);
  // Of one that is over. `keep_until`: a link whose backend still works on calls is kept so long (Orphans); nullopt: it is
  // closed.
  void drop_lanes(Instant now, Connection& connection, std::optional<Instant> keep_until);

  // The connection opens its first lane as soon as it is known from where.
  void begin_first(Instant now, Connection& connection);
  // Goes on with that. Precondition: ConnectionState::kOpeningBackend.
  void open_first(Instant now, Connection& connection);
  // Precondition: room for a request. `xid`: of the first call, when it is known.
  void open(Instant now, Connection& connection, Lane& lane, std::optional<uint32_t> xid);
  void on_opened(Instant now, Lane& lane);
  // It waits for its source port, which a connection before may still have, for `patience` at most.
  void on_port_busy(Instant now, Lane& lane, Duration patience);
  // The link could not be made: the calls that wanted it are answered, or the connection is over with it.
  void on_failed(Instant now, Connection& connection, Lane& lane);
  // The backend has closed it.
  void on_closed(Connection& connection, Lane& lane);
  // Of those that the deadline of the connection's timer is for: what waits for too long, by the limits of each backend.
  void check_first(Instant now, Connection& connection);
  void check_routes(Instant now, Connection& connection);

  // Answers a call in place of a backend.
  void answer(Instant now, Connection& connection, rpcrdma::CallId call, uint32_t xid, rpcrdma::AcceptStatus status);

 private:
  void part(Instant now, Connection& connection, Lane& lane, std::optional<Instant> keep_until);
  // It is over, or is closed next.
  void forget(const Connection& connection, Lane& lane);
  void give_port_back(const Connection& connection, Lane& lane);
  void fail(Instant now, Connection& connection, Lane& lane);
  [[nodiscard]] bool waits_for_first_call(const Connection& connection) const;

  BackendLinksParts parts_;
};

}  // namespace cw::gateway
