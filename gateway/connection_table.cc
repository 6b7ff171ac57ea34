#include "gateway/connection_table.h"

#include <utility>

#include "base/assert.h"
#include "gateway/backend_link.h"

namespace cw::gateway {

ConnectionTable::ConnectionTable(uint32_t slots, const CoreShare& core)
    : core_(core),
      memory_(std::make_unique<Slab<Connection>>(slots)),
      connections_(slots),
      generations_(slots),
      timers_(slots),
      endings_(slots) {
  CW_ASSERT(slots < 1u << kLinkSlotBits);
  free_slots_.reserve(slots);
  for (uint32_t slot = slots; slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
}

Connection& ConnectionTable::create() {
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  connections_[slot] = memory_->create();
  Connection& connection = *connections_[slot];
  connection.slot = slot;
  connection.number = created_++ * core_.count + core_.index + 1;
  connection.link = new_link(slot, 0);
  return connection;
}

void ConnectionTable::free(Connection& connection) {
  timers_.cancel(connection);
  static_cast<ListNode<StalledTag>&>(connection).unlink_if_linked();
  const uint32_t slot = connection.slot;
  memory_->destroy(std::exchange(connections_[slot], nullptr));
  free_slots_.push_back(slot);
}

Connection* ConnectionTable::find(LinkId link) {
  const uint32_t slot = slot_of(link);
  if (slot >= connections_.size() || connections_[slot] == nullptr || connections_[slot]->is_ending) {
    return nullptr;
  }
  Connection* connection = connections_[slot];
  if (connection->link == link) {
    return connection;
  }
  const uint32_t lane = lane_of(link);
  return lane > 0 && lane <= connection->more.size() && connection->lane(lane).link == link ? connection : nullptr;
}

LinkId ConnectionTable::new_link(uint32_t slot, uint32_t lane) {
  return link_id(++generations_[slot], core_.index, lane, slot);
}

void ConnectionTable::end(Connection& connection, ConnectionResult result, bool peer_ended) {
  if (!std::exchange(connection.is_ending, true)) {
    (void)endings_.push(Ending{&connection, result, peer_ended, false});
  }
}

void ConnectionTable::end_silently(Connection& connection, ConnectionResult result) {
  if (!std::exchange(connection.is_ending, true)) {
    (void)endings_.push(Ending{&connection, result, true, true});
  }
}

Ending ConnectionTable::take_ending() {
  return endings_.pop();
}

void ConnectionTable::prefetch_entries(std::span<const uint64_t> links) const {
  for (const uint64_t link : links) {
    __builtin_prefetch(&connections_[slot_of(LinkId(link))]);
  }
}

void ConnectionTable::prefetch(LinkId link) const {
  if (const Connection* connection = connections_[slot_of(link)]) {
    connection->prefetch();
  }
}

}  // namespace cw::gateway
