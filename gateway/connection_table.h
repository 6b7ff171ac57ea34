// The connections of one core's gateway by link, their deadlines, and which of them are over.
//
// A connection that is over is marked by end(), deep in whatever noticed it. From then on find() does not know it, and whoever
// holds it looks at is_ending. The gateway frees what is marked at the end of each of its steps, and never in the middle of one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/core_share.h"
#include "base/ring.h"
#include "base/slab.h"
#include "base/table_memory.h"
#include "base/timer_wheel.h"
#include "gateway/connection.h"

namespace cw::gateway {

// How a connection is over.
struct Ending {
  Connection* connection = nullptr;
  ConnectionResult result = ConnectionResult::kClosedByUs;
  bool peer_ended = false;  // the peer knows
  bool silent = false;      // no line in the log
};

class ConnectionTable {
 public:
  ConnectionTable(uint32_t slots, const CoreShare& core);  // slots: connection_slots()
  // The owner has freed all.
  ~ConnectionTable() = default;

  [[nodiscard]] bool is_full() const { return free_slots_.empty(); }
  // Precondition: !is_full().
  [[nodiscard]] Connection& create();
  void free(Connection& connection);

  // nullptr when it is gone or over; also by the link of one of its lanes.
  [[nodiscard]] Connection* find(LinkId link);
  // Another link for a lane of this slot.
  [[nodiscard]] LinkId new_link(uint32_t slot, uint32_t lane);
  // By slot, those that are over too; nullptr: nobody.
  [[nodiscard]] const Connection* at(uint32_t slot) const { return connections_[slot]; }
  [[nodiscard]] uint32_t slots() const { return static_cast<uint32_t>(connections_.size()); }
  // visit(Connection&): those that are not over. It may end or free the one that it is given.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (Connection* connection : connections_) {
      if (connection != nullptr && !connection->is_ending) {
        visit(*connection);
      }
    }
  }

  // `peer_ended`: the peer knows. Only the first of several counts.
  void end(Connection& connection, ConnectionResult result, bool peer_ended);
  // The same without a line in the log.
  void end_silently(Connection& connection, ConnectionResult result);
  [[nodiscard]] bool has_endings() const { return !endings_.empty(); }
  // The oldest; precondition: has_endings(). The connection is still there.
  [[nodiscard]] Ending take_ending();

  // Not later than at the deadline: moving a timer with each call would cost more than an early wake-up now and then.
  void arm(Connection& connection, Instant deadline) {
    if (!connection.is_armed() || deadline < connection.deadline()) {
      timers_.arm(connection, deadline);
    }
  }
  // One whose deadline has come, nullptr when there is none.
  [[nodiscard]] Connection* pop_expired(Instant now) { return static_cast<Connection*>(timers_.pop_expired(now)); }
  [[nodiscard]] Instant next_deadline() const { return timers_.next_deadline(); }

  // Hints for connections whose turn comes, by link: where all of them lie, and then, shortly before its turn, each of them.
  void prefetch_entries(std::span<const uint64_t> links) const;
  void prefetch(LinkId link) const;

 private:
  CoreShare core_;
  uint64_t created_ = 0;
  std::unique_ptr<Slab<Connection>> memory_;
  std::vector<Connection*, TableAllocator<Connection*>> connections_;  // by slot; nullptr = free
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> generations_;
  TimerWheel timers_;
  Ring<Ending> endings_;  // oldest first
};

}  // namespace cw::gateway
