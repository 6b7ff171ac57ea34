// The gateway of one core, without I/O: accepts RDMA connections of verbs::Transports, gives each an RPC-over-RDMA server
// endpoint and a backend, and carries calls and replies between them.
//
//   kConnectRequest -> listener, ACL, limits, is the backend down? -> queue pair with one receive           (Acceptor)
//   kEstablished -> a place, endpoint with its receives, kOpen to a worker -> kOpened -> calls are taken
//   receive -> ServerEndpoint -> Call -> lane, by its program -> built-in program here, or kSend / kRun to a worker   (CallPath)
//   kMessage / kRan -> matched by XID -> ServerEndpoint::reply -> RDMA Writes and SEND
//   kMessage that is a call -> ServerEndpoint::submit_reverse -> the client's reply -> kSend                (ReverseCalls)
//   any failure, either side -> ConnectionTable::end() -> end of the step: the peer is told, kClose, everything of the connection
//   is given back; while the backend still works on its calls kClose waits, and so do the calls of the client's next connection
//                                                                                           (Orphans, CallHolds, ReplayGuard)
//   a client's connections may lie on several cores -> CoreMessages between their gateways
//
// This class puts the parts together, hands each event to the part that it is for, and frees what is over. Each part owns its
// state and can be tested alone.
//
// A turn is a sequence of steps, each about one event, one queue pair, one timer; what the workers and other cores say is a step
// each. A connection that is over is marked in the step that notices it, and freed at its end. Nobody takes events within a step.
//
// Ownership: a Connection owns its endpoint; its queue pair is the transport's until destroy(). A LinkId carries a generation, so
// that what a worker says about a connection that is gone is dropped.
// Bounds: connections_max, half_open_max, calls_in_flight_max. When the workers fall behind, calls wait in their endpoints (and
// so cost the client its credits), new connections are refused, and closing goes on. A backend that does not answer leaves calls
// to the others (rpcrdma::BackendShares); where routes lead to several, those behind its calls on the same connection wait, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gateway/acceptor.h"
#include "gateway/admission.h"
#include "gateway/backend_link.h"
#include "gateway/backend_links.h"
#include "gateway/backends.h"
#include "gateway/broken_calls.h"
#include "gateway/call_holds.h"
#include "gateway/call_path.h"
#include "gateway/connection_table.h"
#include "gateway/core_message.h"
#include "gateway/credit_grants.h"
#include "gateway/drain.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "gateway/listeners.h"
#include "gateway/notice_log.h"
#include "gateway/orphans.h"
#include "gateway/replay_guard.h"
#include "gateway/reverse_calls.h"
#include "gateway/worker_requests.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "verbs/transport.h"

namespace cw::gateway {

// A copy of everything worth showing about a connection.
struct ConnectionInfo {
  uint64_t id = 0;  // Connection::number
  ConnectionState state = ConnectionState::kAccepting;
  uint16_t listener_port = 0;
  uint32_t listener = 0;  // by number, as the backend
  uint32_t backend = 0;
  uint32_t server = 0;  // of the backend's, by number
  IpAddress peer;
  uint16_t peer_port = 0;
  std::optional<uint32_t> client_class;  // whose budget it counts in
  verbs::QueuePairInfo qp;
  rpcrdma::InlineThresholds thresholds;
  uint32_t credits_granted = 0;
  uint32_t calls_in_flight = 0;
  uint32_t reverse_credits_granted = 0;  // by the client; 0 = it has not opened the reverse direction
  uint32_t reverse_calls_in_flight = 0;
  uint64_t calls = 0;
  Duration age;
};

class Gateway {
 public:
  // All references must outlive the gateway. `packets` serves headers, `large` the replies of built-in programs.
  Gateway(const GatewayOptions& options, verbs::Transport& transport, BufferPool& packets, BufferPool& large,
          rpcrdma::ProgramRegistry& programs, RandomSource& random);
  // On several wires: ListenerOptions::transport is a place in `transports`.
  Gateway(const GatewayOptions& options, const std::vector<verbs::Transport*>& transports, BufferPool& packets, BufferPool& large,
          rpcrdma::ProgramRegistry& programs, RandomSource& random);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Starts listening.
  [[nodiscard]] Status start() { return listeners_.start(); }
  // Acts on whatever the transports have for it. Call after each burst.
  void run(Instant now);
  // Towards the workers; false when there is nothing.
  [[nodiscard]] bool poll_backend_request(BackendRequest& out) { return requests_.poll(out); }
  void on_backend_event(Instant now, BackendEvent&& event);
  // Towards the gateways of other cores, nullptr when there is none.
  [[nodiscard]] const CoreMails::Mail* next_core_message() const { return mails_.next(); }
  void pop_core_message() { mails_.pop(); }
  // From those gateways, or with kServerState from whoever checks servers.
  void on_core_message(Instant now, const CoreMessage& message);
  // The server of the backend that a new connection would go to, by number.
  [[nodiscard]] uint32_t preferred_server(uint32_t backend) const { return backends_.preferred_server(backend); }
  // Records of answered calls, for histograms.
  [[nodiscard]] bool poll_done(rpcrdma::CallDone& out);
  // nullptr when there is none.
  [[nodiscard]] const Notice* next_notice() const { return log_.next(); }
  void pop_notice() { log_.pop(); }
  [[nodiscard]] Instant next_deadline() const;

  // Takes over from `fresh`, in exchange for what was: who may connect, what goes where, limits and times, for connections that
  // begin from now on (of backends' times and classes' budgets also for those that there are). Backend connections stay with the
  // server that they lead to until they end, and connections count in their class, in its budget too when it is removed. Places
  // that are shared are for their owner to change. Precondition: all listeners, backends and classes of clients that there have
  // been. False: a listener's port could not be had (Listeners::reconfigure); all else is as it should be.
  bool reconfigure(GatewayOptions& fresh);

  // Orderly end: refuses new connections, disconnects all. is_quiet() when the last is gone; poll run() until then.
  void shut_down(Instant now);
  [[nodiscard]] bool is_quiet() const;

  // Refuses new connections and ends the others in order, without failing a call: see Drain. Over when stats() says
  // that no connection is open; poll run() until then.
  void drain(Instant now);
  // As drain(), for a process that is followed by another one: what a wire can carry over does not end for its client. Each is
  // written down when all its calls have been answered; the others are drained.
  void hand_over(Instant now);
  [[nodiscard]] std::vector<std::vector<uint8_t>> take_handed_over() { return drain_.take_handed_over(); }
  // In the next process: the connection goes on. False: it could not, and its client has been told where that was possible. To be
  // called before the first run(), on the core with the same index of as many cores.
  bool take_over(Instant now, Bytes saved);
  // Takes connections and calls again.
  void end_drain(Instant now);
  // Disconnects all, whatever they are doing: for a drain that has to come to an end.
  void close_all(Instant now);
  [[nodiscard]] bool is_draining() const { return drain_.is_on(); }

  // Fills `out` as far as it reaches and returns how many connections there are.
  [[nodiscard]] uint32_t describe(Instant now, std::span<ConnectionInfo> out) const;
  // The same by instalments, so that no turn of the core gets long: looks at `slots` places from `place` on, adds to `out` from
  // `count` on as far as it reaches, and returns the place to go on from; 0 when that were all. Begin with 0 and 0.
  [[nodiscard]] uint32_t describe_some(Instant now, uint32_t place, uint32_t slots, std::span<ConnectionInfo> out,
                                       uint32_t& count) const;
  // What its clients do, by instalments, as ClientActivity::describe_some.
  [[nodiscard]] const ClientActivity& activity() const { return activity_; }
  [[nodiscard]] const GatewayStats& stats() const { return stats_; }
  [[nodiscard]] const rpcrdma::RpcRdmaStats& rpcrdma_stats() const { return shared_.stats; }
  [[nodiscard]] const rpcrdma::StageDurations& stage_durations() const { return shared_.durations; }
  // Calls that were answered as they were taken (rpcrdma/endpoint/direct_calls.h).
  [[nodiscard]] uint64_t calls_direct() const { return shared_.direct.calls; }
  // What calls hold of what all share; for tests and simulation.
  [[nodiscard]] uint64_t pulled_units() const { return shared_.pulled_units; }
  [[nodiscard]] uint64_t reply_bytes() const { return shared_.reply_bytes; }
  [[nodiscard]] uint32_t slots_in_use() const { return shared_.calls->in_use(); }

 private:
  class Step;

  // next() does one thing, each in a step of its own, and says whether there was one.
  template <typename Next>
  void one_by_one(Instant now, Next&& next);
  void take_events(Instant now);
  void on_event(Instant now, uint32_t transport, const verbs::ConnectionEvent& event);
  // False: its connection is half open, and waits for what may_establish() says.
  [[nodiscard]] bool serve(Instant now, const verbs::ReadyQueuePair& ready);
  // Of one that is half open: the transport is told of its news. False: it has ended; else an event may have established it.
  [[nodiscard]] bool may_establish(Instant now, const verbs::ReadyQueuePair& ready);
  void on_link_event(Instant now, Connection& connection, BackendEvent&& event);
  void on_timer(Instant now, Connection& connection);
  // Frees a connection that is over; at the end of a Step alone.
  void end(Instant now, const Ending& ending);
  void note_end(const Ending& ending);
  [[nodiscard]] static ConnectionInfo info_of(Instant now, const Connection& connection);

  GatewayStats stats_;
  std::vector<verbs::Transport*> transports_;
  Duration orphan_max_;
  rpcrdma::ServerShared shared_;
  NoticeLog log_;
  CoreMails mails_;
  WorkerRequests requests_;
  ConnectionTable connections_;
  ReplayGuard guard_;
  Backends backends_;
  Listeners listeners_;
  Admission admission_;
  Orphans orphans_;
  ClientActivity activity_;
  CallHolds holds_;
  Drain drain_;
  CreditGrants grants_;
  BrokenCalls broken_calls_;
  BackendLinks links_;
  ReverseCalls reverse_;
  CallPath path_;
  Acceptor acceptor_;
  bool shutting_down_ = false;
  bool in_step_ = false;
};

}  // namespace cw::gateway
