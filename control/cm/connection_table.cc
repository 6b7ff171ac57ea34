#include "control/cm/connection_table.h"

#include <bit>

#include "base/assert.h"
#include "base/keyed_hash.h"

namespace cw::cm {

namespace {

bool is_same_peer(const CmAddress& a, const CmAddress& b) {
  return a.remote == b.remote && a.vlan == b.vlan && a.port == b.port;
}

}  // namespace

ConnectionTable::ConnectionTable(uint32_t capacity, const CoreShare& core, RandomSource& random)
    : capacity_(capacity),
      core_(core),
      bucket_mask_(std::bit_ceil(capacity + 1) - 1),
      random_(random),
      hash_key_(random.next_u64()),
      connections_(capacity),
      free_(capacity),
      by_local_id_(bucket_mask_ + 1, Connection::kNone),
      by_remote_id_(bucket_mask_ + 1, Connection::kNone),
      by_remote_qpn_(bucket_mask_ + 1, Connection::kNone) {
  for (uint32_t i = 0; i < capacity; ++i) {
    connections_[i].slot = i;
    free_[i] = i;
  }
}

ConnectionTable::~ConnectionTable() = default;

Connection* ConnectionTable::create() {
  if (size_ == capacity_) {
    return nullptr;
  }
  uint32_t local_comm_id = 0;
  do {
    local_comm_id = (random_.next_u32() << core_.bits()) | core_.index;
  } while (local_comm_id == 0 || find_by_local_id(local_comm_id) != nullptr);
  return create(local_comm_id);
}

Connection* ConnectionTable::create(uint32_t local_comm_id) {
  const uint32_t core_mask = (1u << core_.bits()) - 1;
  if (size_ == capacity_ || local_comm_id == 0 || (local_comm_id & core_mask) != core_.index ||
      find_by_local_id(local_comm_id) != nullptr) {
    return nullptr;
  }
  const uint32_t slot = free_[free_head_];
  free_head_ = free_head_ + 1 == capacity_ ? 0 : free_head_ + 1;
  ++size_;
  Connection& connection = connections_[slot];
  ++connection.generation;
  connection.local_comm_id = local_comm_id;
  connection.transaction_id = random_.next_u64();
  link(by_local_id_, &Connection::next_by_local_id, bucket_of_local(connection.local_comm_id), connection);
  return &connection;
}

void ConnectionTable::destroy(Connection& connection) {
  CW_ASSERT(size_ > 0 && !connection.has_event() && !connection.is_evictable() && !connection.is_armed());
  unlink(by_local_id_, &Connection::next_by_local_id, bucket_of_local(connection.local_comm_id), connection);
  forget_remote_qpn(connection);
  if (connection.remote_known) {
    unlink(by_remote_id_, &Connection::next_by_remote_id, bucket_of_remote(connection.address.remote, connection.remote_comm_id),
           connection);
  }
  const uint32_t slot = connection.slot;
  const uint32_t generation = connection.generation;
  std::destroy_at(&connection);
  std::construct_at(&connection);
  connection.slot = slot;
  connection.generation = generation;
  --size_;
  uint32_t tail = free_head_ + (capacity_ - size_ - 1);
  tail = tail >= capacity_ ? tail - capacity_ : tail;
  free_[tail] = slot;
}

void ConnectionTable::set_remote(Connection& connection) {
  CW_ASSERT(!connection.remote_known);
  connection.remote_known = true;
  connection.in_qpn_index = true;
  link(by_remote_id_, &Connection::next_by_remote_id, bucket_of_remote(connection.address.remote, connection.remote_comm_id),
       connection);
  link(by_remote_qpn_, &Connection::next_by_remote_qpn,
       bucket_of_remote(connection.address.remote, connection.remote_qpn.value()), connection);
}

void ConnectionTable::forget_remote_qpn(Connection& connection) {
  if (!connection.in_qpn_index) {
    return;
  }
  connection.in_qpn_index = false;
  unlink(by_remote_qpn_, &Connection::next_by_remote_qpn,
         bucket_of_remote(connection.address.remote, connection.remote_qpn.value()), connection);
}

Connection* ConnectionTable::find(ConnectionId id) {
  const uint64_t slot = id.value() & UINT32_MAX;
  if (slot >= capacity_) {
    return nullptr;
  }
  Connection& connection = connections_[slot];
  // A free slot keeps the generation of its last connection, whose id would fit: the communication id says that nobody has it.
  return connection.local_comm_id != 0 && connection.id() == id ? &connection : nullptr;
}

Connection* ConnectionTable::find_by_local_id(uint32_t local_comm_id) {
  uint32_t at = by_local_id_[bucket_of_local(local_comm_id)];
  while (at != Connection::kNone && connections_[at].local_comm_id != local_comm_id) {
    at = connections_[at].next_by_local_id;
  }
  return at == Connection::kNone ? nullptr : &connections_[at];
}

Connection* ConnectionTable::find_by_remote_id(const CmAddress& path, uint32_t remote_comm_id) {
  uint32_t at = by_remote_id_[bucket_of_remote(path.remote, remote_comm_id)];
  while (at != Connection::kNone) {
    Connection& candidate = connections_[at];
    if (candidate.remote_comm_id == remote_comm_id && candidate.address.is_same_path(path)) {
      return &candidate;
    }
    at = candidate.next_by_remote_id;
  }
  return nullptr;
}

template <typename Fits>
Connection* ConnectionTable::find_by_remote_qpn_if(const CmAddress& path, verbs::Qpn remote_qpn, Fits&& fits) {
  uint32_t at = by_remote_qpn_[bucket_of_remote(path.remote, remote_qpn.value())];
  while (at != Connection::kNone) {
    Connection& candidate = connections_[at];
    if (candidate.remote_qpn == remote_qpn && is_same_peer(candidate.address, path) && fits(candidate)) {
      return &candidate;
    }
    at = candidate.next_by_remote_qpn;
  }
  return nullptr;
}

Connection* ConnectionTable::find_by_remote_qpn(const CmAddress& path, verbs::Qpn remote_qpn, const Connection* but) {
  return find_by_remote_qpn_if(path, remote_qpn, [&](const Connection& candidate) { return &candidate != but; });
}

Connection* ConnectionTable::find_established(const CmAddress& path, verbs::Qpn remote_qpn) {
  return find_by_remote_qpn_if(path, remote_qpn,
                               [](const Connection& candidate) { return candidate.state == ConnectionState::kEstablished; });
}

uint32_t ConnectionTable::bucket_of_local(uint32_t local_comm_id) const {
  return static_cast<uint32_t>(mix(local_comm_id ^ hash_key_)) & bucket_mask_;
}

uint32_t ConnectionTable::bucket_of_remote(const IpAddress& remote, uint32_t number) const {
  return static_cast<uint32_t>(hash_of(hash_key_, remote, number)) & bucket_mask_;
}

void ConnectionTable::link(std::vector<uint32_t>& heads, Chain chain, uint32_t bucket, Connection& connection) {
  connection.*chain = heads[bucket];
  heads[bucket] = connection.slot;
}

void ConnectionTable::unlink(std::vector<uint32_t>& heads, Chain chain, uint32_t bucket, Connection& connection) {
  uint32_t* at = &heads[bucket];
  while (*at != connection.slot) {
    CW_ASSERT(*at != Connection::kNone);
    at = &(connections_[*at].*chain);
  }
  *at = connection.*chain;
  connection.*chain = Connection::kNone;
}

}  // namespace cw::cm
