// The gateway of one core, without I/O: accepts RDMA connections of a verbs::Transport, gives each an RPC-over-RDMA server
// endpoint and a backend, and carries calls and replies between them.
//
//   kConnectRequest -> listener, ACL, limits, is the backend down? -> queue pair with one receive
//   kEstablished -> a place, endpoint with its receives, kOpen to a worker -> kOpened -> calls are taken
//   receive -> ServerEndpoint -> Call -> lane, by its program -> built-in program here, or kSend / kRun to a worker
//   kMessage / kRan -> matched by XID -> ServerEndpoint::reply -> RDMA Writes and SEND
//   kMessage that is a call -> ServerEndpoint::submit_reverse -> the client's reply -> kSend (RFC 8167; gateway_reverse.cc)
//   any failure, either side -> the peer is told, kClose, everything of the connection is given back; while the backend still
//   works on its calls kClose waits, and so do the calls of the client's next connection (ReplayGuard; gateway_orphans.cc)
//   a client's connections may lie on several cores -> CoreMessages between their gateways (gateway_cores.cc)
//
// Ownership: a Connection owns its queue pair (created and destroyed here) and its endpoint. A LinkId carries a generation, so
// that what a worker says about a connection that is gone is dropped.
// Bounds: connections_max, half_open_max, calls_in_flight_max. When the workers fall behind, calls wait in their endpoints (and
// so cost the client its credits), new connections are refused, and closing goes on. A backend that does not answer leaves calls
// to the others (rpcrdma::BackendShares); where routes lead to several, those behind its calls on the same connection wait, too.
// Anybody can ask for a connection in anybody's name, and only a client that has our answer can finish the handshake: before
// that a connection is half open and has a queue pair with one receive. It has no place, no credits, no backend connection, and
// ends nobody else's.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/intrusive_list.h"
#include "base/ring.h"
#include "base/slab.h"
#include "base/table_memory.h"
#include "base/timer_wheel.h"
#include "gateway/backend_link.h"
#include "gateway/broken_calls.h"
#include "gateway/client_shares.h"
#include "gateway/connection_quota.h"
#include "gateway/core_message.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "gateway/listener_lanes.h"
#include "gateway/replay_guard.h"
#include "gateway/server_choice.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "verbs/transport.h"

namespace cw::gateway {

struct PendingCall;

enum class ConnectionState : uint8_t { kAccepting, kOpeningBackend, kEstablished };
[[nodiscard]] const char* to_string(ConnectionState state) noexcept;

// A copy of everything worth showing about a connection.
struct ConnectionInfo {
  uint64_t id = 0;
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
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Starts listening.
  [[nodiscard]] Status start();
  // Acts on whatever the transport has for it. Call after each burst.
  void run(Instant now);
  // Towards the workers; false when there is nothing.
  [[nodiscard]] bool poll_backend_request(BackendRequest& out);
  void on_backend_event(Instant now, BackendEvent&& event);
  // Towards the gateways of other cores: the next message and the core that it is for, nullptr when there is none.
  struct CoreMail {
    uint32_t to = 0;
    CoreMessage message;
  };
  [[nodiscard]] const CoreMail* next_core_message() const { return core_mail_.empty() ? nullptr : &core_mail_.front(); }
  void pop_core_message() { core_mail_.pop_front(); }
  // From those gateways, or with kServerState from whoever checks servers.
  void on_core_message(Instant now, const CoreMessage& message);
  // The server of the backend that a new connection would go to, by number.
  [[nodiscard]] uint32_t preferred_server(uint32_t backend) const { return servers_[backend].pick(); }
  // Records of answered calls, for histograms.
  [[nodiscard]] bool poll_done(rpcrdma::CallDone& out);
  // nullptr when there is none.
  [[nodiscard]] const Notice* next_notice() const { return notices_.empty() ? nullptr : &notices_.front(); }
  void pop_notice() { (void)notices_.pop(); }
  [[nodiscard]] Instant next_deadline() const;

  // Takes over from `fresh`, in exchange for what was: who may connect, what goes where, limits and times, for connections that
  // begin from now on (of backends' times and classes' budgets also for those that there are). Backend connections stay with the
  // server that they lead to until they end, and connections count in their class, in its budget too when it is removed. Places
  // that are shared are for their owner to change. Precondition: all listeners, backends and classes of clients that there have
  // been.
  void reconfigure(GatewayOptions& fresh);

  // Orderly end: refuses new connections, disconnects all. is_quiet() when the last is gone; poll run() until then.
  void shut_down(Instant now);
  [[nodiscard]] bool is_quiet() const;

  // Refuses new connections and ends the others in order, without failing a call: see gateway_drain.cc. Over when stats() says
  // that no connection is open; poll run() until then.
  void drain(Instant now);
  // Takes connections and calls again.
  void end_drain(Instant now);
  // Disconnects all, whatever they are doing: for a drain that has to come to an end.
  void close_all(Instant now);
  [[nodiscard]] bool is_draining() const { return draining_; }

  // Fills `out` as far as it reaches and returns how many connections there are.
  [[nodiscard]] uint32_t describe(Instant now, std::span<ConnectionInfo> out) const;
  // The same by instalments, so that no turn of the core gets long: looks at `slots` places from `place` on, adds to `out` from
  // `count` on as far as it reaches, and returns the place to go on from; 0 when that were all. Begin with 0 and 0.
  [[nodiscard]] uint32_t describe_some(Instant now, uint32_t place, uint32_t slots, std::span<ConnectionInfo> out,
                                       uint32_t& count) const;
  [[nodiscard]] const GatewayStats& stats() const { return stats_; }
  [[nodiscard]] const rpcrdma::RpcRdmaStats& rpcrdma_stats() const { return shared_.stats; }
  [[nodiscard]] const rpcrdma::StageDurations& stage_durations() const { return shared_.durations; }
  // What calls hold of what all share; for tests and simulation.
  [[nodiscard]] uint64_t pulled_units() const { return shared_.pulled_units; }
  [[nodiscard]] uint64_t reply_bytes() const { return shared_.reply_bytes; }
  [[nodiscard]] uint32_t slots_in_use() const { return shared_.calls->in_use(); }

 private:
  struct Connection;
  struct Lane;
  struct Orphan;
  struct OrphanTag {};

  void take_events(Instant now);
  void on_event(Instant now, const verbs::ConnectionEvent& event);
  void on_connect_request(Instant now, const verbs::ConnectionEvent& request);
  void refuse(Instant now, const verbs::ConnectionEvent& request, verbs::RejectReason reason, ConnectionResult result,
              uint32_t backend);
  // Why a request cannot have a place, or nothing.
  [[nodiscard]] std::optional<ConnectionResult> lack_of_place(const verbs::ConnectionEvent& request, uint32_t listener_index,
                                                              std::optional<uint32_t> client_class);
  [[nodiscard]] bool is_known_down(Instant now, uint32_t backend) const;
  void count_refusal(ConnectionResult result, std::optional<uint32_t> client_class);
  // Answers, or ends the connection when there is no queue pair for it.
  void accept(Instant now, Connection& connection, const verbs::ConnectionEvent& request);
  // The client has proved its address: gives it what is scarce, or ends it.
  void establish(Instant now, Connection& connection);
  [[nodiscard]] std::optional<ConnectionResult> take_place(Connection& connection);
  // Its queue pair has something to say before kEstablished: the connection when it is established with that, else nullptr.
  [[nodiscard]] Connection* establish_by_data(Instant now, Connection& connection);
  void start_endpoint(Instant now, Connection& connection);
  // Its backend connection is open, or it needs none.
  void take_calls(Connection& connection);
  [[nodiscard]] uint32_t backed_credits(const Connection& connection, uint32_t credits) const;
  void prefetch_ready() const;
  void on_queue_pair_ready(Instant now, const verbs::ReadyQueuePair& ready);
  void pump(Instant now, Connection& connection);
  [[nodiscard]] bool may_take_call(const Connection& connection) const;
  void route(Instant now, Connection& connection, rpcrdma::Call&& call);
  void run_program(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call);
  void on_backend_message(Instant now, Connection& connection, Lane& lane, Chain&& message);
  void open_reverse(Connection& connection, Lane& lane, const rpcrdma::Call& call);
  void call_back(Instant now, Connection& connection, Lane& lane, const rpcrdma::CallContext& context, const Chain& message);
  void on_reverse_call(Instant now, Connection& connection, Lane& lane, uint32_t xid, Chain&& call);
  void pass_reverse_outcomes(Connection& connection);
  void send_to_backend(const Lane& lane, Chain&& message);
  void refuse_reverse(const Lane& lane, uint32_t xid, ReverseDrop reason, bool answers);
  [[nodiscard]] static Lane* take_reverse_lane(Connection& connection, uint32_t xid);
  void on_timer(Instant now, Connection& connection);
  void arm(Connection& connection, Instant deadline);
  // Ends a connection whatever its state: the peer is told (unless `peer_ended`), the link closed, everything given back.
  void end(Instant now, Connection& connection, ConnectionResult result, bool peer_ended);
  // The same without a line in the log.
  void finish(Instant now, Connection& connection, ConnectionResult result, bool peer_ended);
  void check_failed(Instant now, Connection& connection);
  [[nodiscard]] static ConnectionResult ending_of(const Connection& connection);
  void go_on_draining(Instant now, Connection& connection);
  // RFC 8166 3.3.1: while the table of calls is nearly full, clients are granted a part of their credits.
  void adapt_grants();
  [[nodiscard]] uint32_t grant_of(const Connection& connection) const;
  void note(const Notice& notice);
  void reconfigure_listeners(std::vector<ListenerOptions>& fresh);
  void reconfigure_backends(std::vector<BackendOptions>& fresh);
  void reconfigure_clients(std::vector<ClientClassOptions>& fresh);
  void give_place_back(const Connection& connection);
  void fold_budgets();
  [[nodiscard]] ConnectionInfo info_of(Instant now, const Connection& connection) const;
  [[nodiscard]] bool requests_room(uint32_t count = 1) const { return requests_.capacity() - requests_.size() >= count; }
  // Closes the backend connection, now or when the backend has answered what it was sent.
  void part_from_backend(Instant now, Connection& connection, Lane& lane, bool may_keep);
  [[nodiscard]] rpcrdma::ClientShare& join_client(const IpAddress& address);
  void leave_client(const IpAddress& address);
  // Lanes: gateway_lanes.cc.
  void add_lanes(Connection& connection);
  void drop_lanes(Connection& connection);
  void set_lanes(size_t listener_index);
  [[nodiscard]] rpcrdma::BackendShares shares_of(const ListenerOptions& listener);
  [[nodiscard]] LinkId new_link(uint32_t slot, uint32_t lane);
  void open_lane(Instant now, Connection& connection, Lane& lane, std::optional<uint32_t> xid);
  [[nodiscard]] bool waits_for_first_call(const Connection& connection) const;
  // Opens the backend connection of lane 0 as soon as it is known from where.
  void open_first(Instant now, Connection& connection);
  void forget_link(Lane& lane);
  void give_port_back(Lane& lane);
  [[nodiscard]] bool has_xid(Connection& connection, uint32_t xid);
  void fail_lane(Instant now, Connection& connection, Lane& lane);
  void check_lanes(Instant now, Connection& connection);
  void on_lane_closed(Instant now, Connection& connection, Lane& lane);
  void answer(Instant now, Connection& connection, rpcrdma::CallId call, uint32_t xid, rpcrdma::AcceptStatus status);
  [[nodiscard]] bool is_tcp(const Lane& lane) const;
  void close_link(LinkId link, uint32_t backend);
  void on_orphan_event(BackendEvent&& event);
  // What the backend has not answered counts as answered.
  void release_orphan(Orphan& orphan);
  void give_up(Orphan& orphan);
  void return_units(Orphan& orphan, const PendingCall& call);
  void hold_calls(Instant now, Connection& connection);
  void release_calls(Instant now);
  // One of what the connection's calls wait for is over.
  void let_go(Instant now, Connection& connection);
  void answer_fence(const CoreMessage& fence);
  void tell_fence_done(LinkId link, bool waited);
  void tell_other_cores(const CoreMessage& message);
  [[nodiscard]] bool speaks_for_all(uint32_t backend) const;
  void note_backend(Instant now, uint32_t backend, bool up);
  void on_server_state(Instant now, uint32_t backend, uint32_t server, control::ServerState state);
  void judge_by_checks(uint32_t backend);
  void remember_broken_call(Instant now, const Connection& connection, uint32_t xid);
  void push_request(BackendRequest&& request);
  [[nodiscard]] Connection* find(LinkId link);
  [[nodiscard]] const ListenerOptions* listener_for(uint16_t port) const;

  GatewayOptions options_;
  verbs::Transport& transport_;
  BufferPool& packets_;
  BufferPool& large_;
  rpcrdma::ProgramRegistry& programs_;
  RandomSource& random_;
  rpcrdma::ServerShared shared_;
  std::unique_ptr<Slab<Connection>> memory_;
  std::vector<Connection*, TableAllocator<Connection*>> connections_;  // by slot; nullptr = free
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> generations_;
  std::unique_ptr<ConnectionQuota> own_quota_;  // nullptr when they are shared
  ConnectionQuota& quota_;
  std::unique_ptr<ConnectionQuota> own_client_quota_;
  ConnectionQuota& client_quota_;
  std::vector<rpcrdma::SharedBudget> budgets_;  // by class of clients, of all that there may be; never resized
  ClientShares<Orphan> client_shares_;
  // By backend, of all that there may be, and one more for calls that no backend is known for; never resized.
  std::vector<rpcrdma::BackendShare> backend_shares_;
  TimerWheel timers_;
  // Connections keep the lanes that they began with: those of a listener before a reload are there until the last has ended.
  struct LaneTable {
    ListenerLanes lanes;
    rpcrdma::BackendShares shares;
    uint64_t connections = 0;
  };
  std::list<LaneTable> lane_tables_;
  std::vector<LaneTable*> lanes_;  // by listener: of new connections; nullptr of one that was never there
  Ring<BackendRequest> requests_;
  uint32_t requests_pushed_ = 0;  // modulo 2^32
  // Backend connections to close, each behind what was requested before it. In a queue of their own, so that closing never has to
  // wait for room: it grows with backend connections, never with calls.
  struct Close {
    LinkId link;
    uint32_t backend = 0;
    uint32_t behind = 0;  // requests_pushed_ at the time
  };
  std::deque<Close> closes_;
  struct StalledTag {};
  IntrusiveList<Connection, StalledTag> stalled_;  // connections with calls that wait for room in requests_
  ReplayGuard guard_;
  std::unordered_map<uint64_t, std::unique_ptr<Orphan>> orphans_;  // by link; at most connections_max
  IntrusiveList<Orphan, OrphanTag> orphans_by_age_;
  std::deque<CoreMail> core_mail_;  // grows with connections, never with calls
  Ring<Notice> notices_;
  struct Waiting {
    LinkId link;  // of the connection
    uint32_t lane = 0;
    rpcrdma::Call call;
  };
  Ring<Waiting> waiting_;  // calls of built-in programs that found no memory for their reply
  GatewayStats stats_;
  std::vector<ServerChoice> servers_;  // by backend, with room for all that there may be
  std::vector<Instant> down_until_;    // by backend, of all that there may be: requests for it are refused until then
  BrokenCalls broken_calls_;
  bool short_of_slots_ = false;
  bool shutting_down_ = false;
  bool draining_ = false;
};

}  // namespace cw::gateway
