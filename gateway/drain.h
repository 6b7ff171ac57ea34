// Drain: the gateway empties itself without failing a call.
//
// New connections are refused. A connection that is there takes no more calls, however many its client sends: waiting for a
// client to fall silent would take for ever with one that is busy. It ends when the calls that it has taken are answered and the
// client has acknowledged the answers, since an answer that is lost would have the client repeat a call that was executed. The
// calls that were not taken have reached no backend; the client makes them again on its next connection.
//
// A connection that goes on in the next process (Gateway::hand_over) is treated the other way round: its queue pair takes no
// message any more, and what it had taken is answered as ever. When nothing is left to do it is written down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gateway/connection_table.h"
#include "gateway/gateway_stats.h"
#include "gateway/saved_connection.h"

namespace cw::gateway {

class Drain {
 public:
  Drain(ConnectionTable& connections, const GatewayStats& stats) : connections_(connections), stats_(stats) {}

  void begin() { draining_ = true; }
  void end() { draining_ = false; }
  [[nodiscard]] bool is_on() const { return draining_; }
  // No calls of it are taken.
  [[nodiscard]] bool stops(const Connection& connection) const { return draining_ && !connection.is_paused; }
  [[nodiscard]] std::vector<std::vector<uint8_t>> take_handed_over() { return std::exchange(handed_over_, {}); }

  // Looks whether the connection owes nothing more, and when to look again. Precondition: is_on(), and it has an endpoint.
  void go_on(Instant now, Connection& connection) {
    const uint32_t calls = connection.is_paused ? connection.server->calls_in_flight() : connection.server->calls_taken();
    const bool owes = calls > 0 || connection.server->reverse_in_flight() > 0;
    if (!owes && connection.qp->works_pending() > 0) {
      const Duration pause = kBetweenLooks * static_cast<int64_t>(stats_.connections_open);
      connections_.arm(connection, now + std::clamp(pause, kAcknowledgementSoon, kLookAgain));
    } else if (owes || !end(connection)) {
      connections_.arm(connection, now + kLookAgain);
    }
  }

 private:
  // It owes nothing. False: a message, or its acknowledgement, is on its way, and it cannot be written down yet.
  [[nodiscard]] bool end(Connection& connection) {
    if (connection.is_paused) {
      std::vector<uint8_t> saved;
      if (!save(connection, saved)) {
        return false;
      }
      handed_over_.push_back(std::move(saved));
    }
    connections_.end(connection, connection.is_paused ? ConnectionResult::kHandedOver : ConnectionResult::kDrained,
                     connection.is_paused);
    return true;
  }

  // The acknowledgement of an answer is nobody's event: it is looked for. Soon when nothing else is awaited, but all connections
  // together no oftener than this, since their clients may be gone and silent for seconds.
  static constexpr Duration kLookAgain = Duration::ms(5);
  static constexpr Duration kAcknowledgementSoon = Duration::us(50);
  static constexpr Duration kBetweenLooks = Duration::ns(500);

  ConnectionTable& connections_;
  const GatewayStats& stats_;
  std::vector<std::vector<uint8_t>> handed_over_;
  bool draining_ = false;
};

}  // namespace cw::gateway
