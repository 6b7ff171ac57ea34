#include "gateway/reverse_calls.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
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

// Where the reply to a call in reverse direction goes; nullptr: that backend connection is gone.
Lane* take_reverse_lane(Connection& connection, uint32_t xid) {
  if (connection.more.empty()) {
    return &connection.first;
  }
  // An outcome that waits for room has freed its XID, so that two calls may have it: the older one's outcome comes first.
  auto& calls = connection.reverse_calls;
  const auto found = std::ranges::find(calls, xid, &Connection::ReverseCall::xid);
  CW_ASSERT(found != calls.end());
  Lane* lane = found->lane ? &connection.lane(*found->lane) : nullptr;
  calls.erase(found);
  return lane;
}

// The lane's call has the XID in flight, and no other backend's.
bool is_own_xid(const Connection& connection, const Lane& lane, uint32_t xid) {
  if (connection.more.empty()) {
    return true;
  }
  const auto& calls = connection.reverse_calls;
  const auto latest = std::find_if(calls.rbegin(), calls.rend(), [&](const auto& call) { return call.xid == xid; });
  return latest != calls.rend() && latest->lane == lane_of(lane.link);
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
void ReverseCalls::look_at(Connection& connection, Lane& lane, const rpcrdma::Call& call) {
  if (connection.takes_reverse && !lane.reverse_enabled && rpcrdma::opens_reverse_direction(*call.context, call.message)) {
    lane.reverse_enabled = true;
    connection.server->enable_reverse();
  }
}

// The built-in bench program calls back from here: programs compute and return, they have no connection.
void ReverseCalls::call_back(Instant now, Connection& connection, Lane& lane, const rpcrdma::CallContext& context,
                             const Chain& message) {
  if (connection.server->failed()) {
    return;
  }
  Chain reverse;
  const uint32_t xid = context.header.xid;
  const auto callback = rpcrdma::parse_bench_callback(context, message);
  if (callback.ok() && rpcrdma::build_bench_reverse_call(large_, xid, *callback, reverse)) {
    on_call(now, connection, lane, xid, std::move(reverse));
  }
}

void ReverseCalls::on_call(Instant now, Connection& connection, Lane& lane, uint32_t xid, Chain&& call) {
  Chain message = std::move(call);
  if (!lane.reverse_enabled) {
    refuse(lane, xid, ReverseDrop::kNotEnabled, true);
    return;
  }
  const Status taken = connection.server->submit_reverse(now, std::move(message));
  if (!taken.ok()) {
    const ReverseDrop reason = drop_reason(taken.error());
    // A backend's own duplicate is no call of its own: an answer would end the other one.
    refuse(lane, xid, reason, reason != ReverseDrop::kDuplicateXid || !is_own_xid(connection, lane, xid));
    return;
  }
  if (!connection.more.empty()) {
    connection.reverse_calls.push_back({xid, lane_of(lane.link)});
  }
  ++stats_.reverse_calls;
}

void ReverseCalls::pass_outcomes(Connection& connection) {
  if (!connection.server->reverse_enabled()) [[likely]] {
    return;
  }
  rpcrdma::ReverseOutcome outcome;
  while (requests_.has_room() && connection.server->poll_reverse(outcome)) {
    const Lane* lane = take_reverse_lane(connection, outcome.xid);
    if (lane == nullptr) {
      outcome.message.clear();
      continue;
    }
    if (outcome.status != rpcrdma::ReverseStatus::kReplied) {
      const bool expired = outcome.status == rpcrdma::ReverseStatus::kExpired;
      refuse(*lane, outcome.xid, expired ? ReverseDrop::kExpired : ReverseDrop::kRefused, true);
      continue;
    }
    ++stats_.reverse_replies;
    send_to_backend(*lane, std::move(outcome.message));
  }
}

void ReverseCalls::refuse(const Lane& lane, uint32_t xid, ReverseDrop reason, bool answers) {
  ++stats_.reverse_calls_dropped[static_cast<size_t>(reason)];
  if (!answers || !requests_.has_room()) {
    return;
  }
  std::array<uint8_t, rpcrdma::kAcceptedReplyBytes> raw{};
  rpcrdma::write_accepted_reply(raw, xid, rpcrdma::AcceptStatus::kSystemError);
  Chain reply;
  if (reply.append_copy(packets_, raw)) {
    send_to_backend(lane, std::move(reply));
  }
}

// Precondition: requests_.has_room(). Built-in programs need no answer.
void ReverseCalls::send_to_backend(const Lane& lane, Chain&& message) {
  const uint32_t backend = lane.backend;
  if (!backends_.is_tcp(lane.backend) || lane.state != Lane::State::kOpen) {
    message.clear();
    return;
  }
  stats_.backends[backend].bytes_out += message.bytes();
  BackendRequest request;
  request.kind = BackendRequest::Kind::kSend;
  request.link = lane.link;
  request.backend = backend;
  request.message = std::move(message);
  requests_.push(std::move(request));
}

}  // namespace cw::gateway
