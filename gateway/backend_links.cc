#include "gateway/backend_links.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

// When there is no room for a request to the workers.
constexpr Duration kLookForRoom = Duration::ms(1);
// A client reconnects because it has a call to send, so its first call comes at once.
constexpr Duration kFirstCallPatience = Duration::ms(100);

}  // namespace

void BackendLinks::add_lanes(Connection& connection) {
  connection.lanes = &parts_.listeners.join(connection.listener_index);
  const ListenerLanes& lanes = connection.lanes->lanes;
  connection.more.resize(lanes.count() - 1);
  for (uint32_t i = 0; i < lanes.count(); ++i) {
    Lane& lane = connection.lane(i);
    lane.link = i == 0 ? connection.link : parts_.connections.new_link(connection.slot, i);
    lane.backend = lanes.backend(i);
    if (parts_.backends.is_tcp(lane.backend)) {
      lane.client = &parts_.guard.join(connection.peer, lane.backend);
    }
  }
}

void BackendLinks::drop_lanes(Instant now, Connection& connection, std::optional<Instant> keep_until) {
  connection.for_each_lane([&](Lane& lane) {
    if (parts_.backends.is_tcp(lane.backend)) {
      part(now, connection, lane, keep_until);
    }
  });
}

// Not when the backend has closed it: then the lane is kClosed.
void BackendLinks::part(Instant now, Connection& connection, Lane& lane, std::optional<Instant> keep_until) {
  BackendStats& stats = parts_.stats.backends[lane.backend];
  parts_.holds.forget(lane);
  stats.calls_in_flight -= lane.pending.size();
  stats.server_calls[lane.server_number] -= lane.pending.size();
  // The client may repeat a call that has just been answered, too: it has perhaps not seen the reply.
  const bool has_answered = lane.answered_at != Instant() && now - lane.answered_at < Orphans::kAnswerSettles;
  // A link that is being opened may be open by now, and its calls on their way: the worker has them.
  const bool may_owe = !lane.pending.empty() && lane.state != Lane::State::kClosed;
  if (keep_until && (may_owe || (lane.state == Lane::State::kOpen && has_answered))) {
    give_port_back(connection, lane);
    rpcrdma::BackendShare& share = parts_.backends.share(lane.backend);
    lane.pending.for_each([&](uint32_t, PendingCall& call) { call.units = connection.server->take_units(call.call, share); });
    parts_.orphans.adopt(now, connection.peer, lane, *keep_until);
    return;
  }
  lane.pending.for_each([&](uint32_t, const PendingCall& call) { parts_.guard.end(*lane.client, call.epoch); });
  parts_.guard.leave(*lane.client);
  if (lane.state != Lane::State::kClosed) {
    forget(connection, lane);
    parts_.requests.close(lane.link, lane.backend);
  }
}

void BackendLinks::open(Instant now, Connection& connection, Lane& lane, std::optional<uint32_t> xid) {
  lane.state = Lane::State::kOpening;
  lane.server_number = parts_.backends.preferred_server(lane.backend);
  lane.open_deadline = now + parts_.backends[lane.backend].open_timeout;
  BackendRequest open;
  open.kind = BackendRequest::Kind::kOpen;
  open.link = lane.link;
  open.backend = lane.backend;
  open.server = lane.server_number;
  open.client = connection.peer;
  if (parts_.source_ports != nullptr) {
    lane.source_port = parts_.source_ports->take(open.client, lane.backend, xid);
  }
  open.source_port = lane.source_port;
  parts_.requests.push(std::move(open));
  if (&lane != &connection.first) {
    parts_.connections.arm(connection, lane.open_deadline);
  }
}

void BackendLinks::forget(const Connection& connection, Lane& lane) {
  BackendStats& stats = parts_.stats.backends[lane.backend];
  if (lane.state == Lane::State::kOpen) {
    --stats.links;
    --stats.server_links[lane.server_number];
  }
  lane.state = Lane::State::kClosed;
  lane.reverse_enabled = false;
  give_port_back(connection, lane);
}

// The client's next connection has it. Its backend connection can be made when this one is closed.
void BackendLinks::give_port_back(const Connection& connection, Lane& lane) {
  if (const uint16_t port = std::exchange(lane.source_port, uint16_t{0}); port != 0) {
    parts_.source_ports->give_back(connection.peer, lane.backend, port, lane.last_xid);
  }
}

// The XID of its first call says which port the backend connection has to come from.
bool BackendLinks::waits_for_first_call(const Connection& connection) const {
  return parts_.source_ports != nullptr && parts_.source_ports->depends_on_xid(connection.peer, connection.first.backend);
}

void BackendLinks::begin_first(Instant now, Connection& connection) {
  connection.state = ConnectionState::kOpeningBackend;
  connection.first.open_deadline = waits_for_first_call(connection) ? now + kFirstCallPatience : now;
  open_first(now, connection);
}

void BackendLinks::open_first(Instant now, Connection& connection) {
  Lane& lane = connection.first;
  if (lane.state == Lane::State::kClosed && parts_.requests.has_room()) {
    const std::optional<uint32_t> xid = connection.server->next_xid();
    if (xid || lane.open_deadline <= now) {
      open(now, connection, lane, xid);
    }
  }
  parts_.connections.arm(
      connection, lane.state == Lane::State::kClosed ? std::max(lane.open_deadline, now + kLookForRoom) : lane.open_deadline);
}

void BackendLinks::on_opened(Instant now, Lane& lane) {
  lane.state = Lane::State::kOpen;
  parts_.backends.note(now, lane.backend, true);
  BackendStats& stats = parts_.stats.backends[lane.backend];
  ++stats.opens;
  ++stats.links;
  ++stats.server_links[lane.server_number];
}

void BackendLinks::on_port_busy(Instant now, Lane& lane, Duration patience) {
  lane.open_deadline = now + patience + parts_.backends[lane.backend].open_timeout;
}

void BackendLinks::on_failed(Instant now, Connection& connection, Lane& lane) {
  parts_.backends.note(now, lane.backend, false);
  ++parts_.stats.backends[lane.backend].open_failures;
  forget(connection, lane);
  if (&lane == &connection.first) {
    parts_.connections.end(connection, ConnectionResult::kRefusedBackend, false);
  } else {
    fail(now, connection, lane);
  }
}

void BackendLinks::fail(Instant now, Connection& connection, Lane& lane) {
  ++parts_.stats.lane_failures;
  lane.link = parts_.connections.new_link(connection.slot, lane_of(lane.link));
  const PendingCalls lost = std::exchange(lane.pending, {});
  parts_.stats.backends[lane.backend].calls_in_flight -= lost.size();
  parts_.stats.backends[lane.backend].server_calls[lane.server_number] -= lost.size();
  lost.for_each([&](uint32_t xid, const PendingCall& call) {
    parts_.guard.end(*lane.client, call.epoch);
    answer(now, connection, call.call, xid, rpcrdma::AcceptStatus::kSystemError);
  });
}

void BackendLinks::on_closed(Connection& connection, Lane& lane) {
  ++parts_.stats.backends[lane.backend].closes;
  forget(connection, lane);
  if (&lane == &connection.first || !lane.pending.empty()) {
    parts_.connections.end(connection, ConnectionResult::kFailedBackend, false);
    return;
  }
  // Nobody waits for it: servers close connections that are idle for long.
  for (auto& call : connection.reverse_calls) {
    if (call.lane == lane_of(lane.link)) {
      call.lane.reset();
    }
  }
  lane.link = parts_.connections.new_link(connection.slot, lane_of(lane.link));
}

void BackendLinks::check_first(Instant now, Connection& connection) {
  const Lane& lane = connection.first;
  if (connection.state == ConnectionState::kOpeningBackend && lane.state == Lane::State::kOpening && now >= lane.open_deadline) {
    parts_.requests.close(lane.link, lane.backend);
    on_failed(now, connection, connection.first);
  }
}

void BackendLinks::check_routes(Instant now, Connection& connection) {
  if (connection.more.empty()) {
    return;
  }
  for (uint32_t i = 0; i <= connection.more.size(); ++i) {
    Lane& lane = connection.lane(i);
    if (lane.state == Lane::State::kOpening && lane.open_deadline <= now && i > 0) {
      parts_.requests.close(lane.link, lane.backend);
      on_failed(now, connection, lane);
    }
    if (lane.pending.empty()) {
      continue;
    }
    const Instant deadline = lane.pending.oldest() + parts_.backends[lane.backend].call_timeout;
    if (deadline > now) {
      parts_.connections.arm(connection, deadline);
    } else if (!connection.server->failed()) {
      ++parts_.stats.backends[lane.backend].call_timeouts;
      connection.server->fail(rpcrdma::EndpointFailure::kCallTimeout);
    }
    if (lane.state == Lane::State::kOpening && i > 0) {
      parts_.connections.arm(connection, lane.open_deadline);
    }
  }
}

void BackendLinks::answer(Instant now, Connection& connection, rpcrdma::CallId call, uint32_t xid, rpcrdma::AcceptStatus status) {
  std::array<uint8_t, rpcrdma::kAcceptedReplyBytes> raw{};
  rpcrdma::write_accepted_reply(raw, xid, status);
  Chain reply;
  if (reply.append_copy(parts_.packets, raw)) {
    connection.server->reply(now, call, std::move(reply));
  } else {
    connection.server->fail();  // the client comes again
  }
}

}  // namespace cw::gateway
