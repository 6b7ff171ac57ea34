#include "rpcrdma/endpoint/reverse_caller.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kRpcCallBytesMin = 8;  // XID and CALL: what the direction is read from

// The header of an inline message: four fixed words, then an empty Read list, Write list and Reply chunk (RFC 8167 1: nothing
// new on the wire).
void write_header(Buffer& out, uint32_t xid, uint32_t credit) {
  const FixedHeader fixed{.xid = xid, .credit = credit, .proc = static_cast<uint32_t>(RdmaProc::kMsg)};
  const MutableBytes room = out.tailroom();
  fixed.write(room.first<FixedHeader::kSize>());
  std::fill_n(room.data() + FixedHeader::kSize, kBareHeaderBytes - FixedHeader::kSize, uint8_t{0});
  out.size += kBareHeaderBytes;
}

}  // namespace

const char* to_string(ReverseStatus status) noexcept {
  switch (status) {
    case ReverseStatus::kReplied:
      return "replied";
    case ReverseStatus::kRefused:
      return "refused";
    case ReverseStatus::kExpired:
      return "expired";
  }
  return "unknown status";
}

ReverseCaller::ReverseCaller(verbs::QueuePair& qp, SendWindow& window, BufferPool& pool, RpcRdmaStats& stats,
                             const ServerOptions& options, uint32_t send_bytes_max)
    : qp_(qp),
      window_(window),
      pool_(pool),
      stats_(stats),
      credits_wanted_(std::min(options.reverse_credits, kCreditsMax)),
      send_bytes_max_(send_bytes_max),
      patience_(options.reverse_patience),
      waiting_(kWaitingMax),
      outcomes_(kWaitingMax + credits_wanted_) {
  CW_DASSERT(credits_wanted_ > 0);
  entries_.reserve(outcomes_.capacity());
  stats_.reverse_credits_granted += granted_;
}

ReverseCaller::~ReverseCaller() {
  stats_.reverse_credits_granted -= granted_;
  stats_.reverse_credits_in_use -= in_flight_;
}

Status ReverseCaller::submit(Instant now, Chain&& call) {
  std::array<uint8_t, kRpcCallBytesMin> start{};
  if (call.bytes() < start.size()) {
    return fail(Error::kBadValue);
  }
  call.copy_to(0, start);
  const uint32_t xid = load_be32(start.data());
  if (load_be32(start.data() + 4) != static_cast<uint32_t>(RpcMessageType::kCall) || find(xid) != nullptr) {
    return fail(Error::kBadValue);
  }
  if (kBareHeaderBytes + call.bytes() > send_bytes_max_) {
    return fail(Error::kLimit);
  }
  // An outcome has its place from here on: those not polled yet count too.
  if (waiting_.full() || entries_.size() + outcomes_.size() >= outcomes_.capacity()) {
    return fail(Error::kNoResources);
  }
  entries_.push_back({.xid = xid});
  CW_ASSERT(waiting_.push({.xid = xid, .expires = now + patience_, .call = std::move(call)}));
  return {};
}

ReverseCaller::Progress ReverseCaller::advance() {
  while (!waiting_.empty() && in_flight_ < granted_) {
    const uint32_t room = window_.room();
    if (room == 0) {
      return qp_.in_error() ? Progress::kFailed : Progress::kNoRoom;
    }
    Buffer* header = pool_.allocate_one();
    if (header == nullptr) {
      return Progress::kNoBuffer;
    }
    Waiting next = waiting_.pop();
    Entry* entry = find(next.xid);
    CW_ASSERT(entry != nullptr);
    if (!send(*entry, std::move(next.call), room, *header)) {
      return Progress::kFailed;
    }
  }
  return Progress::kDone;
}

bool ReverseCaller::send(Entry& entry, Chain&& call, uint32_t room, Buffer& header) {
  write_header(header, entry.xid, credits_wanted_);
  Chain body = std::move(call);
  // Calls are rare and short: copied, they need no view of the backend's Buffer, which is free at once.
  if (body.bytes() <= header.tailroom().size()) {
    body.copy_to(0, header.tailroom().first(static_cast<size_t>(body.bytes())));
    header.size += static_cast<uint32_t>(body.bytes());
    body.clear();
  }
  const bool signaled = window_.signaled(room);
  verbs::SendRequest request{.payload = Chain(&header), .signaled = signaled};
  request.payload.append(std::move(body));
  qp_.post_receives(1);  // for the Reply (RFC 8167 4.3.2)
  if (!qp_.post_send(std::move(request)).ok()) {
    return false;
  }
  window_.note_posted();
  entry.sent = true;
  ++in_flight_;
  ++stats_.reverse_credits_in_use;
  ++stats_.reverse_calls;
  ++stats_.messages_out[static_cast<size_t>(MessageKind::kMsg)];
  return true;
}

bool ReverseCaller::take(HeaderView& view, Chain& message) {
  if (message.bytes() < kChunkErrorBytes) {
    return false;
  }
  const Bytes head = view.fixed(message);
  const auto fixed = FixedHeader::parse(head);
  Entry* entry = fixed.ok() ? find(fixed->xid) : nullptr;
  if (entry == nullptr || !entry->sent) {
    return false;
  }
  // RFC 8167 4.1: an error has no RPC message to tell its direction; a Call of ours under its XID does. Errors are answers, and
  // the client's own Calls are answered by this side, so that it can be no other.
  return fixed->proc == static_cast<uint32_t>(RdmaProc::kError) ? take_error(head, *fixed, *entry)
                                                                : take_reply(*fixed, message, *entry);
}

bool ReverseCaller::take_error(Bytes message, const FixedHeader& fixed, Entry& entry) {
  const auto error = parse_error(message);
  if (!error.ok()) {
    return false;
  }
  ++stats_.messages_in[static_cast<size_t>(MessageKind::kError)];
  ++(error->code == RdmaErrorCode::kVersion ? stats_.errors_in_version : stats_.errors_in_chunk);
  if (replied_) {
    grant(fixed.credit);
  }
  finish(entry, {.status = ReverseStatus::kRefused, .xid = fixed.xid, .message = {}});
  return true;
}

// RDMA_MSG without chunks, since none was offered, and a REPLY under the same XID behind it (RFC 8167 5.2).
bool ReverseCaller::take_reply(const FixedHeader& fixed, Chain& message, Entry& entry) {
  std::array<uint8_t, kBareHeaderBytes + 8 - FixedHeader::kSize> rest{};
  const bool inline_reply = fixed.version == kRpcRdmaVersion && fixed.proc == static_cast<uint32_t>(RdmaProc::kMsg) &&
                            message.bytes() >= kBareHeaderBytes + kRpcReplyBytesMin;
  if (!inline_reply) {
    return false;
  }
  message.copy_to(FixedHeader::kSize, rest);
  const auto word = [&rest](size_t index) { return load_be32(rest.data() + 4 * index); };
  const bool no_chunks = word(0) == 0 && word(1) == 0 && word(2) == 0;
  if (!no_chunks || word(3) != fixed.xid || word(4) != static_cast<uint32_t>(RpcMessageType::kReply)) {
    return false;
  }
  ++stats_.messages_in[static_cast<size_t>(MessageKind::kMsg)];
  ++stats_.reverse_replies;
  replied_ = true;
  grant(fixed.credit);
  message.trim_front(kBareHeaderBytes);
  finish(entry, {.status = ReverseStatus::kReplied, .xid = fixed.xid, .message = std::move(message)});
  return true;
}

void ReverseCaller::finish(Entry& entry, ReverseOutcome&& outcome) {
  if (entry.sent) {
    --in_flight_;
    --stats_.reverse_credits_in_use;
  }
  entry = entries_.back();
  entries_.pop_back();
  CW_ASSERT(outcomes_.push(std::move(outcome)));
}

// The newest value holds, up or down; 0 would stop us for good, and more than we asked for has no receive behind it.
void ReverseCaller::grant(uint32_t credit) {
  stats_.reverse_credits_granted -= granted_;
  granted_ = std::clamp(credit, 1u, credits_wanted_);
  stats_.reverse_credits_granted += granted_;
}

ReverseCaller::Entry* ReverseCaller::find(uint32_t xid) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [xid](const Entry& entry) { return entry.xid == xid; });
  return found == entries_.end() ? nullptr : &*found;
}

bool ReverseCaller::poll_outcome(ReverseOutcome& out) {
  if (outcomes_.empty()) {
    return false;
  }
  out = outcomes_.pop();
  return true;
}

Instant ReverseCaller::next_deadline() const {
  return waiting_.empty() ? Instant::never() : waiting_.front().expires;
}

void ReverseCaller::on_deadline(Instant now) {
  while (!waiting_.empty() && waiting_.front().expires <= now) {
    const uint32_t xid = waiting_.pop().xid;
    Entry* entry = find(xid);
    CW_ASSERT(entry != nullptr);
    finish(*entry, {.status = ReverseStatus::kExpired, .xid = xid, .message = {}});
  }
}

}  // namespace cw::rpcrdma
