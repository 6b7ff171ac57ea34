// The client role on a Node: opens RPC-over-RDMA connections and keeps them, for the load generator, the simulation and tests.
//
//   connect() -> neighbour resolved -> queue pair, REQ -> REP -> queue pair ready, RTU -> kConnected -> calls on endpoint(id)
//   lost or refused -> kLost / kRefused, once; the id is dead afterwards
//
// Every connection has a protection domain of its own: a key shown to one server opens nothing for another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fixed_map.h"
#include "base/ring.h"
#include "gateway/node/node.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/endpoint/client_endpoint.h"

namespace cw::client {

struct ClientIdTag {};
using ClientId = StrongId<ClientIdTag, uint32_t>;

struct ClientOptions {
  uint32_t connections_max = 64;
  rpcrdma::ClientOptions rpc;
  uint32_t inline_bytes = 4096;
  bool remote_invalidate = true;
  // Sent in place of RFC 8797's message: what another protocol would say, or nothing. Our side then counts as one that said
  // nothing.
  std::optional<std::vector<uint8_t>> private_data;
  uint32_t path_mtu_bytes = 4096;  // 256, 512, 1024, 2048 or 4096: must fit both ports
  rc::RcOptions rc;                // remote access and domain are set here
  uint8_t ack_timeout = 14;
  Duration resolve_timeout = Duration::seconds(5);
};

struct ClientEvent {
  enum class Kind : uint8_t { kConnected, kRefused, kLost };
  Kind kind = Kind::kLost;
  ClientId id;
  cm::RejectReason reason = cm::RejectReason::kTimeout;  // kRefused: kTimeout also stands for "nobody answered"
  rc::QpError qp_error;                                  // kLost
};

class Client {
 public:
  Client(const ClientOptions& options, node::Node& node, verbs::MemoryTable& memory, BufferPool& packets, RandomSource& random);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // What answers the server's calls (RFC 8167) when options.rpc.reverse_credits allows them; without it they get PROG_UNAVAIL.
  // Call before connect(); `programs` must outlive the client.
  void serve(rpcrdma::ProgramRegistry& programs) { reverse_programs_ = &programs; }
  // Opens a connection to an NFS/RDMA-like service from port 0's address. kNoResources: connections_max are open. kBadValue:
  // no own address of that family.
  [[nodiscard]] Result<ClientId> connect(Instant now, const IpAddress& server, uint16_t service_port);
  // ClientEndpoint::cancel() for a connection's call: what it leads to is noticed at once.
  [[nodiscard]] Status cancel(ClientId id, uint32_t xid);
  // Sends DREQ; no event follows.
  void disconnect(Instant now, ClientId id);
  // Acts on whatever the node has. Call after each burst.
  void run(Instant now);
  [[nodiscard]] bool poll_event(ClientEvent& out);
  // nullptr until kConnected.
  [[nodiscard]] rpcrdma::ClientEndpoint* endpoint(ClientId id);
  [[nodiscard]] rc::RcQp* queue_pair(ClientId id);
  // A connection whose endpoint has replies to poll; each once until the next news. nullopt: none.
  [[nodiscard]] std::optional<ClientId> poll_ready();
  [[nodiscard]] Instant next_deadline() const { return timers_.next_deadline(); }
  [[nodiscard]] uint32_t connected_count() const { return connected_; }
  [[nodiscard]] const rpcrdma::RpcRdmaStats& rpcrdma_stats() const { return stats_; }

 private:
  struct Connection;
  // What we say of ourselves (RFC 8797).
  [[nodiscard]] rpcrdma::PrivateData ours() const;
  void start_handshake(Instant now, Connection& connection, const wire::MacAddress& mac);
  void on_cm_event(Instant now, const cm::CmEvent& event);
  void on_reply(Instant now, Connection& connection, const cm::ConnectReply& reply);
  void end(Connection& connection, const ClientEvent& event, bool tell);
  void serve_reverse(Instant now, Connection& connection);
  void arm(Connection& connection);
  [[nodiscard]] Connection* find(ClientId id);

  ClientOptions options_;
  node::Node& node_;
  verbs::MemoryTable& memory_;
  BufferPool& packets_;
  RandomSource& random_;
  std::vector<std::unique_ptr<Connection>> connections_;
  FixedMap<uint32_t> by_cm_id_;
  TimerWheel timers_;
  Ring<ClientEvent> events_;
  struct ReadyTag {};
  IntrusiveList<Connection, ReadyTag> ready_;
  rpcrdma::RpcRdmaStats stats_;
  Instant now_;  // of the last run()
  rpcrdma::ProgramRegistry no_programs_;
  rpcrdma::ProgramRegistry* reverse_programs_ = &no_programs_;
  uint32_t connected_ = 0;
  uint32_t next_domain_ = 1;
};

}  // namespace cw::client
