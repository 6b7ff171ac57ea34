// How calls and replies travel through a connection: endpoint, built-in programs, backend.
#include <algorithm>
#include <array>

#include "control/gateway/gateway_connection.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {

void Gateway::on_queue_pair_ready(Instant now, rc::RcQp& qp) {
  Connection* connection = find(LinkId(qp.user_data()));
  if (connection == nullptr || connection->qp != &qp) {
    return;
  }
  if (connection->state == ConnectionState::kAccepting && qp.communication_established()) {
    node_.cm().data_arrived(now, connection->cm_id);
  }
  connection->server->on_completions(now);
  pump(now, *connection);
}

void Gateway::pump(Instant now, Connection& connection) {
  rpcrdma::Call call;
  const LinkId link = connection.link;
  ListNode<StalledTag>& stalled = connection;
  pass_reverse_outcomes(connection);
  while (!stalled.is_linked() && connection.holds == 0 && !draining_) {
    if (!requests_room(1)) {
      stalled_.push_back(connection);
      break;
    }
    if (!connection.server->poll_call(call)) {
      break;
    }
    route(now, connection, std::move(call));
    if (find(link) == nullptr) {
      return;  // the call ended its connection
    }
  }
  rpcrdma::CallDone done;
  while (!done_.full() && connection.server->poll_done(done)) {
    ++connection.calls;
    (void)done_.push(rpcrdma::CallDone(done));
  }
  check_failed(now, connection);
  if (find(link) != nullptr) {
    const Instant next = connection.server->next_deadline();
    arm(connection, connection.holds > 0 ? earlier(next, connection.held_until) : next);
    if (draining_) {
      go_on_draining(now, connection);
    }
  }
}

void Gateway::check_failed(Instant now, Connection& connection) {
  if (connection.qp->in_error()) {
    end(now, connection, ConnectionResult::kFailedTransport, false);
  } else if (connection.server->failed()) {
    end(now, connection, connection.timed_out ? ConnectionResult::kFailedBackendTimeout : ConnectionResult::kFailedProtocol,
        false);
  }
}

void Gateway::route(Instant now, Connection& connection, rpcrdma::Call&& call) {
  const uint32_t backend_index = connection.listener->backend;
  const BackendOptions& backend = options_.backends[backend_index];
  BackendStats& stats = stats_.backends[backend_index];
  ++stats.calls;
  stats.bytes_out += call.message.bytes();
  open_reverse(connection, call);
  if (backend.kind == BackendKind::kBuiltin && !backend.run_on_workers) {
    ++stats.calls_in_flight;
    run_program(now, connection, std::move(call));
    return;
  }
  BackendRequest request;
  request.link = connection.link;
  request.backend = backend_index;
  request.call = call.id;
  request.context = call.context;
  request.message = std::move(call.message);
  if (backend.kind == BackendKind::kBuiltin) {
    request.kind = BackendRequest::Kind::kRun;
  } else {
    request.kind = BackendRequest::Kind::kSend;
    const uint32_t xid = call.context.header.xid;
    const auto& pending = connection.pending_xids;
    if (std::find(pending.begin(), pending.end(), xid) != pending.end()) {
      // RFC 8166 4.2.1: an XID is in use once at a time. The reply could go to either call: neither may be trusted.
      ++stats_.duplicate_xids;
      end(now, connection, ConnectionResult::kFailedProtocol, false);
      return;
    }
    connection.pending_xids.push_back(xid);
    connection.pending_calls.push_back(call.id);
    connection.pending_epochs.push_back(guard_.begin(*connection.client));
  }
  ++stats.calls_in_flight;
  push_request(std::move(request));
}

void Gateway::run_program(Instant now, Connection& connection, rpcrdma::Call&& call) {
  Chain reply;
  BackendStats& stats = stats_.backends[connection.listener->backend];
  if (!programs_.dispatch(call.context, call.message, large_, reply)) {
    (void)waiting_.push(Waiting{connection.link, std::move(call)});
    return;
  }
  --stats.calls_in_flight;
  ++stats.replies;
  stats.bytes_in += reply.bytes();
  connection.server->reply(now, call.id, std::move(reply));
  call_back(now, connection, call);
}

void Gateway::push_request(BackendRequest&& request) {
  const bool pushed = requests_.push(std::move(request));
  CW_ASSERT(pushed);
}

bool Gateway::poll_backend_request(BackendRequest& out) {
  if (requests_.empty()) {
    return false;
  }
  out = requests_.pop();
  return true;
}

bool Gateway::poll_done(rpcrdma::CallDone& out) {
  if (done_.empty()) {
    return false;
  }
  out = done_.pop();
  return true;
}

bool Gateway::poll_notice(Notice& out) {
  if (notices_.empty()) {
    return false;
  }
  out = notices_.pop();
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
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      connection->link_open = true;
      note_backend(connection->listener->backend, true);
      ++stats.opens;
      ++stats.links;
      ++stats.server_links[connection->server_index];
      accept(now, *connection);
      return;
    case BackendEvent::Kind::kFailed:
      note_backend(connection->listener->backend, false);
      ++stats.open_failures;
      end(now, *connection, ConnectionResult::kRefusedBackend, false);
      return;
    case BackendEvent::Kind::kMessage:
      stats.bytes_in += event.message.bytes();
      on_backend_message(now, *connection, std::move(event.message));
      return;
    case BackendEvent::Kind::kClosed:
      ++stats.closes;
      end(now, *connection, ConnectionResult::kFailedBackend, false);
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

void Gateway::on_backend_message(Instant now, Connection& connection, Chain&& message) {
  std::array<uint8_t, 8> start{};
  if (connection.server == std::nullopt || message.bytes() < start.size()) {
    ++stats_.messages_malformed;
    return;
  }
  message.copy_to(0, start);
  const uint32_t xid = load_be32(start.data());
  if (load_be32(start.data() + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    on_reverse_call(now, connection, xid, std::move(message));
    pump(now, connection);
    return;
  }
  auto& xids = connection.pending_xids;
  const auto found = std::find(xids.begin(), xids.end(), xid);
  if (found == xids.end()) {
    ++stats_.replies_unmatched;
    return;
  }
  const size_t index = static_cast<size_t>(found - xids.begin());
  const rpcrdma::CallId call = connection.pending_calls[index];
  xids[index] = xids.back();
  xids.pop_back();
  connection.pending_calls[index] = connection.pending_calls.back();
  connection.pending_calls.pop_back();
  guard_.end(*connection.client, connection.pending_epochs[index]);
  connection.pending_epochs[index] = connection.pending_epochs.back();
  connection.pending_epochs.pop_back();
  BackendStats& stats = stats_.backends[connection.listener->backend];
  --stats.calls_in_flight;
  ++stats.replies;
  connection.server->reply(now, call, std::move(message));
  pump(now, connection);
}

}  // namespace cw::gateway
