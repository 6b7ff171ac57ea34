// How connections of the ConnectionManager come, wait and go: slots, states, timers, endings.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "control/cm/connection_manager_inl.h"
#include "control/cm/timeout_code.h"

namespace cw::cm {

// A free slot, if need be that of the oldest dead connection, and a Handshake. nullptr: connection_max are alive, or there are
// too many handshakes.
Connection* ConnectionManager::admit() {
  if (live_count_ >= options_.connection_max || handshakes_.in_use() == handshakes_.capacity()) {
    return nullptr;
  }
  Connection* connection = table_.create();
  if (connection == nullptr) {
    Connection* oldest = timewaits_.front();
    if (oldest == nullptr) {
      return nullptr;  // every dead one still has an event that the user did not fetch
    }
    ++stats_.timewaits_cut_short;
    release(*oldest);
    connection = table_.create();
  }
  connection->handshake = handshakes_.create();
  return connection;
}

void ConnectionManager::release_handshake(Connection& connection) {
  if (connection.handshake != nullptr) {
    handshakes_.destroy(std::exchange(connection.handshake, nullptr));
  }
}

void ConnectionManager::trim(Connection& connection) {
  if (!connection.needs_handshake()) {
    release_handshake(connection);
  }
}

// The only writer of a state: keeps the counts right.
void ConnectionManager::set_state(Connection& connection, ConnectionState next) {
  const ConnectionState previous = connection.state;
  live_count_ += static_cast<uint32_t>(is_live(next)) - static_cast<uint32_t>(is_live(previous));
  half_open_count_ += static_cast<uint32_t>(is_half_open(next)) - static_cast<uint32_t>(is_half_open(previous));
  if (is_half_open(next) && !is_half_open(previous)) {
    prefixes_.opened(connection.prefix);
    half_open_[connection.prefix].push_back(connection);
  } else if (is_half_open(previous) && !is_half_open(next)) {
    prefixes_.settled(connection.prefix);
    connection.ListNode<EvictionTag>::unlink();
  }
  if (next == ConnectionState::kDreqSent) {
    closing_.push_back(connection);
  } else if (previous == ConnectionState::kDreqSent) {
    connection.ListNode<EvictionTag>::unlink();
  }
  timewait_count_ +=
      static_cast<uint32_t>(next == ConnectionState::kTimewait) - static_cast<uint32_t>(previous == ConnectionState::kTimewait);
  connection.state = next;
}

// What was sent is sent again, ever slower, until something comes back or `wait` is over.
void ConnectionManager::repeat_until(Instant now, Connection& connection, Duration wait) {
  connection.repetitions = 0;
  connection.repeat_interval = options_.retransmit_first;
  connection.repeat_at = now + connection.repeat_interval;
  connection.give_up_at = now + wait;
  timers_.arm(connection, earlier(connection.repeat_at, connection.give_up_at));
}

void ConnectionManager::wait_until(Connection& connection, Instant give_up_at) {
  connection.repeat_at = Instant::never();
  connection.give_up_at = give_up_at;
  timers_.arm(connection, give_up_at);
}

Instant ConnectionManager::next_deadline() const {
  return timers_.next_deadline();
}

void ConnectionManager::on_deadline(Instant now) {
  while (TimerNode* node = timers_.pop_expired(now)) {
    on_timer(now, static_cast<Connection&>(*node));
  }
}

void ConnectionManager::on_timer(Instant now, Connection& connection) {
  if (connection.give_up_at <= now) {
    give_up(now, connection);
  } else {
    repeat(now, connection);
  }
}

void ConnectionManager::repeat(Instant now, Connection& connection) {
  ++stats_.repeated[static_cast<size_t>(type_of_kept(connection))];
  send_kept(connection);
  ++connection.repetitions;
  // The peer has not proved its address yet: from here on only REQs that it repeats draw another REP.
  if (connection.state == ConnectionState::kRepSent && connection.repetitions >= options_.unasked_replies_max) {
    wait_until(connection, connection.give_up_at);
    return;
  }
  const Duration slowest = std::clamp(connection.peer_response, options_.retransmit_first, options_.retransmit_max);
  connection.repeat_interval = std::min(connection.repeat_interval * 2, slowest);
  connection.repeat_at = now + connection.repeat_interval;
  timers_.arm(connection, earlier(connection.repeat_at, connection.give_up_at));
}

void ConnectionManager::give_up(Instant now, Connection& connection) {
  switch (connection.state) {
    case ConnectionState::kReqRcvd:
    case ConnectionState::kMraReqSent:
      send_rej(connection, RejectReason::kNoResources, {});
      end(now, connection, CmOutcome::kNoDecision, ConnectFailed{ConnectFailure::kNoDecision});
      return;
    case ConnectionState::kRepRcvd:
      send_rej(connection, RejectReason::kTimeout, {});
      end(now, connection, CmOutcome::kNoDecision, ConnectFailed{ConnectFailure::kNoDecision});
      return;
    case ConnectionState::kRepSent:
    case ConnectionState::kMraRepRcvd:
    case ConnectionState::kReqSent:
    case ConnectionState::kMraReqRcvd:
      send_rej(connection, RejectReason::kTimeout, {});
      end(now, connection, CmOutcome::kNoAnswer, ConnectFailed{ConnectFailure::kNoAnswer});
      return;
    case ConnectionState::kDreqSent:
      connection.kept = Kept::kNone;
      end(now, connection, CmOutcome::kUnanswered, Disconnected{DisconnectCause::kLocalUnanswered});
      return;
    case ConnectionState::kTimewait:
      if (!connection.has_event()) {
        release(connection);  // else when the event is polled
      }
      return;
    case ConnectionState::kIdle:
    case ConnectionState::kEstablished:
    case ConnectionState::kCount:
      break;
  }
  CW_ASSERT(false);  // these states have no timer
}

// The handshake is through. The caller tells whoever needs to know.
void ConnectionManager::establish(Instant now, Connection& connection) {
  ++stats_.established;
  if (connection.passive) {
    request_rates_.know(now, connection.address.remote);
  }
  connection.kept = Kept::kNone;
  set_state(connection, ConnectionState::kEstablished);
  trim(connection);
  connection.repeat_at = Instant::never();
  connection.give_up_at = Instant::never();
  timers_.cancel(connection);
  // It is the peer who said so: what it had under this QPN before is gone.
  while (Connection* old = table_.find_by_remote_qpn(connection.address, connection.remote_qpn, &connection)) {
    supersede(now, *old);
  }
}

// The peer uses the connection's QPN for another one: it has forgotten this one, and nobody is left to talk to.
void ConnectionManager::supersede(Instant now, Connection& connection) {
  const bool was_up = connection.state == ConnectionState::kEstablished || connection.state == ConnectionState::kDreqSent;
  connection.kept = Kept::kNone;
  if (was_up) {
    end(now, connection, CmOutcome::kSuperseded, Disconnected{DisconnectCause::kSuperseded});
  } else {
    end(now, connection, CmOutcome::kSuperseded, ConnectFailed{ConnectFailure::kSuperseded});
  }
}

// Not a word to the peer: most likely it never asked.
void ConnectionManager::evict(Instant now, Connection& connection) {
  connection.kept = Kept::kNone;
  end(now, connection, CmOutcome::kEvicted, ConnectFailed{ConnectFailure::kEvicted});
}

// When connection_max are alive, first one that is over for its user: a peer that leaves our DREQs unanswered has no place at the
// expense of those who come. It is remembered in time-wait like any other. It holds no Handshake: where these have run out only a
// half-open one makes room.
bool ConnectionManager::make_room(Instant now) {
  if (Connection* oldest = closing_.front(); oldest != nullptr && live_count_ >= options_.connection_max) {
    ++stats_.disconnects_cut_short;
    give_up(now, *oldest);
    return true;
  }
  if (half_open_count_ > 0) {
    evict_half_open(now);
    return true;
  }
  return false;
}

void ConnectionManager::evict_half_open(Instant now) {
  evict(now, *half_open_[prefixes_.busiest()].front());
}

// Into time-wait. An event that is on its way goes out first; only then may the slot be taken for another connection.
void ConnectionManager::end(Instant now, Connection& connection, CmOutcome outcome) {
  CW_ASSERT(is_live(connection.state));
  ++stats_.outcomes[static_cast<size_t>(outcome)];
  if (connection.passive && !is_half_open(connection.state)) {
    request_rates_.know(now, connection.address.remote);
  }
  set_state(connection, ConnectionState::kTimewait);
  table_.forget_remote_qpn(connection);
  // A rejection is there to be repeated, as long as handshakes do not need the room. Without it a repeated REQ is stale.
  if (connection.kept != Kept::kMad || handshakes_.in_use() > handshakes_.capacity() / 2) {
    connection.kept = Kept::kNone;
  }
  trim(connection);
  const Duration remembered =
      std::clamp(timeout_of(connection.ack_timeout_code) * 2, options_.timewait_min, options_.timewait_time_max);
  wait_until(connection, now + remembered);
  if (!connection.has_event()) {
    timewaits_.push_back(connection);
  }
}

void ConnectionManager::release(Connection& connection) {
  timers_.cancel(connection);
  connection.ListNode<TimewaitTag>::unlink_if_linked();
  set_state(connection, ConnectionState::kIdle);
  release_handshake(connection);
  table_.destroy(connection);
}

std::optional<EstablishedState> ConnectionManager::saved(ConnectionId id) {
  const Connection* connection = table_.find(id);
  if (connection == nullptr || connection->state != ConnectionState::kEstablished || connection->has_event()) {
    return std::nullopt;
  }
  return EstablishedState{.address = connection->address,
                          .local_comm_id = connection->local_comm_id,
                          .remote_comm_id = connection->remote_comm_id,
                          .local_qpn = connection->local_qpn,
                          .remote_qpn = connection->remote_qpn,
                          .transaction_id = connection->transaction_id,
                          .peer_transaction_id = connection->peer_transaction_id,
                          .passive = connection->passive,
                          .ack_timeout_code = connection->ack_timeout_code};
}

void ConnectionManager::forget(ConnectionId id) {
  Connection* connection = table_.find(id);
  if (connection != nullptr && connection->state == ConnectionState::kEstablished && !connection->has_event()) {
    connection->kept = Kept::kNone;
    release(*connection);
  }
}

Result<ConnectionId> ConnectionManager::resume(const EstablishedState& state) {
  const bool is_known = table_.find_by_remote_id(state.address, state.remote_comm_id) != nullptr;
  Connection* connection = live_count_ >= options_.connection_max || is_known ? nullptr : table_.create(state.local_comm_id);
  if (connection == nullptr) {
    return fail(Error::kNoResources);
  }
  connection->address = state.address;
  connection->remote_comm_id = state.remote_comm_id;
  connection->local_qpn = state.local_qpn;
  connection->remote_qpn = state.remote_qpn;
  connection->transaction_id = state.transaction_id;
  connection->peer_transaction_id = state.peer_transaction_id;
  connection->passive = state.passive;
  connection->ack_timeout_code = state.ack_timeout_code;
  connection->was_announced = true;
  table_.set_remote(*connection);
  set_state(*connection, ConnectionState::kEstablished);
  return connection->id();
}

bool ConnectionManager::is_consistent() const {
  uint32_t live = 0;
  uint32_t half_open = 0;
  uint32_t timewait = 0;
  uint32_t armed = 0;
  uint32_t handshakes = 0;
  for (uint32_t slot = 0; slot < table_.capacity(); ++slot) {
    const Connection& connection = table_.at(slot);
    const bool dead = connection.state == ConnectionState::kTimewait;
    const bool up = connection.state == ConnectionState::kEstablished;
    const bool used = connection.state != ConnectionState::kIdle;
    live += is_live(connection.state) ? 1 : 0;
    half_open += is_half_open(connection.state) ? 1 : 0;
    timewait += dead ? 1 : 0;
    armed += connection.is_armed() ? 1 : 0;
    const bool waits = used && !up;
    // Nothing waits without a deadline, but for the user to fetch the last event.
    if (waits != connection.is_armed() && !(dead && connection.has_event())) {
      return false;
    }
    handshakes += connection.needs_handshake() ? 1 : 0;
    if (connection.needs_handshake() != (connection.handshake != nullptr)) {
      return false;
    }
    if (used != (connection.local_comm_id != 0) ||
        connection.in_qpn_index != (is_live(connection.state) && connection.remote_known) ||
        connection.is_evictable() != (dead && !connection.has_event()) || (!used && connection.has_event())) {
      return false;
    }
    const bool gives_way = is_half_open(connection.state) || connection.state == ConnectionState::kDreqSent;
    if (connection.ListNode<EvictionTag>::is_linked() != gives_way) {
      return false;
    }
  }
  return live == live_count_ && half_open == half_open_count_ && timewait == timewait_count_ && armed == timers_.armed_count() &&
         handshakes == handshakes_.in_use() && half_open == prefixes_.half_open_count() && live + timewait == table_.size() &&
         live <= options_.connection_max && half_open <= options_.half_open_max;
}

}  // namespace cw::cm
