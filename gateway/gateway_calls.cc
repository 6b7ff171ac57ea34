// How calls and replies travel through a connection: endpoint, built-in programs, backend.
#include <algorithm>
#include <array>

#include "gateway/gateway_connection.h"
#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {

void Gateway::on_queue_pair_ready(Instant now, const verbs::ReadyQueuePair& ready) {
  Connection* connection = find(LinkId(ready.context));
  if (connection == nullptr || connection->qp != ready.queue_pair) {
    return;
  }
  if (!connection->server) [[unlikely]] {
    connection = establish_by_data(now, *connection);
    if (connection == nullptr) {
      return;
    }
  }
  connection->server->on_completions(now);
  pump(now, *connection);
}

// Room for whatever a call may ask of the workers: where there are routes, to open its lane first.
bool Gateway::may_take_call(const Connection& connection) const {
  return connection.more.empty() ? requests_room() : requests_room(2);
}

void Gateway::pump(Instant now, Connection& connection) {
  rpcrdma::Call call;
  const LinkId link = connection.link;
  ListNode<StalledTag>& stalled = connection;
  pass_reverse_outcomes(connection);
  const bool takes_calls = connection.holds == 0 && !draining_ && connection.state == ConnectionState::kEstablished;
  while (takes_calls && !stalled.is_linked()) {
    if (!may_take_call(connection)) {
      stalled_.push_back(connection);
      break;
    }
    if (!connection.server->poll_call(now, call)) {
      break;
    }
    route(now, connection, std::move(call));
    if (find(link) == nullptr) {
      return;  // the call ended its connection
    }
  }
  check_failed(now, connection);
  if (find(link) != nullptr) {
    const Instant next = connection.server->next_deadline();
    arm(connection, connection.holds > 0 ? earlier(next, connection.held_until) : next);
    if (connection.state == ConnectionState::kOpeningBackend) [[unlikely]] {
      open_first(now, connection);
    }
    if (draining_) {
      go_on_draining(now, connection);
    }
  }
}

ConnectionResult Gateway::ending_of(const Connection& connection) {
  switch (connection.server->failure()) {
    case rpcrdma::EndpointFailure::kCallTimeout:
      return ConnectionResult::kFailedBackendTimeout;
    case rpcrdma::EndpointFailure::kReadTimeout:
      return ConnectionResult::kFailedReadTimeout;
    case rpcrdma::EndpointFailure::kSlowReads:
      return ConnectionResult::kFailedSlowReads;
    case rpcrdma::EndpointFailure::kReplyTimeout:
      return ConnectionResult::kFailedReplyTimeout;
    case rpcrdma::EndpointFailure::kStarved:
      return ConnectionResult::kFailedStarved;
    case rpcrdma::EndpointFailure::kNone:
    case rpcrdma::EndpointFailure::kProtocol:
      break;
  }
  return ConnectionResult::kFailedProtocol;
}

void Gateway::check_failed(Instant now, Connection& connection) {
  if (connection.qp->in_error()) {
    end(now, connection, ConnectionResult::kFailedTransport, false);
  } else if (connection.server->failed()) {
    end(now, connection, ending_of(connection), false);
  }
}

void Gateway::route(Instant now, Connection& connection, rpcrdma::Call&& call) {
  const bool is_routed = !connection.more.empty();
  const ListenerLanes::Way way = connection.lanes->lanes.way_for(call.context->header.program);
  ++stats_.route_calls[way.route];
  Lane& lane = connection.lane(way.lane);
  const uint32_t backend_index = lane.backend;
  if (backend_index == ListenerOptions::kNoBackend) [[unlikely]] {
    ++stats_.calls_unrouted;
    answer(now, connection, call.id, call.context->header.xid, rpcrdma::AcceptStatus::kProgramUnavailable);
    return;
  }
  const BackendOptions& backend = options_.backends[backend_index];
  BackendStats& stats = stats_.backends[backend_index];
  ++stats.calls;
  stats.bytes_out += call.message.bytes();
  open_reverse(connection, lane, call);
  if (backend.kind == BackendKind::kBuiltin && !backend.run_on_workers) {
    ++stats.calls_in_flight;
    run_program(now, connection, lane, std::move(call));
    return;
  }
  BackendRequest request;
  request.link = connection.link;
  request.backend = backend_index;
  request.call = call.id;
  request.message = std::move(call.message);
  if (backend.kind == BackendKind::kBuiltin) {
    request.kind = BackendRequest::Kind::kRun;
  } else {
    request.kind = BackendRequest::Kind::kSend;
    const uint32_t xid = call.context->header.xid;
    if (has_xid(connection, xid)) {
      // RFC 8166 4.2.1: an XID is in use once at a time. The reply could go to either call: neither may be trusted.
      ++stats_.duplicate_xids;
      end(now, connection, ConnectionResult::kFailedProtocol, false);
      return;
    }
    if (lane.state == Lane::State::kClosed) [[unlikely]] {
      open_lane(now, connection, lane, xid);  // the worker keeps what is sent until the connection is there
    }
    request.link = lane.link;
    lane.last_xid = xid;
    ++stats.server_calls[lane.server_number];
    lane.pending.add(xid, {.call = call.id, .since = now, .epoch = guard_.begin(*lane.client)});
    if (is_routed) {
      arm(connection, now + backend.call_timeout);
    }
  }
  ++stats.calls_in_flight;
  push_request(std::move(request));
}

void Gateway::run_program(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call) {
  Chain reply;
  BackendStats& stats = stats_.backends[lane.backend];
  if (!programs_.dispatch(*call.context, call.message, {packets_, large_}, reply)) {
    (void)waiting_.push(Waiting{connection.link, lane_of(lane.link), std::move(call)});
    return;
  }
  --stats.calls_in_flight;
  ++stats.replies;
  stats.bytes_in += reply.bytes();
  if (!rpcrdma::is_bench_callback(*call.context)) [[likely]] {
    connection.server->reply(now, call.id, std::move(reply));
    return;
  }
  const rpcrdma::CallContext context = *call.context;  // the reply is the end of the endpoint's
  connection.server->reply(now, call.id, std::move(reply));
  call_back(now, connection, lane, context, call.message);
}

void Gateway::push_request(BackendRequest&& request) {
  const bool pushed = requests_.push(std::move(request));
  CW_ASSERT(pushed);
  ++requests_pushed_;
}

bool Gateway::poll_backend_request(BackendRequest& out) {
  if (!closes_.empty() && closes_.front().behind == requests_pushed_ - requests_.size()) [[unlikely]] {
    const Close close = closes_.front();
    closes_.pop_front();
    out = BackendRequest();
    out.kind = BackendRequest::Kind::kClose;
    out.link = close.link;
    out.backend = close.backend;
    return true;
  }
  if (requests_.empty()) {
    return false;
  }
  out = requests_.pop();
  return true;
}

bool Gateway::poll_done(rpcrdma::CallDone& out) {
  if (shared_.done.empty()) {
    return false;
  }
  out = shared_.done.pop();
  return true;
}

void Gateway::on_backend_event(Instant now, BackendEvent&& event) {
  Connection* connection = find(event.link);
  BackendStats& stats = stats_.backends[event.backend];
  if (connection == nullptr) {
    // Gone meanwhile; the message is given back by its Chain.
    if (event.kind == BackendEvent::Kind::kRan) {
      --stats.calls_in_flight;
    } else {
      on_orphan_event(std::move(event));
    }
    return;
  }
  Lane& lane = connection->lane(lane_of(event.link));
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      lane.state = Lane::State::kOpen;
      note_backend(now, lane.backend, true);
      ++stats.opens;
      ++stats.links;
      ++stats.server_links[lane.server_number];
      if (&lane == &connection->first) {
        take_calls(*connection);
        pump(now, *connection);
      }
      return;
    case BackendEvent::Kind::kPortBusy:
      lane.open_deadline = now + options_.orphan_max + kPortSlack + options_.backends[lane.backend].open_timeout;
      return;
    case BackendEvent::Kind::kFailed:
      note_backend(now, lane.backend, false);
      ++stats.open_failures;
      if (&lane == &connection->first) {
        end(now, *connection, ConnectionResult::kRefusedBackend, false);
      } else {
        fail_lane(now, *connection, lane);
      }
      return;
    case BackendEvent::Kind::kMessage:
      stats.bytes_in += event.message.bytes();
      on_backend_message(now, *connection, lane, std::move(event.message));
      return;
    case BackendEvent::Kind::kClosed:
      on_lane_closed(now, *connection, lane);
      return;
    case BackendEvent::Kind::kRan:
      --stats.calls_in_flight;
      if (event.message.empty()) {
        connection->server->fail();
      } else {
        ++stats.replies;
        stats.bytes_in += event.message.bytes();
        connection->server->reply(now, event.call, std::move(event.message));
      }
      pump(now, *connection);
      return;
  }
}

void Gateway::on_backend_message(Instant now, Connection& connection, Lane& lane, Chain&& message) {
  std::array<uint8_t, 8> start{};
  if (connection.server == std::nullopt || message.bytes() < start.size()) {
    ++stats_.messages_malformed;
    return;
  }
  message.copy_to(0, start);
  const uint32_t xid = load_be32(start.data());
  if (load_be32(start.data() + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    on_reverse_call(now, connection, lane, xid, std::move(message));
    pump(now, connection);
    return;
  }
  const std::optional<PendingCall> pending = lane.pending.take(xid);
  if (!pending) {
    ++stats_.replies_unmatched;
    return;
  }
  guard_.end(*lane.client, pending->epoch);
  BackendStats& stats = stats_.backends[lane.backend];
  --stats.calls_in_flight;
  --stats.server_calls[lane.server_number];
  ++stats.replies;
  connection.server->reply(now, pending->call, std::move(message));
  pump(now, connection);
}

}  // namespace cw::gateway
