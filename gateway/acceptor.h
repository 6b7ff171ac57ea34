// How a connection comes to be: listener, access and limits, queue pair, our answer; when the client has answered, a place, the
// endpoint and the backend.
//
// Anybody can ask for a connection in anybody's name, and only a client that has our answer can finish the handshake: before
// that a connection is half open and has a queue pair with one receive. It has no place, no credits, no backend connection, and
// ends nobody else's.
#pragma once

#include <cstdint>
#include <vector>

#include "gateway/admission.h"
#include "gateway/backend_links.h"
#include "gateway/backends.h"
#include "gateway/broken_calls.h"
#include "gateway/call_holds.h"
#include "gateway/client_activity.h"
#include "gateway/connection_table.h"
#include "gateway/credit_grants.h"
#include "gateway/drain.h"
#include "gateway/listeners.h"
#include "gateway/notice_log.h"
#include "gateway/orphans.h"
#include "gateway/worker_requests.h"
#include "rpcrdma/endpoint/server_endpoint.h"

namespace cw::gateway {

// All must outlive the acceptor.
struct AcceptorParts {
  const std::vector<verbs::Transport*>& transports;
  ConnectionTable& connections;
  Listeners& listeners;
  Admission& admission;
  Backends& backends;
  BackendLinks& links;
  CallHolds& holds;
  Orphans& orphans;
  ClientActivity& activity;
  BrokenCalls& broken_calls;
  CreditGrants& grants;
  Drain& drain;
  WorkerRequests& requests;
  rpcrdma::ServerShared& shared;
  NoticeLog& log;
  GatewayStats& stats;
};

class Acceptor {
 public:
  // `reserved_packet_bytes`: GatewayOptions.
  Acceptor(const AcceptorParts& parts, uint32_t reserved_packet_bytes)
      : parts_(parts), reserved_packet_bytes_(reserved_packet_bytes) {}

  // Refuses all from here on.
  void shut_down() { shutting_down_ = true; }
  // A request at one of the transports, by its place.
  void on_request(Instant now, uint32_t transport, const verbs::ConnectionEvent& request);
  // One that the process before has written down (saved_connection.h), established as it was. False: it could not go on; the client
  // has been told where the wire had room to tell it.
  bool take_over(Instant now, Bytes saved, Instant held_until);
  // The client has proved its address: gives it what is scarce, or ends it. Its calls are held until `held_until` at most.
  void establish(Instant now, Connection& connection, Instant held_until);
  // Its backend connection is open, or it needs none.
  void take_calls(Connection& connection);

 private:
  void refuse(Instant now, uint32_t transport, const verbs::ConnectionEvent& request, verbs::RejectReason reason,
              ConnectionResult result, uint32_t backend);
  // Answers, or ends the connection when there is no queue pair for it.
  void accept(Instant now, Connection& connection, const verbs::ConnectionEvent& request);
  void start_endpoint(Instant now, Connection& connection);
  void end_resumed(Instant now, const SavedConnection& saved);
  [[nodiscard]] uint32_t backed_credits(const Connection& connection, uint32_t credits) const;

  AcceptorParts parts_;
  uint32_t reserved_packet_bytes_;
  bool shutting_down_ = false;
};

}  // namespace cw::gateway
