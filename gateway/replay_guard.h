// Keeps a client's calls in order across its connections.
//
// A client whose connection broke sends the calls that were not answered again on a new one (RFC 8166 4.5.5), and goes on when
// those have been answered. The first copies may still be on their way through the backend: executed later than what the client
// did since, an old WRITE would undo a newer one, and no duplicate request cache of the backend's sees that the two are one when
// they come over two connections. So a new connection's calls are held until every call that its client had at the backend
// before has been answered there.
//
// That is, all calls of the client, also those on its other connections (nconnect), which may be alive and well. It would be
// enough to wait for those of the connection that the new one replaces, but nothing says for sure which that is:
// - The REQ does not say. Its source port is another for each connection.
// - XIDs that go on from those of a former connection are a habit of Linux (SourcePorts). Other clients may count over all their
//   connections, or draw each XID. A guess does where a wrong one costs a duplicate request cache its hit; here it costs data.
// - Of a connection that has broken at the client we may hear after the REQ for its successor, or only by a keepalive. Until then
//   it looks as alive as the others.
// One sign would do: the client acknowledges, on the other connection, something that was sent to it after the new one had been
// established. The guard would have to count calls by connection, and the gateway to probe connections on which nothing is due,
// on all cores. As it is, a new connection waits as long as the slowest of its client's calls, and no longer than
// GatewayOptions::orphan_max; the client's other connections go on meanwhile.
//
// Calls are counted by epoch: a new connection that finds calls in flight begins one, and waits for all before. A client is an
// address with one backend. Allocates with connections, never with calls. Bounds: as many clients and epochs as connections.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/ip_address.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

class ReplayGuard {
 public:
  class Client;

  // `key`: secret, since clients choose their addresses: two of the same hash would wait for each other.
  explicit ReplayGuard(uint64_t key);
  ~ReplayGuard();
  ReplayGuard(const ReplayGuard&) = delete;
  ReplayGuard& operator=(const ReplayGuard&) = delete;

  // A connection of the client, to be given back by leave() when it is over and none of its calls is at the backend.
  [[nodiscard]] Client& join(const IpAddress& address, uint32_t backend);
  void leave(Client& client);
  // nullptr: the client has no connection here.
  [[nodiscard]] Client* find(const IpAddress& address, uint32_t backend) const;

  // A call goes to the backend; the epoch is to be given back by end() when it is answered or can have no effect any more.
  [[nodiscard]] uint32_t begin(Client& client);
  void end(Client& client, uint32_t epoch);

  // From here on the connection's calls may be sent. True: they have to wait; poll_released() says when they may go.
  [[nodiscard]] bool hold(Client& client, LinkId link);
  // Waits no more, or has ended.
  void forget(Client& client, LinkId link);
  [[nodiscard]] bool poll_released(LinkId& out);

  [[nodiscard]] size_t client_count() const { return clients_.size(); }

 private:
  uint64_t key_;
  std::unordered_map<uint64_t, std::unique_ptr<Client>> clients_;  // by hash: two that share one wait for each other
  std::deque<LinkId> released_;
};

}  // namespace cw::gateway
