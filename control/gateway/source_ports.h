// Which TCP port a backend connection is made from.
//
// Servers keep the replies to calls that must not be executed twice (NFSv3 CREATE, REMOVE, RENAME ...) in a cache, and know a
// repeated call by its XID and by the address and port that it comes from. A client whose RDMA connection broke repeats its calls
// on a new one, so the new backend connection has to come from the port of the old one. RDMA has no port that stays: Linux draws
// another for each connection. Hence ports belong to clients: the n-th connection that a client has at the same time has the
// client's n-th port. A connection that breaks leaves its number free, and the one that follows it takes the lowest free number.
// When several connections of a client break together (nconnect) and come back in another order, their ports are exchanged.
//
// A port follows from the client's address and the number alone, so that another gateway gives the same (fail-over with
// source = "client"). Where clients share one source address and two have the same port, one of them gets the next one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "rocev2/wire/ip_address.h"

namespace cw::gateway {

class SourcePorts {
 public:
  virtual ~SourcePorts() = default;
  // For a connection to `backend` on behalf of `client`; 0: any that the system picks. To be given back when the client's
  // connection is over, even if its backend connection is not yet.
  [[nodiscard]] virtual uint16_t take(const wire::IpAddress& client, uint32_t backend) = 0;
  virtual void give_back(const wire::IpAddress& client, uint32_t backend, uint16_t port) = 0;
};

// For one thread. Bounds: what is out.
class PortBook final : public SourcePorts {
 public:
  // Ports `first` to `last`.
  PortBook(uint16_t first, uint16_t last) : first_(first), count_(uint32_t{last} - first + 1) {}

  // Connections to this backend come from the client's own address: its ports are nobody else's. Before the first take().
  void set_from_client(uint32_t backend) { from_client_.insert(backend); }

  [[nodiscard]] uint16_t take(const wire::IpAddress& client, uint32_t backend) override;
  void give_back(const wire::IpAddress& client, uint32_t backend, uint16_t port) override;
  [[nodiscard]] size_t client_count() const { return clients_.size(); }

 private:
  using Client = std::pair<uint32_t, std::array<uint8_t, 16>>;  // backend, address
  struct Ports {
    std::vector<uint16_t> by_number;  // 0: free
    std::set<uint16_t> used;
  };
  uint16_t first_;
  uint32_t count_;
  std::map<Client, Ports> clients_;
  std::map<uint32_t, std::set<uint16_t>> shared_;  // in use from the gateway's address, by backend
  std::set<uint32_t> from_client_;
};

}  // namespace cw::gateway
