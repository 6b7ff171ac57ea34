// Drain: the gateway empties itself without failing a call.
//
// New connections are refused. A connection that is there takes no more calls, however many its client sends: waiting for a
// client to fall silent would take for ever with one that is busy. It ends when the calls that it has taken are answered and the
// client has acknowledged the answers, since an answer that is lost would have the client repeat a call that was executed. The
// calls that were not taken have reached no backend; the client makes them again on its next connection.
#pragma once

#include <algorithm>

#include "gateway/connection_table.h"
#include "gateway/gateway_stats.h"

namespace cw::gateway {

class Drain {
 public:
  Drain(ConnectionTable& connections, const GatewayStats& stats) : connections_(connections), stats_(stats) {}

  void begin() { draining_ = true; }
  void end() { draining_ = false; }
  [[nodiscard]] bool is_on() const { return draining_; }

  // Looks whether the connection owes nothing more, and when to look again. Precondition: is_on(), and it has an endpoint.
  void go_on(Instant now, Connection& connection) {
    const bool owes = connection.server->calls_taken() > 0 || connection.server->reverse_in_flight() > 0;
    if (owes) {
      connections_.arm(connection, now + kLookAgain);
    } else if (connection.qp->works_pending() > 0) {
      const Duration pause = kBetweenLooks * static_cast<int64_t>(stats_.connections_open);
      connections_.arm(connection, now + std::clamp(pause, kAcknowledgementSoon, kLookAgain));
    } else {
      connections_.end(connection, ConnectionResult::kDrained, false);
    }
  }

 private:
  // The acknowledgement of an answer is nobody's event: it is looked for. Soon when nothing else is awaited, but all connections
  // together no oftener than this, since their clients may be gone and silent for seconds.
  static constexpr Duration kLookAgain = Duration::ms(5);
  static constexpr Duration kAcknowledgementSoon = Duration::us(50);
  static constexpr Duration kBetweenLooks = Duration::ns(500);

  ConnectionTable& connections_;
  const GatewayStats& stats_;
  bool draining_ = false;
};

}  // namespace cw::gateway
