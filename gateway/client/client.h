// The client role on a verbs::Transport: opens RPC-over-RDMA connections and keeps them, for the load generator,
// the simulation and tests.
//
//   connect() -> kConnectResponse -> endpoint -> kConnected -> calls on endpoint(id)
//   lost or refused -> kLost / kRefused, once; the id is dead afterwards
//
// Every connection has a protection domain of its own: a key shown to one server opens nothing for another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/intrusive_list.h"
#include "base/random.h"
#include "base/ring.h"
#include "base/timer_wheel.h"
#include "rpcrdma/backend/backend.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "rpcrdma/wire/private_data.h"
#include "verbs/transport.h"

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
};

struct ClientEvent {
  enum class Kind : uint8_t { kConnected, kRefused, kLost };
  Kind kind = Kind::kLost;
  ClientId id;
  verbs::Rejection rejection;      // kRefused
  verbs::QueuePairError qp_error;  // kLost
};

class Client {
 public:
  Client(const ClientOptions& options, verbs::Transport& transport, verbs::MemoryRegistry& memory, BufferPool& packets,
         RandomSource& random);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // What answers the server's calls (RFC 8167) when options.rpc.reverse_credits allows them; without it they get PROG_UNAVAIL.
  // Call before connect(); `programs` must outlive the client.
  void serve(rpcrdma::ProgramRegistry& programs) { reverse_programs_ = &programs; }
  // Opens a connection to an NFS/RDMA-like service. kNoResources: connections_max are open. kBadValue: no own address of that
  // family.
  [[nodiscard]] Result<ClientId> connect(Instant now, const IpAddress& server, uint16_t service_port);
  // ClientEndpoint::cancel() for a connection's call: what it leads to is noticed at once.
  [[nodiscard]] Status cancel(ClientId id, uint32_t xid);
  // Tells the server; no event follows.
  void disconnect(Instant now, ClientId id);
  // Acts on whatever the transport has. Call after each burst.
  void run(Instant now);
  [[nodiscard]] bool poll_event(ClientEvent& out);
  // nullptr until kConnected.
  [[nodiscard]] rpcrdma::ClientEndpoint* endpoint(ClientId id);
  [[nodiscard]] verbs::QueuePair* queue_pair(ClientId id);
  [[nodiscard]] verbs::QueuePairInfo describe(ClientId id) const;
  // A connection whose endpoint has replies to poll; each once until the next news. nullopt: none.
  [[nodiscard]] std::optional<ClientId> poll_ready();
  [[nodiscard]] Instant next_deadline() const { return earlier(timers_.next_deadline(), transport_.next_deadline()); }
  [[nodiscard]] uint32_t connected_count() const { return connected_; }
  [[nodiscard]] const rpcrdma::RpcRdmaStats& rpcrdma_stats() const { return stats_; }

 private:
  struct Connection;
  // What we say of ourselves (RFC 8797).
  [[nodiscard]] rpcrdma::PrivateData ours() const;
  void take_events(Instant now);
  void on_event(Instant now, const verbs::ConnectionEvent& event);
  void on_response(Instant now, Connection& connection, const verbs::ConnectionEvent& response);
  void lose(Connection& connection);
  void end(Connection& connection, const ClientEvent& event, bool tell);
  void serve_reverse(Instant now, Connection& connection);
  void arm(Connection& connection);
  [[nodiscard]] Connection* find(ClientId id) const;

  ClientOptions options_;
  verbs::Transport& transport_;
  verbs::MemoryRegistry& memory_;
  BufferPool& packets_;
  RandomSource& random_;
  std::vector<std::unique_ptr<Connection>> connections_;
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
