// Drain: the gateway empties itself without failing a call.
//
// New connections are refused. A connection that is there takes no more calls, however many its client sends: waiting for a
// client to fall silent would take for ever with one that is busy. It ends when the calls that it has taken are answered
// and the client has acknowledged the answers, since an answer that is lost would have the client repeat a call that was
// executed. The calls that were not taken have reached no backend; the client makes them again on its next connection.
#include <algorithm>

#include "gateway/gateway_connection.h"

namespace cw::gateway {
namespace {

// The acknowledgement of an answer is nobody's event: it is looked for. Soon when nothing else is awaited, but all connections
// together no oftener than this, since their clients may be gone and silent for seconds.
constexpr Duration kLookAgain = Duration::ms(5);
constexpr Duration kAcknowledgementSoon = Duration::us(50);
constexpr Duration kBetweenLooks = Duration::ns(500);

}  // namespace

void Gateway::drain(Instant now) {
  draining_ = true;
  for (auto& connection : connections_) {
    if (connection == nullptr) {
      continue;
    }
    if (connection->server) {
      pump(now, *connection);
    } else {
      end(now, *connection, ConnectionResult::kRefusedDraining, false);  // half open
    }
  }
}

void Gateway::end_drain(Instant now) {
  draining_ = false;
  for (auto& connection : connections_) {
    if (connection != nullptr && connection->server) {
      pump(now, *connection);  // it may have calls that were not taken
    }
  }
}

void Gateway::close_all(Instant now) {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      end(now, *connection, connection->has_place ? ConnectionResult::kClosedByUs : ConnectionResult::kRefusedDraining, false);
    }
  }
}

void Gateway::go_on_draining(Instant now, Connection& connection) {
  const bool owes = connection.server->calls_taken() > 0 || connection.server->reverse_in_flight() > 0;
  if (owes) {
    arm(connection, now + kLookAgain);
  } else if (connection.qp->works_pending() > 0) {
    arm(connection,
        now + std::clamp(kBetweenLooks * static_cast<int64_t>(stats_.connections_open), kAcknowledgementSoon, kLookAgain));
  } else {
    end(now, connection, ConnectionResult::kDrained, false);
  }
}

}  // namespace cw::gateway
