// A connection's ways to the backends of its listener. The first lane is opened when the connection is established and ends with
// it; those of routes are opened by the first call that wants them. One of these whose backend cannot be reached costs the calls
// that wanted it, which no backend has seen: they are answered with SYSTEM_ERR, and the next call tries again. One that the
// backend closes while it owes replies ends the whole connection, as with the first lane: only the client can say its calls
// again.
#include <algorithm>
#include <array>
#include <utility>

#include "gateway/gateway_connection.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

// When there is no room for a request to the workers.
constexpr Duration kLookForRoom = Duration::ms(1);

}  // namespace

bool Gateway::is_tcp(const Lane& lane) const {
  return lane.backend != ListenerOptions::kNoBackend && options_.backends[lane.backend].kind == BackendKind::kTcp;
}

LinkId Gateway::new_link(uint32_t slot, uint32_t lane) {
  return link_id(++generations_[slot], options_.core.index, lane, slot);
}

void Gateway::add_lanes(Connection& connection) {
  connection.lanes = lanes_[connection.listener_index];
  ++connection.lanes->connections;
  const ListenerLanes& lanes = connection.lanes->lanes;
  connection.more.resize(lanes.count() - 1);
  for (uint32_t i = 0; i < lanes.count(); ++i) {
    Lane& lane = connection.lane(i);
    lane.link = i == 0 ? connection.link : new_link(connection.slot, i);
    lane.backend = lanes.backend(i);
    if (is_tcp(lane)) {
      lane.client = &guard_.join(connection.peer, lane.backend);
    }
  }
}

void Gateway::drop_lanes(Connection& connection) {
  LaneTable& table = *connection.lanes;
  if (--table.connections == 0 && std::ranges::find(lanes_, &table) == lanes_.end()) {
    lane_tables_.remove_if([&](const LaneTable& each) { return &each == &table; });
  }
}

void Gateway::set_lanes(size_t listener_index) {
  ListenerLanes lanes(options_.listeners[listener_index]);
  LaneTable*& current = lanes_[listener_index];
  if (current != nullptr && current->lanes == lanes) {
    return;
  }
  LaneTable* const before = current;
  current = &lane_tables_.emplace_back(LaneTable{std::move(lanes), shares_of(options_.listeners[listener_index]), 0});
  if (before != nullptr && before->connections == 0) {
    lane_tables_.remove_if([&](const LaneTable& each) { return &each == before; });
  }
}

rpcrdma::BackendShares Gateway::shares_of(const ListenerOptions& listener) {
  rpcrdma::BackendShare& no_backend = backend_shares_.back();
  rpcrdma::BackendShares shares;
  shares.others = listener.backend == ListenerOptions::kNoBackend ? &no_backend : &backend_shares_[listener.backend];
  shares.unread = &no_backend;
  for (const RouteOptions& route : listener.routes) {
    shares.programs.push_back({route.program, &backend_shares_[route.backend]});
  }
  return shares;
}

// Precondition: requests_room(). `xid`: of the first call, when it is known.
void Gateway::open_lane(Instant now, Connection& connection, Lane& lane, std::optional<uint32_t> xid) {
  lane.state = Lane::State::kOpening;
  lane.server_number = preferred_server(lane.backend);
  lane.open_deadline = now + options_.backends[lane.backend].open_timeout;
  BackendRequest open;
  open.kind = BackendRequest::Kind::kOpen;
  open.link = lane.link;
  open.backend = lane.backend;
  open.server = lane.server_number;
  open.client = connection.peer;
  if (options_.source_ports != nullptr) {
    lane.source_port = options_.source_ports->take(open.client, lane.backend, xid);
  }
  open.source_port = lane.source_port;
  push_request(std::move(open));
  if (&lane != &connection.first) {
    arm(connection, lane.open_deadline);
  }
}

// The backend connection is over, or is closed next.
void Gateway::forget_link(Lane& lane) {
  BackendStats& stats = stats_.backends[lane.backend];
  if (lane.state == Lane::State::kOpen) {
    --stats.links;
    --stats.server_links[lane.server_number];
  }
  lane.state = Lane::State::kClosed;
  give_port_back(lane);
}

// The client's next connection has it. Its backend connection can be made when this one is closed.
void Gateway::give_port_back(Lane& lane) {
  if (const uint16_t port = std::exchange(lane.source_port, uint16_t{0}); port != 0) {
    options_.source_ports->give_back(connections_[slot_of(lane.link)]->peer, lane.backend, port, lane.last_xid);
  }
}

// The XID of its first call says which port the backend connection has to come from.
bool Gateway::waits_for_first_call(const Connection& connection) const {
  return options_.source_ports != nullptr && options_.source_ports->depends_on_xid(connection.peer, connection.first.backend);
}

// Precondition: kOpeningBackend.
void Gateway::open_first(Instant now, Connection& connection) {
  Lane& lane = connection.first;
  if (lane.state == Lane::State::kClosed && requests_room()) {
    const std::optional<uint32_t> xid = connection.server->next_xid();
    if (xid || lane.open_deadline <= now) {
      open_lane(now, connection, lane, xid);
    }
  }
  arm(connection, lane.state == Lane::State::kClosed ? std::max(lane.open_deadline, now + kLookForRoom) : lane.open_deadline);
}

bool Gateway::has_xid(Connection& connection, uint32_t xid) {
  const auto has = [&](const Lane& lane) { return lane.pending.has(xid); };
  return has(connection.first) || std::any_of(connection.more.begin(), connection.more.end(), has);
}

void Gateway::answer(Instant now, Connection& connection, rpcrdma::CallId call, uint32_t xid, rpcrdma::AcceptStatus status) {
  std::array<uint8_t, rpcrdma::kAcceptedReplyBytes> raw{};
  rpcrdma::write_accepted_reply(raw, xid, status);
  Chain reply;
  if (reply.append_copy(packets_, raw)) {
    connection.server->reply(now, call, std::move(reply));
  } else {
    connection.server->fail();  // the client comes again
  }
}

// The backend connection could not be made.
void Gateway::fail_lane(Instant now, Connection& connection, Lane& lane) {
  const LinkId link = connection.link;
  ++stats_.lane_failures;
  forget_link(lane);
  lane.link = new_link(connection.slot, lane_of(lane.link));
  const PendingCalls lost = std::exchange(lane.pending, {});
  stats_.backends[lane.backend].calls_in_flight -= lost.size();
  stats_.backends[lane.backend].server_calls[lane.server_number] -= lost.size();
  lost.for_each([&](uint32_t xid, const PendingCall& call) {
    guard_.end(*lane.client, call.epoch);
    answer(now, connection, call.call, xid, rpcrdma::AcceptStatus::kSystemError);
  });
  if (find(link) != nullptr) {
    pump(now, connection);
  }
}

void Gateway::on_lane_closed(Instant now, Connection& connection, Lane& lane) {
  ++stats_.backends[lane.backend].closes;
  if (&lane == &connection.first || !lane.pending.empty()) {
    forget_link(lane);
    end(now, connection, ConnectionResult::kFailedBackend, false);
    return;
  }
  // Nobody waits for it: servers close connections that are idle for long.
  forget_link(lane);
  lane.reverse_enabled = false;
  for (auto& call : connection.reverse_calls) {
    call.lane = call.lane == lane_of(lane.link) ? 0 : call.lane;
  }
  lane.link = new_link(connection.slot, lane_of(lane.link));
}

// Of a connection with routes: what waits for too long, by the limits of each backend.
void Gateway::check_lanes(Instant now, Connection& connection) {
  for (uint32_t i = 0; i <= connection.more.size(); ++i) {
    Lane& lane = connection.lane(i);
    if (lane.state == Lane::State::kOpening && lane.open_deadline <= now && i > 0) {
      note_backend(now, lane.backend, false);
      ++stats_.backends[lane.backend].open_failures;
      close_link(lane.link, lane.backend);
      const LinkId link = connection.link;
      fail_lane(now, connection, lane);
      if (find(link) == nullptr) {
        return;
      }
    }
    if (lane.pending.empty()) {
      continue;
    }
    const Instant deadline = lane.pending.oldest() + options_.backends[lane.backend].call_timeout;
    if (deadline > now) {
      arm(connection, deadline);
    } else if (!connection.server->failed()) {
      ++stats_.backends[lane.backend].call_timeouts;
      connection.server->fail(rpcrdma::EndpointFailure::kCallTimeout);
    }
    if (lane.state == Lane::State::kOpening && i > 0) {
      arm(connection, lane.open_deadline);
    }
  }
}

}  // namespace cw::gateway
