// All connections in a fixed number of slots, found by id, by our communication id, by the peer's communication id on its path,
// and by the peer's QPN. Nothing is allocated after construction.
//
// Hash chains are keyed by a random word, so that a peer that chooses its communication ids cannot make them long.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/core_share.h"
#include "base/random.h"
#include "base/table_memory.h"
#include "control/cm/cm_address.h"
#include "control/cm/connection.h"

namespace cw::cm {

class ConnectionTable {
 public:
  ConnectionTable(uint32_t capacity, const CoreShare& core, RandomSource& random);
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // A fresh connection, its local_comm_id random but for the core in the low bits; or nullptr when all slots are in use.
  [[nodiscard]] Connection* create();
  // The same with this id; nullptr also when it is in use, or none of this core's.
  [[nodiscard]] Connection* create(uint32_t local_comm_id);
  // Takes it out of every index. The caller has taken it out of lists and timers.
  void destroy(Connection& connection);

  // The peer's communication id and QPN became known: index them. Preconditions: address, remote_comm_id and remote_qpn are set;
  // no other connection has the same communication id. Of several with the same QPN the youngest is found.
  void set_remote(Connection& connection);
  // From here on a REQ with this QPN is nothing special.
  void forget_remote_qpn(Connection& connection);

  [[nodiscard]] Connection* find(ConnectionId id);
  [[nodiscard]] Connection* find_by_local_id(uint32_t local_comm_id);
  [[nodiscard]] Connection* find_by_remote_id(const CmAddress& path, uint32_t remote_comm_id);
  [[nodiscard]] Connection* find_by_remote_qpn(const CmAddress& path, verbs::Qpn remote_qpn, const Connection* but = nullptr);
  [[nodiscard]] Connection* find_established(const CmAddress& path, verbs::Qpn remote_qpn);

  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  // For checks over all: slot in [0, capacity()); its state is kIdle when unused.
  [[nodiscard]] Connection& at(uint32_t slot) { return connections_[slot]; }
  [[nodiscard]] const Connection& at(uint32_t slot) const { return connections_[slot]; }

 private:
  using Chain = uint32_t Connection::*;
  [[nodiscard]] uint32_t bucket_of_local(uint32_t local_comm_id) const;
  [[nodiscard]] uint32_t bucket_of_remote(const IpAddress& remote, uint32_t number) const;
  void link(std::vector<uint32_t>& heads, Chain chain, uint32_t bucket, Connection& connection);
  void unlink(std::vector<uint32_t>& heads, Chain chain, uint32_t bucket, Connection& connection);
  // The youngest one of this peer with this QPN that `fits`.
  template <typename Fits>
  [[nodiscard]] Connection* find_by_remote_qpn_if(const CmAddress& path, verbs::Qpn remote_qpn, Fits&& fits);

  uint32_t capacity_;
  CoreShare core_;
  uint32_t bucket_mask_;
  uint32_t size_ = 0;
  RandomSource& random_;
  uint64_t hash_key_;
  std::vector<Connection, TableAllocator<Connection>> connections_;  // never grows: Connections do not move
  std::vector<uint32_t> free_;  // slots, the longest unused first out, so that generations spread
  uint32_t free_head_ = 0;
  std::vector<uint32_t> by_local_id_;
  std::vector<uint32_t> by_remote_id_;
  std::vector<uint32_t> by_remote_qpn_;
};

}  // namespace cw::cm
