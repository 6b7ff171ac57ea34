// Calls in reverse direction (RFC 8167): from a backend on its connection to the RDMA client whose connection it belongs to.
//
// XIDs pass unchanged. With one backend they are unique where they go; a second backend of a listener with routes that uses one
// which the first one's call has in flight is refused, and calls again. What cannot be delivered is counted under one reason and
// answered with SYSTEM_ERR, since the backend would wait for its own timeout otherwise.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "gateway/backends.h"
#include "gateway/connection.h"
#include "gateway/gateway_stats.h"
#include "gateway/worker_requests.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {

class ReverseCalls {
 public:
  // The references must outlive it.
  ReverseCalls(Backends& backends, WorkerRequests& requests, BufferPool& packets, BufferPool& large, GatewayStats& stats)
      : backends_(backends), requests_(requests), packets_(packets), large_(large), stats_(stats) {}

  // A call of the client's goes to the lane: it may say that the client takes calls.
  void look_at(Connection& connection, Lane& lane, const rpcrdma::Call& call);
  // A call of the lane's backend for the client.
  void on_call(Instant now, Connection& connection, Lane& lane, uint32_t xid, Chain&& call);
  // The built-in bench program's call back: programs compute and return, they have no connection.
  void call_back(Instant now, Connection& connection, Lane& lane, const rpcrdma::CallContext& context, const Chain& message);
  // What has become of them goes to the backends, while there is room.
  void pass_outcomes(Connection& connection);

 private:
  void send_to_backend(const Lane& lane, Chain&& message);
  void refuse(const Lane& lane, uint32_t xid, ReverseDrop reason, bool answers);

  Backends& backends_;
  WorkerRequests& requests_;
  BufferPool& packets_;
  BufferPool& large_;
  GatewayStats& stats_;
};

}  // namespace cw::gateway
