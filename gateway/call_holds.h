// Holds a new connection's calls until those of its client's connections before it have been answered (ReplayGuard), on this core
// and on the others, whose gateways are asked (a fence).
#pragma once

#include <cstdint>

#include "gateway/connection_table.h"
#include "gateway/core_message.h"
#include "gateway/gateway_stats.h"
#include "gateway/replay_guard.h"

namespace cw::gateway {

class CallHolds {
 public:
  // The references must outlive it.
  CallHolds(ReplayGuard& guard, ConnectionTable& connections, CoreMails& mails, GatewayStats& stats)
      : guard_(guard), connections_(connections), mails_(mails), stats_(stats) {}

  // For all lanes at once, until `until` at most: a call to one backend may follow from a call to another.
  void hold(Connection& connection, Instant until);
  // Has waited for long enough.
  void give_up(Connection& connection);
  // The lane waits no more, since its connection is over.
  void forget(Lane& lane);
  // A connection whose calls may go from here on, nullptr when there is none; answers fences on the way.
  [[nodiscard]] Connection* next_released();

  // Of another core: its connection stands in the guard as one of this core would.
  void answer_fence(const CoreMessage& fence);
  // The connection whose calls may go from here on, or nullptr.
  [[nodiscard]] Connection* on_fence_done(const CoreMessage& message);

 private:
  // One of what the connection's calls wait for is over; true: that was the last.
  [[nodiscard]] static bool let_go(Connection& connection) { return connection.holds > 0 && --connection.holds == 0; }
  void tell_fence_done(LinkId link, bool waited);

  ReplayGuard& guard_;
  ConnectionTable& connections_;
  CoreMails& mails_;
  GatewayStats& stats_;
};

}  // namespace cw::gateway
