#include "gateway/backend_ping.h"

#include <array>
#include <utility>

#include "base/bytes.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kXid = 0x70696e67;  // its connection carries no other

}  // namespace

const char* to_string(PingOutcome outcome) noexcept {
  switch (outcome) {
    case PingOutcome::kSuccess:
      return "success";
    case PingOutcome::kProgramUnavailable:
      return "program unavailable";
    case PingOutcome::kVersionMismatch:
      return "version mismatch";
    case PingOutcome::kRefusedCall:
      return "call refused";
    case PingOutcome::kNotReached:
      return "not reached";
    case PingOutcome::kClosed:
      return "closed without a reply";
    case PingOutcome::kNoReply:
      return "no reply";
    case PingOutcome::kNonsense:
      return "not a reply";
    case PingOutcome::kNoMemory:
      return "no memory";
  }
  return "unknown";
}

std::array<uint8_t, kNullCallBytes> null_call(uint32_t xid, uint32_t program, uint32_t version) {
  // XID, CALL, RPC version, program, version, procedure, two empty AUTH_NONE.
  const std::array<uint32_t, kNullCallBytes / 4> words = {xid, 0, rpcrdma::kRpcVersion, program, version};
  std::array<uint8_t, kNullCallBytes> raw{};
  for (size_t i = 0; i < words.size(); ++i) {
    store_be32(raw.data() + 4 * i, words[i]);
  }
  return raw;
}

void BackendPing::start(Instant now, const PingOrder& order) {
  order_ = order;
  result_ = PingResult{};
  has_result_ = false;
  link_ = link_id(++generation_, core_, 0, kSlot);
  since_ = now;
  deadline_ = now + order.timeout;
  if (order.builtin) {
    call(now);
    return;
  }
  state_ = State::kConnecting;
  request_ = BackendRequest{};
  request_.kind = BackendRequest::Kind::kOpen;
  request_.link = link_;
  request_.backend = order.backend;
  request_.server = order.server;
  has_request_ = true;
}

void BackendPing::call(Instant now) {
  state_ = State::kCalling;
  since_ = now;
  const auto raw = null_call(kXid, order_.program, order_.version);
  request_ = BackendRequest{};
  request_.kind = order_.builtin ? BackendRequest::Kind::kRun : BackendRequest::Kind::kSend;
  request_.link = link_;
  request_.backend = order_.backend;
  if (!request_.message.append_copy(pool_, raw)) {
    end(PingOutcome::kNoMemory);
    return;
  }
  has_request_ = true;
}

bool BackendPing::poll_request(BackendRequest& out) {
  if (has_request_) {
    has_request_ = false;
    out = std::move(request_);
    return true;
  }
  if (!closes_) {
    return false;
  }
  closes_ = false;
  out = BackendRequest{};
  out.kind = BackendRequest::Kind::kClose;
  out.link = link_;
  out.backend = order_.backend;
  return true;
}

void BackendPing::on_event(Instant now, BackendEvent&& event) {
  if (event.link != link_ || state_ == State::kIdle) {
    return;  // of one that had been given up
  }
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      result_.connect = now - since_;
      call(now);
      return;
    case BackendEvent::Kind::kPortBusy:
      return;  // a ping asks for no port
    case BackendEvent::Kind::kFailed:
      end(PingOutcome::kNotReached);
      return;
    case BackendEvent::Kind::kClosed:
      end(PingOutcome::kClosed);
      return;
    case BackendEvent::Kind::kMessage:
    case BackendEvent::Kind::kRan:
      result_.call = now - since_;
      end(judge(event.message));
      return;
  }
}

PingOutcome BackendPing::judge(const Chain& reply) const {
  const auto header = rpcrdma::parse_rpc_reply(reply);
  if (!header.ok() || header->xid != kXid) {
    return PingOutcome::kNonsense;
  }
  if (header->success()) {
    return PingOutcome::kSuccess;
  }
  if (header->accepted && header->status == static_cast<uint32_t>(rpcrdma::AcceptStatus::kProgramUnavailable)) {
    return PingOutcome::kProgramUnavailable;
  }
  const bool mismatch = header->accepted && header->status == static_cast<uint32_t>(rpcrdma::AcceptStatus::kProgramMismatch);
  return mismatch ? PingOutcome::kVersionMismatch : PingOutcome::kRefusedCall;
}

void BackendPing::on_deadline(Instant now) {
  if (state_ != State::kIdle && now >= deadline_) {
    end(state_ == State::kConnecting ? PingOutcome::kNotReached : PingOutcome::kNoReply);
  }
}

void BackendPing::end(PingOutcome outcome) {
  // A connection that failed is gone already.
  closes_ =
      !order_.builtin && outcome != PingOutcome::kClosed && (state_ == State::kCalling || outcome == PingOutcome::kNotReached);
  state_ = State::kIdle;
  has_request_ = false;
  request_.message.clear();
  result_.outcome = outcome;
  has_result_ = true;
}

bool BackendPing::poll_result(PingResult& out) {
  if (!has_result_) {
    return false;
  }
  has_result_ = false;
  out = result_;
  return true;
}

}  // namespace cw::gateway
