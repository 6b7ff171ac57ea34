// Which TCP port a backend connection is made from.
//
// Servers keep the replies to calls that must not be executed twice (NFSv3 CREATE, REMOVE, RENAME ...) in a cache, and know a
// repeated call by its XID and by the address and port that it comes from. A client whose RDMA connection broke repeats its calls
// on a new one, so the new backend connection has to come from the port of the old one. RDMA has no port that stays: Linux draws
// another for each connection. Hence ports belong to clients: the n-th connection that a client has at the same time has the
// client's n-th port. A connection that breaks leaves its number free, and the one that follows it takes the lowest free number.
//
// When several connections of a client break together (nconnect) they come back in any order. What tells them apart is the XID
// of the first call: each transport of a Linux client counts its own from a random number, and goes on counting when it connects
// again. So a number that is free keeps the last XID of its connection, and goes to the connection whose first XID is near.
//
// A port stays its client's after the client is gone, until so many others have been given up since that the oldest are
// forgotten. Else a client could take another's while that one reconnects, where all come from the gateway's address, and the
// other's repeated calls would be executed twice.
//
// A port follows from the client's address, the number and a key. From a client's own address it follows from the first two
// alone, so that another gateway gives the same (fail-over with source = "client"). Where clients share one source address and
// two have the same port, one of them gets the next one; the key keeps clients with addresses of their choice from aiming at each
// other's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ip_address.h"

namespace cw::gateway {

class SourcePorts {
 public:
  virtual ~SourcePorts() = default;
  // The XID of a connection's first call says which port is its own: the client has several, and one at least waits for its
  // connection to come back.
  [[nodiscard]] virtual bool depends_on_xid(const IpAddress& client, uint32_t backend) const = 0;
  // For a connection to `backend` on behalf of `client`; 0: any that the system picks. To be given back when the client's
  // connection is over, even if its backend connection is not yet. `xid`: of its first call, when that is known.
  [[nodiscard]] virtual uint16_t take(const IpAddress& client, uint32_t backend, std::optional<uint32_t> xid = {}) = 0;
  // `xid`: of the last call that went that way, if there was one.
  virtual void give_back(const IpAddress& client, uint32_t backend, uint16_t port, std::optional<uint32_t> xid = {}) = 0;
};

// For one thread. Bounds: what is out, and kept_max.
class PortBook final : public SourcePorts {
 public:
  // A client's calls before and after its connection broke are no further apart. By chance two transports are as near once in
  // 32,768 times.
  static constexpr uint32_t kXidSpan = 65'536;
  // From so many numbers on a client's connection takes one that waits for another connection, instead of one more: twice what
  // Linux clients have (nconnect).
  static constexpr uint32_t kNumbersMax = 32;
  // Ports that are kept for clients that are gone. A client can have others forgotten by making as many connections at the same
  // time, from as many addresses as it takes.
  static constexpr uint32_t kKeptMax = 8192;

  // Ports `first` to `last`. `key`: of ports that clients share, not known to them, and the same after a restart.
  PortBook(uint16_t first, uint16_t last, uint64_t key = 0, uint32_t kept_max = kKeptMax)
      : first_(first), count_(uint32_t{last} - first + 1), key_(key), kept_max_(kept_max) {}

  // Connections to this backend come from the client's own address: its ports are nobody else's. Before the first take().
  void set_from_client(uint32_t backend) { from_client_.insert(backend); }

  [[nodiscard]] bool depends_on_xid(const IpAddress& client, uint32_t backend) const override;
  [[nodiscard]] uint16_t take(const IpAddress& client, uint32_t backend, std::optional<uint32_t> xid = {}) override;
  void give_back(const IpAddress& client, uint32_t backend, uint16_t port, std::optional<uint32_t> xid = {}) override;
  // Ports that are out, and those that wait for their client.
  [[nodiscard]] size_t used_count() const { return used_; }
  [[nodiscard]] size_t kept_count() const { return kept_.size(); }

 private:
  using Client = std::pair<uint32_t, std::array<uint8_t, 16>>;  // backend, address
  struct Kept {
    Client client;
    uint16_t port = 0;
  };
  using KeptList = std::list<Kept>;
  struct Number {
    uint16_t port = 0;  // 0: none
    bool used = false;
    std::optional<uint32_t> xid;  // of the last call of the connection that had it last
    KeptList::iterator kept;      // valid with a port that is not used
  };
  using Numbers = std::vector<Number>;
  using Taken = std::map<uint16_t, KeptList::iterator>;  // end(): used

  [[nodiscard]] static Number* find_free(Numbers& numbers, std::optional<uint32_t> xid);
  [[nodiscard]] uint16_t pick(const Client& client, const IpAddress& address, uint32_t number);
  [[nodiscard]] Taken& taken_of(const Client& client);
  // The client has it no more.
  void forget(KeptList::iterator kept);
  void trim(std::map<Client, Numbers>::iterator client);

  uint16_t first_;
  uint32_t count_;
  uint64_t key_;
  uint32_t kept_max_;
  size_t used_ = 0;
  std::map<Client, Numbers> clients_;
  KeptList kept_;                     // the longest ago first
  std::map<Client, Taken> own_;       // by client, from its own address
  std::map<uint32_t, Taken> shared_;  // from the gateway's address, by backend
  std::set<uint32_t> from_client_;
};

}  // namespace cw::gateway
