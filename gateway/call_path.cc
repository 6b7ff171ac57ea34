#include "gateway/call_path.h"

#include <array>
#include <utility>

#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

ConnectionResult result_of(rpcrdma::EndpointFailure failure) {
  switch (failure) {
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

// RFC 5531 9: the call was denied, or accepted and not carried out.
bool refuses(const Chain& reply) {
  // Almost always the verifier is empty, and the status stands where it stands then, in the first Buffer.
  const Buffer* head = reply.head();
  if (head != nullptr && head->size >= rpcrdma::kAcceptedReplyBytes) [[likely]] {
    if ((load_be32(head->data + 8) | load_be32(head->data + 16)) == 0) [[likely]] {
      return load_be32(head->data + 20) != static_cast<uint32_t>(rpcrdma::AcceptStatus::kSuccess);
    }
  }
  const auto header = rpcrdma::parse_rpc_reply(reply);
  return !header.ok() || !header->success();
}

}  // namespace

// 1. What came in, and what was sent, is the endpoint's. Predicted calls may be answered as they are taken.
void CallPath::serve(Instant now, Connection& connection) {
  if (!takes_calls(connection) || !answers_here(connection)) {
    connection.server->on_completions(now);
  } else if (const uint32_t count = connection.server->take_direct(now); count > 0 && answer_directly(now, connection, count)) {
    look_after(now, connection);
    return;
  }
  pump(now, connection);
}

bool CallPath::takes_calls(const Connection& connection) const {
  const ListNode<StalledTag>& stalled = connection;
  return connection.holds == 0 && !parts_.drain.stops(connection) && connection.state == ConnectionState::kEstablished &&
         !stalled.is_linked();
}

// Whatever it calls, the answer is made here.
bool CallPath::answers_here(const Connection& connection) const {
  const Lane& only = connection.first;
  if (!connection.more.empty() || only.backend == ListenerOptions::kNoBackend) {
    return false;
  }
  const BackendOptions& backend = parts_.backends[only.backend];
  return backend.kind == BackendKind::kBuiltin && !backend.run_on_workers;
}

// The calls of take_direct(): what pump() would do with each. False: it has to, with what is left.
bool CallPath::answer_directly(Instant now, Connection& connection, uint32_t count) {
  rpcrdma::ServerEndpoint& server = *connection.server;
  const rpcrdma::CallContext& first = server.look_at_direct();
  const ListenerLanes::Way way = connection.lanes->lanes.way_for(first.header.program);
  const Lane& lane = connection.lane(way.lane);
  // Calls of NFSv4, as CALLBACK below, may open the reverse direction.
  const bool is_nfs4 = first.header.program == rpcrdma::kNfsProgram && first.header.version == rpcrdma::kNfs4Version;
  const bool is_plain = !is_nfs4 && may_take_call(connection);
  rpcrdma::Program* program = is_plain ? parts_.programs.find(first.header.program, first.header.version) : nullptr;
  ClientUse use;
  Chain message;
  const rpcrdma::ReplyPools pools{parts_.packets, parts_.large, &message};
  uint64_t opened_bytes = 0;  // of the call that is open; its message may be the reply already
  Chain answered;             // messages, which go back to their pool together
  Chain reply;
  bool ran = true;
  // Each is looked at once: the first has been.
  for (uint32_t left = program != nullptr ? count : 0; left > 0; --left) {
    const rpcrdma::CallContext& context = left == count ? first : server.look_at_direct();
    if (rpcrdma::is_bench_callback(context)) [[unlikely]] {
      break;
    }
    message = server.open_direct();
    opened_bytes = message.bytes();
    ++use.calls;
    use.call_bytes += opened_bytes;
    ran = program->call(context, message, pools, reply);
    if (!ran && !answered.empty()) [[unlikely]] {
      answered.clear();
      ran = program->call(context, message, pools, reply);
    }
    if (!ran) [[unlikely]] {
      break;
    }
    use.reply_bytes += reply.bytes();
    use.errors += refuses(reply) ? 1 : 0;
    if (!server.answer_direct(now, reply)) [[unlikely]] {
      break;
    }
    opened_bytes = 0;
    if (!message.empty()) {
      answered.append(std::move(message));
    }
  }
  answered.clear();
  use.replies = use.calls - (ran ? 0 : 1);
  if (use.calls > 0) [[likely]] {
    count_direct(connection, way, lane, use);
  }
  const bool all_answered = use.calls == count && opened_bytes == 0;
  server.end_direct(now, message, opened_bytes);  // NOLINT(bugprone-use-after-move): append() has left it empty
  if (opened_bytes > 0) [[unlikely]] {
    finish_opened(now, connection, lane, ran, std::move(reply));
  }
  return all_answered;
}

void CallPath::count_direct(const Connection& connection, const ListenerLanes::Way& way, const Lane& lane, const ClientUse& use) {
  parts_.stats.route_calls[way.route] += use.calls;
  count_use(connection, [&use](ClientUse& sum) {
    sum.calls += use.calls;
    sum.call_bytes += use.call_bytes;
    sum.replies += use.replies;
    sum.errors += use.errors;
    sum.reply_bytes += use.reply_bytes;
  });
  BackendStats& stats = parts_.stats.backends[lane.backend];
  stats.calls += use.calls;
  stats.bytes_out += use.call_bytes;
  stats.replies += use.replies;
  stats.errors += use.errors;
  stats.bytes_in += use.reply_bytes;
}

// The last call that was opened, whose reply does not leave at once, or has found no memory.
void CallPath::finish_opened(Instant now, Connection& connection, const Lane& lane, bool ran, Chain&& reply) {
  rpcrdma::Call taken;
  if (!connection.server->poll_call(now, taken)) {
    return;  // the endpoint has failed
  }
  if (ran) {
    connection.server->reply(now, taken.id, std::move(reply));
  } else {
    ++parts_.stats.backends[lane.backend].calls_in_flight;
    (void)waiting_.push(Waiting{connection.link, lane_of(lane.link), std::move(taken)});
  }
}

// 2. Calls that are complete are taken, while they may be and there is room for what they lead to.
void CallPath::pump(Instant now, Connection& connection) {
  ListNode<StalledTag>& stalled = connection;
  parts_.reverse.pass_outcomes(connection);
  const bool takes = takes_calls(connection);
  while (takes && !stalled.is_linked()) {
    if (!may_take_call(connection)) {
      stalled_.push_back(connection);
      break;
    }
    rpcrdma::Call call;
    if (!connection.server->poll_call(now, call)) {
      break;
    }
    route(now, connection, std::move(call));
    if (connection.is_ending) {
      return;  // the call ended its connection
    }
  }
  look_after(now, connection);
}

// Room for whatever a call may ask of the workers: where there are routes, to open its lane first.
bool CallPath::may_take_call(const Connection& connection) const {
  return parts_.requests.has_room(connection.more.empty() ? 1 : 2);
}

// 3. A call goes to the backend of its program.
void CallPath::route(Instant now, Connection& connection, rpcrdma::Call&& call) {
  const ListenerLanes::Way way = connection.lanes->lanes.way_for(call.context->header.program);
  ++parts_.stats.route_calls[way.route];
  count_call(connection, *call.context, call.message.bytes());
  Lane& lane = connection.lane(way.lane);
  if (lane.backend == ListenerOptions::kNoBackend) [[unlikely]] {
    ++parts_.stats.calls_unrouted;
    count_use(connection, [](ClientUse& use) {
      ++use.replies;
      ++use.errors;
    });
    parts_.links.answer(now, connection, call.id, call.context->header.xid, rpcrdma::AcceptStatus::kProgramUnavailable);
    return;
  }
  const BackendOptions& backend = parts_.backends[lane.backend];
  BackendStats& stats = parts_.stats.backends[lane.backend];
  ++stats.calls;
  stats.bytes_out += call.message.bytes();
  parts_.reverse.look_at(connection, lane, call);
  if (backend.kind == BackendKind::kTcp) {
    send(now, connection, lane, std::move(call));
    return;
  }
  ++stats.calls_in_flight;
  if (!backend.run_on_workers) {
    run_program(now, connection, lane, std::move(call));
    return;
  }
  parts_.requests.push({.kind = BackendRequest::Kind::kRun,
                        .link = connection.link,
                        .backend = lane.backend,
                        .call = call.id,
                        .message = std::move(call.message)});
}

// 4a. A built-in program runs here, or
void CallPath::run_program(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call) {
  Chain reply;
  BackendStats& stats = parts_.stats.backends[lane.backend];
  if (!parts_.programs.dispatch(*call.context, call.message, {parts_.packets, parts_.large, &call.message}, reply)) {
    (void)waiting_.push(Waiting{connection.link, lane_of(lane.link), std::move(call)});
    return;
  }
  --stats.calls_in_flight;
  ++stats.replies;
  stats.bytes_in += reply.bytes();
  stats.errors += count_reply(connection, reply) ? 1 : 0;
  if (!rpcrdma::is_bench_callback(*call.context)) [[likely]] {
    connection.server->reply(now, call.id, std::move(reply));
    return;
  }
  const rpcrdma::CallContext context = *call.context;  // the reply is the end of the endpoint's
  connection.server->reply(now, call.id, std::move(reply));
  parts_.reverse.call_back(now, connection, lane, context, call.message);
}

// 4b. the call waits for its reply under its XID, and a worker sends it.
void CallPath::send(Instant now, Connection& connection, Lane& lane, rpcrdma::Call&& call) {
  const uint32_t xid = call.context->header.xid;
  if (connection.has_xid(xid)) {
    // RFC 8166 4.2.1: an XID is in use once at a time. The reply could go to either call: neither may be trusted.
    ++parts_.stats.duplicate_xids;
    parts_.connections.end(connection, ConnectionResult::kFailedProtocol, false);
    return;
  }
  if (lane.state == Lane::State::kClosed) [[unlikely]] {
    parts_.links.open(now, connection, lane, xid);  // the worker keeps what is sent until the connection is there
  }
  lane.last_xid = xid;
  BackendStats& stats = parts_.stats.backends[lane.backend];
  ++stats.calls_in_flight;
  ++stats.server_calls[lane.server_number];
  lane.pending.add(xid, {.call = call.id, .since = now, .epoch = parts_.guard.begin(*lane.client)});
  if (!connection.more.empty()) {
    parts_.connections.arm(connection, now + parts_.backends[lane.backend].call_timeout);
  }
  parts_.requests.push({.kind = BackendRequest::Kind::kSend,
                        .link = lane.link,
                        .backend = lane.backend,
                        .call = call.id,
                        .message = std::move(call.message)});
}

// 5a. A worker has run a built-in program, or
void CallPath::on_ran(Instant now, Connection& connection, Lane& lane, rpcrdma::CallId call, Chain&& reply) {
  if (reply.empty()) {
    connection.server->fail();
  } else {
    BackendStats& stats = parts_.stats.backends[lane.backend];
    ++stats.replies;
    stats.bytes_in += reply.bytes();
    stats.errors += count_reply(connection, reply) ? 1 : 0;
    connection.server->reply(now, call, std::move(reply));
  }
  pump(now, connection);
}

// 5b. a backend has answered: the reply goes to the call with its XID, in RDMA Writes and a SEND of the endpoint's.
void CallPath::on_message(Instant now, Connection& connection, Lane& lane, Chain&& message) {
  parts_.stats.backends[lane.backend].bytes_in += message.bytes();
  std::array<uint8_t, 8> start{};
  if (connection.server == std::nullopt || message.bytes() < start.size()) {
    ++parts_.stats.messages_malformed;
    return;
  }
  message.copy_to(0, start);
  const uint32_t xid = load_be32(start.data());
  if (load_be32(start.data() + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    parts_.reverse.on_call(now, connection, lane, xid, std::move(message));
    pump(now, connection);
    return;
  }
  const std::optional<PendingCall> pending = lane.pending.take(xid);
  if (!pending) {
    ++parts_.stats.replies_unmatched;
    return;
  }
  parts_.guard.end(*lane.client, pending->epoch);
  lane.answered_at = now;
  BackendStats& stats = parts_.stats.backends[lane.backend];
  --stats.calls_in_flight;
  --stats.server_calls[lane.server_number];
  ++stats.replies;
  stats.call_ns += static_cast<uint64_t>((now - pending->since).to_ns());
  stats.errors += count_reply(connection, message) ? 1 : 0;
  connection.server->reply(now, pending->call, std::move(message));
  pump(now, connection);
}

template <typename Count>
void CallPath::count_use(const Connection& connection, Count&& count) {
  count(connection.client->use);
  count(parts_.stats.listeners[connection.listener_index].use);
  if (connection.client_class) {
    count(parts_.stats.clients[*connection.client_class].use);
  }
}

void CallPath::count_call(const Connection& connection, const rpcrdma::CallContext& context, uint64_t bytes) {
  count_use(connection, [bytes](ClientUse& use) {
    ++use.calls;
    use.call_bytes += bytes;
  });
  for (const uint8_t operation : context.compound.operations()) {
    ++parts_.stats.nfs4_operations[operation];
  }
}

bool CallPath::count_reply(const Connection& connection, const Chain& reply) {
  const bool is_error = refuses(reply);
  count_use(connection, [bytes = reply.bytes(), is_error](ClientUse& use) {
    ++use.replies;
    use.errors += is_error ? 1 : 0;
    use.reply_bytes += bytes;
  });
  return is_error;
}

void CallPath::count_lost(Connection& connection, uint32_t calls) {
  count_use(connection, [calls](ClientUse& use) { use.errors += calls; });
}

// 6. Is it over, and if not, when is it to be looked at again?
void CallPath::look_after(Instant now, Connection& connection) {
  if (connection.qp->in_error()) {
    parts_.connections.end(connection, ConnectionResult::kFailedTransport, false);
    return;
  }
  if (connection.server->failed()) {
    parts_.connections.end(connection, result_of(connection.server->failure()), false);
    return;
  }
  const Instant next = connection.server->next_deadline();
  parts_.connections.arm(connection, connection.holds > 0 ? earlier(next, connection.held_until) : next);
  if (connection.state == ConnectionState::kOpeningBackend) [[unlikely]] {
    parts_.links.open_first(now, connection);
  }
  if (parts_.drain.is_on()) {
    parts_.drain.go_on(now, connection);
  }
}

void CallPath::retry_oldest(Instant now) {
  if (waiting_.empty()) {
    return;  // their connections have ended meanwhile
  }
  Waiting waiting = waiting_.pop();
  if (Connection* connection = parts_.connections.find(waiting.link)) {
    run_program(now, *connection, connection->lane(waiting.lane), std::move(waiting.call));
    pump(now, *connection);
  }
}

bool CallPath::resume_oldest(Instant now) {
  if (stalled_.empty() || !may_take_call(*stalled_.front())) {
    return false;
  }
  pump(now, *stalled_.pop_front());
  return true;
}

void CallPath::drop_waiting(Connection& connection) {
  for (uint32_t count = waiting_.size(); count > 0; --count) {
    Waiting waiting = waiting_.pop();
    if (waiting.link == connection.link) {
      --parts_.stats.backends[connection.lane(waiting.lane).backend].calls_in_flight;
    } else {
      (void)waiting_.push(std::move(waiting));
    }
  }
}

}  // namespace cw::gateway
