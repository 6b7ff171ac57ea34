// The part of the client side that reads what the server sends, and believes none of it unchecked.
#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "rpcrdma/endpoint/pending_call.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::rpcrdma {

void ClientEndpoint::on_message(Chain&& message, std::optional<verbs::Rkey> invalidated) {
  Chain received = std::move(message);
  const bool has_fixed = received.bytes() >= kChunkErrorBytes;
  const Bytes head = has_fixed ? header_view_.fixed(received) : Bytes();
  const auto fixed = FixedHeader::parse(head);
  const bool is_error = fixed.ok() && fixed->proc == static_cast<uint32_t>(RdmaProc::kError);
  // RFC 8166 4.5 drops what is under 28 bytes unread, yet its own ERR_CHUNK has 20: the floor holds for everything else.
  if (!fixed.ok() || (!is_error && received.bytes() < kCallHeaderBytesMin)) {
    ++stats_.short_messages;
    return;
  }
  PendingCall* pending = find(fixed->xid);
  stats_.remote_invalidations += invalidated ? 1 : 0;
  if (invalidated && (pending == nullptr || !pending->mark_invalidated(*invalidated))) {
    // RFC 8797 4.1: only a key of the same transaction. Some other call has lost its memory, and which cannot be undone.
    ++stats_.bad_replies;
    fail();
    return;
  }
  if (is_error) {
    on_error(head, *fixed);
    return;
  }
  if (reverse_.credits() > 0 && !invalidated && take_reverse_call(*fixed, pending != nullptr, received)) {
    return;
  }
  if (pending == nullptr) {
    ++stats_.unknown_xid;
    return;
  }
  on_reply(std::move(received), *fixed, *pending);
}

bool ClientEndpoint::take_reverse_call(const FixedHeader& fixed, bool forward_pending, Chain& message) {
  switch (reverse_.take(header_view_, chunks_, fixed, forward_pending, message)) {
    case ReverseResponder::Taken::kNotACall:
      return false;
    case ReverseResponder::Taken::kTaken:
      return true;
    case ReverseResponder::Taken::kViolation:
      ++stats_.credit_violations;
      fail();
      return true;
  }
  return false;
}

void ClientEndpoint::on_error(Bytes message, const FixedHeader& fixed) {
  ++stats_.messages_in[static_cast<size_t>(MessageKind::kError)];
  const auto error = parse_error(message);
  if (!error.ok()) {
    ++stats_.bad_replies;
    return;
  }
  PendingCall* pending = find(fixed.xid);
  if (pending == nullptr) {
    ++stats_.unknown_xid;
    return;
  }
  // Whether it opens up the credits is unsaid; until a real reply has come the limit stays at one (docs/architecture.md).
  if (replied_) {
    grant(fixed.credit);
  }
  const bool version = error->code == RdmaErrorCode::kVersion;
  ++(version ? stats_.errors_in_version : stats_.errors_in_chunk);
  deliver(*pending, version ? CallStatus::kErrorVersion : CallStatus::kErrorChunk);
  answered(*pending);
}

void ClientEndpoint::on_reply(Chain&& message, const FixedHeader& fixed, PendingCall& pending) {
  Chain reply = std::move(message);
  uint32_t header = 0;
  if (!check_reply(reply, fixed, header)) {
    return;
  }
  const bool matches = pending.abandoned || match_chunks(chunks_, options_.segment_bytes_max, pending);
  if (matches) {
    grant(fixed.credit);
    replied_ = true;
  } else {
    ++stats_.bad_replies;
  }
  // Shut off before the stream is looked at (RFC 8166 4.4.1).
  const uint32_t reply_chunk_bytes = pending.outcome.reply_chunk_bytes;
  exposed_ = !hide_chunks(memory_, domain_, pending) || exposed_;
  const bool long_reply = fixed.proc == static_cast<uint32_t>(RdmaProc::kNomsg);
  const bool same_xid = !matches || pending.abandoned || !long_reply ||
                        (reply_chunk_bytes >= kXidBytes && load_be32(pending.reply_memory.data()) == pending.xid);
  if (!same_xid) {
    ++stats_.xid_mismatch;
    ++stats_.bad_replies;
  }
  const bool is_reply = !matches || pending.abandoned || !long_reply ||
                        (reply_chunk_bytes >= 2 * kXidBytes &&
                         load_be32(pending.reply_memory.data() + kXidBytes) == static_cast<uint32_t>(RpcMessageType::kReply));
  stats_.bad_replies += is_reply ? 0 : 1;
  bool good = matches && same_xid && is_reply;
  if (good && !pending.abandoned) {
    count_moved(pending.outcome);
    if (long_reply) {
      reply.clear();
    } else {
      reply.trim_front(header);
    }
    good = check_results(pending, reply, long_reply);
    pending.outcome.message = std::move(reply);
  }
  deliver(pending, good ? CallStatus::kReplied : CallStatus::kBadReply);
  answered(pending);
}

// RFC 8166 6.1: the Write chunks hold the eligible results and nothing else does. The lists in chunks_ are those that were
// offered.
bool ClientEndpoint::check_results(const PendingCall& pending, const Chain& message, bool long_reply) {
  if (chunks_.write_count == 0) {
    return true;
  }
  Reduction moved(Reduction::Kind::kResults);
  for (uint32_t i = 0; i < chunks_.write_count; ++i) {
    moved.add_write_chunk(chunks_.write[i].segment_count > 0, pending.outcome.write_bytes[i]);
  }
  const Bytes in_chunk = pending.reply_memory.first(pending.outcome.reply_chunk_bytes);
  const XdrReader stream = long_reply ? XdrReader(in_chunk) : XdrReader(message);
  const bool sound = reduces_eligible_results(pending.context, stream, moved);
  stats_.ddp_violations += sound ? 0 : 1;
  stats_.bad_replies += sound ? 0 : 1;
  return sound;
}

// What the server wrote for this call, from the header that match_chunks() has accepted.
void ClientEndpoint::count_moved(const ClientReply& outcome) {
  const auto count = [this](ChunkKind kind, const PlainChunk& chunk, uint32_t bytes) {
    ChunkStats& counted = stats_.chunks[static_cast<size_t>(kind)];
    counted.chunks += bytes > 0 ? 1 : 0;
    counted.bytes += bytes;
    for (const Segment& segment : chunks_.segments_of(chunk)) {
      counted.segments += segment.length > 0 ? 1 : 0;
    }
  };
  for (uint32_t i = 0; i < chunks_.write_count; ++i) {
    count(ChunkKind::kWrite, chunks_.write[i], outcome.write_bytes[i]);
  }
  if (chunks_.has_reply) {
    count(ChunkKind::kReply, chunks_.reply, outcome.reply_chunk_bytes);
  }
}

// False for a message that has to be dropped silently (RFC 8166 4.5): the call stays pending.
bool ClientEndpoint::check_reply(const Chain& message, const FixedHeader& fixed, uint32_t& header_bytes) {
  const bool inline_reply = fixed.proc == static_cast<uint32_t>(RdmaProc::kMsg);
  const bool long_reply = fixed.proc == static_cast<uint32_t>(RdmaProc::kNomsg);
  if (fixed.version != kRpcRdmaVersion || (!inline_reply && !long_reply)) {
    ++stats_.messages_in[static_cast<size_t>(MessageKind::kOther)];
    ++stats_.bad_replies;
    return false;
  }
  ++stats_.messages_in[static_cast<size_t>(inline_reply ? MessageKind::kMsg : MessageKind::kNomsg)];
  const auto decoded = header_view_.decode(message, ChunkLimits{}, chunks_);
  if (!decoded.ok()) {
    ++stats_.malformed[static_cast<size_t>(decoded.error())];
    ++stats_.bad_replies;
    return false;
  }
  header_bytes = decoded->header_bytes;
  const bool reply_chunk_used = chunks_.has_reply && chunks_.reply.capacity_bytes > 0;
  if (inline_reply) {
    uint8_t words[8] = {};
    const bool has_words = message.bytes() - header_bytes >= sizeof(words);
    if (has_words) {
      message.copy_to(header_bytes, words);
    }
    if (has_words && load_be32(words + 4) == static_cast<uint32_t>(RpcMessageType::kCall)) {
      ++stats_.reverse_dropped;  // a reverse call (RFC 8167), which this end does not take
      return false;
    }
    const bool same_xid = has_words && load_be32(words) == fixed.xid;
    stats_.xid_mismatch += same_xid ? 0 : 1;
    const bool is_reply = has_words && load_be32(words + 4) == static_cast<uint32_t>(RpcMessageType::kReply);
    if (!same_xid || !is_reply || reply_chunk_used || chunks_.read_count > 0) {
      ++stats_.bad_replies;
      return false;
    }
    return true;
  }
  if (!reply_chunk_used || chunks_.read_count > 0) {
    ++stats_.bad_replies;
    return false;
  }
  return true;
}

}  // namespace cw::rpcrdma
