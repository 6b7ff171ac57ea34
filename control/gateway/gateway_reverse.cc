// Calls in reverse direction (RFC 8167): from a backend on its connection to the RDMA client whose connection it belongs to.
//
// XIDs pass unchanged: one backend connection per client connection, so that they are unique where they go. What cannot be
// delivered is counted under one reason and answered with SYSTEM_ERR, since the backend would wait for its own timeout otherwise.
#include <array>

#include "control/gateway/gateway_connection.h"
#include "rpcrdma/backend/bench_callback.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/reverse_opening.h"

namespace cw::gateway {
namespace {

ReverseDrop drop_reason(Error error) {
  switch (error) {
    case Error::kLimit:
      return ReverseDrop::kTooLong;
    case Error::kBadValue:
      return ReverseDrop::kDuplicateXid;
    case Error::kNoResources:
      return ReverseDrop::kQueueFull;
    case Error::kBadState:
    case Error::kTruncated:
    case Error::kUnsupported:
    case Error::kNoSpace:
      break;
  }
  return ReverseDrop::kNotEnabled;
}

}  // namespace

const char* to_string(ReverseDrop reason) noexcept {
  switch (reason) {
    case ReverseDrop::kNotEnabled:
      return "not_enabled";
    case ReverseDrop::kTooLong:
      return "too_long";
    case ReverseDrop::kDuplicateXid:
      return "duplicate_xid";
    case ReverseDrop::kQueueFull:
      return "queue_full";
    case ReverseDrop::kExpired:
      return "expired";
    case ReverseDrop::kRefused:
      return "refused";
    case ReverseDrop::kCount:
      break;
  }
  return "unknown";
}

// RFC 8167 6: nothing is sent to a client before its upper layer has said that it is ready; a call on this very connection says
// so, and it is seen here before the backend, which may answer with a call at once.
void Gateway::open_reverse(Connection& connection, const rpcrdma::Call& call) {
  if (connection.listener->server.reverse_credits > 0 && !connection.server->reverse().enabled() &&
      rpcrdma::opens_reverse_direction(call.context, call.message)) {
    connection.server->enable_reverse();
  }
}

// The built-in bench program calls back from here: programs compute and return, they have no connection.
void Gateway::call_back(Instant now, Connection& connection, const rpcrdma::Call& call) {
  if (!rpcrdma::is_bench_callback(call.context) || connection.server->failed()) {
    return;
  }
  Chain reverse;
  const uint32_t xid = call.context.header.xid;
  const auto callback = rpcrdma::parse_bench_callback(call.context, call.message);
  if (callback.ok() && rpcrdma::build_bench_reverse_call(large_, xid, *callback, reverse)) {
    on_reverse_call(now, connection, xid, std::move(reverse));
  }
}

void Gateway::on_reverse_call(Instant now, Connection& connection, uint32_t xid, Chain&& call) {
  Chain message = std::move(call);
  const Status taken = connection.server->submit_reverse(now, std::move(message));
  if (!taken.ok()) {
    refuse_reverse(connection, xid, drop_reason(taken.error()));
    return;
  }
  ++stats_.reverse_calls;
}

void Gateway::pass_reverse_outcomes(Connection& connection) {
  rpcrdma::ReverseOutcome outcome;
  while (requests_room() && connection.server->poll_reverse(outcome)) {
    if (outcome.status != rpcrdma::ReverseStatus::kReplied) {
      const bool expired = outcome.status == rpcrdma::ReverseStatus::kExpired;
      refuse_reverse(connection, outcome.xid, expired ? ReverseDrop::kExpired : ReverseDrop::kRefused);
      continue;
    }
    ++stats_.reverse_replies;
    send_to_backend(connection, std::move(outcome.message));
  }
}

void Gateway::refuse_reverse(Connection& connection, uint32_t xid, ReverseDrop reason) {
  ++stats_.reverse_calls_dropped[static_cast<size_t>(reason)];
  // A duplicate is no call of its own: an answer would end the other one.
  if (reason == ReverseDrop::kDuplicateXid || !requests_room()) {
    return;
  }
  std::array<uint8_t, rpcrdma::kAcceptedReplyBytes> octets{};
  rpcrdma::write_accepted_reply(octets, xid, rpcrdma::AcceptStatus::kSystemError);
  Chain reply;
  if (reply.append_copy(packets_, octets)) {
    send_to_backend(connection, std::move(reply));
  }
}

// Precondition: requests_room(). Built-in programs need no answer.
void Gateway::send_to_backend(Connection& connection, Chain&& message) {
  const uint32_t backend = connection.listener->backend;
  if (options_.backends[backend].kind != BackendKind::kTcp) {
    return;
  }
  stats_.backends[backend].bytes_out += message.bytes();
  BackendRequest request;
  request.kind = BackendRequest::Kind::kSend;
  request.link = connection.link;
  request.backend = backend;
  request.message = std::move(message);
  push_request(std::move(request));
}

}  // namespace cw::gateway
