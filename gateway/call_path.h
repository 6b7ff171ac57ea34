// The way of a call through the gateway, from its client's queue pair to a backend and back. call_path.cc is written in that
// order.
//
//   serve() -> pump() -> route() -> run_program(), or a request to a worker
//           -> answer_directly()    what run_program() would come to, of predicted calls and without a slot for each
//                                   on_ran() / on_message() -> ServerEndpoint::reply()
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/intrusive_list.h"
#include "base/ring.h"
#include "gateway/backend_links.h"
#include "gateway/backends.h"
#include "gateway/connection_table.h"
#include "gateway/drain.h"
#include "gateway/gateway_stats.h"
#include "gateway/replay_guard.h"
#include "gateway/reverse_calls.h"
#include "gateway/worker_requests.h"
#include "rpcrdma/backend/backend.h"

namespace cw::gateway {

// All must outlive the path.
struct CallPathParts {
  ConnectionTable& connections;
  Backends& backends;
  BackendLinks& links;
  ReplayGuard& guard;
  ReverseCalls& reverse;
  Drain& drain;
  WorkerRequests& requests;
  rpcrdma::ProgramRegistry& programs;
  BufferPool& packets;  // headers of built-in programs' replies
  BufferPool& large;    // and their bodies
  GatewayStats& stats;
};

class CallPath {
 public:
  CallPath(const CallPathParts& parts, uint32_t calls_max) : parts_(parts), waiting_(calls_max) {}

  // The queue pair of an established connection has news.
  void serve(Instant now, Connection& connection);
  // Takes the calls that can be taken, and looks at what else the connection has to do and when. After anything that may have
  // changed what it can.
  void pump(Instant now, Connection& connection);
  // A worker has run a built-in program; `reply` is empty when there was no memory for it.
  void on_ran(Instant now, Connection& connection, Lane& lane, rpcrdma::CallId call, Chain&& reply);
  // A backend has sent a message: a reply, or a call in reverse direction.
  void on_message(Instant now, Connection& connection, Lane& lane, Chain&& message);

  // Calls of built-in programs that found no memory for their reply. To be gone through once a turn: one that still finds none
  // goes to the end.
  [[nodiscard]] uint32_t waiting_count() const { return waiting_.size(); }
  void retry_oldest(Instant now);
  // The next connection that found no room for requests, if there is room now. In order: one that needs more than there is keeps
  // its turn. False: there is none, or no room.
  [[nodiscard]] bool resume_oldest(Instant now);
  // So many of its calls get no reply: their connection is over.
  void count_lost(Connection& connection, uint32_t calls);
  // The connection is over: its calls that wait or run are dropped when they come back.
  void drop_waiting(Connection& connection);

 private:
  [[nodiscard]] bool may_take_call(const Connection& connection) const;
  void route(Instant now, Connection& connection, rpcrdma::Call&& call);
  void run_program(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call);
  [[nodiscard]] bool takes_calls(const Connection& connection) const;
  [[nodiscard]] bool answers_here(const Connection& connection) const;
  [[nodiscard]] bool answer_directly(Instant now, Connection& connection, uint32_t count);
  void count_direct(const Connection& connection, const ListenerLanes::Way& way, const Lane& lane, const ClientUse& use);
  void finish_opened(Instant now, Connection& connection, const Lane& lane, bool ran, Chain&& reply);
  void send(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call);
  void look_after(Instant now, Connection& connection);
  template <typename Count>
  void count_use(const Connection& connection, Count&& count);
  void count_call(const Connection& connection, const rpcrdma::CallContext& context, uint64_t bytes);
  // True: the reply refuses the call.
  bool count_reply(const Connection& connection, const Chain& reply);

  struct Waiting {
    LinkId link;  // of the connection
    uint32_t lane = 0;
    rpcrdma::Call call;
  };
  CallPathParts parts_;
  IntrusiveList<Connection, StalledTag> stalled_;  // with calls that wait for room for requests
  Ring<Waiting> waiting_;
};

}  // namespace cw::gateway
