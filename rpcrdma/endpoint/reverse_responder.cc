#include "rpcrdma/endpoint/reverse_responder.h"

#include <algorithm>
#include <utility>

#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/transport_header.h"
#include "rpcrdma/xdr/peek_word.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kListWord = 4;  // first word of the chunk lists

enum class Direction : uint8_t { kCall, kReply, kUnknown };

// RFC 8167 4.1: the second word of the RPC message behind the header.
Direction direction_of(const Chain& message, uint32_t header_bytes) {
  const auto word = peek_word(message, header_bytes / 4 + 1);
  if (!word.ok()) {
    return Direction::kUnknown;
  }
  switch (*word) {
    case static_cast<uint32_t>(RpcMessageType::kCall):
      return Direction::kCall;
    case static_cast<uint32_t>(RpcMessageType::kReply):
      return Direction::kReply;
    default:
      return Direction::kUnknown;
  }
}

bool has_no_chunks(const Chain& message) {
  for (uint32_t i = 0; i < 3; ++i) {
    const auto word = peek_word(message, kListWord + i);
    if (!word.ok() || *word != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

ReverseResponder::ReverseResponder(verbs::QueuePair& qp, SendWindow& window, BufferPool& pool, RpcRdmaStats& stats,
                                   uint32_t credits, uint32_t send_bytes_max)
    : qp_(qp),
      window_(window),
      pool_(pool),
      stats_(stats),
      credits_(credits),
      send_bytes_max_(send_bytes_max),
      calls_(credits),
      answers_(credits) {
  serving_.reserve(credits);
}

ReverseResponder::Taken ReverseResponder::take(HeaderView& view, ChunkList& chunks, const FixedHeader& fixed,
                                               bool forward_pending, Chain& message) {
  const bool inline_message = fixed.proc == static_cast<uint32_t>(RdmaProc::kMsg);
  if (fixed.version != kRpcRdmaVersion) {
    // What follows the fixed words is not known, and so is the direction, but for the XID.
    return forward_pending ? Taken::kNotACall : refuse(fixed, Form::kErrorVersion);
  }
  if (inline_message && has_no_chunks(message)) {
    if (direction_of(message, kBareHeaderBytes) != Direction::kCall) {
      return Taken::kNotACall;
    }
    if (const auto xid = peek_word(message, kBareHeaderBytes / 4); !xid.ok() || *xid != fixed.xid) {
      ++stats_.xid_mismatch;
      return refuse(fixed, Form::kErrorChunk);
    }
    if (serving_.size() == credits_) {
      return Taken::kViolation;
    }
    ++stats_.messages_in[static_cast<size_t>(MessageKind::kMsg)];
    ++stats_.reverse_calls;
    serving_.push_back(fixed.xid);
    message.trim_front(kBareHeaderBytes);
    ReverseCall call{.xid = fixed.xid, .context = {}, .message = std::move(message)};
    inspect_call(XdrReader(call.message), call.context);
    CW_ASSERT(calls_.push(std::move(call)));
    return Taken::kTaken;
  }
  // A Call with chunks, which we do not support, or a Reply that returns those of a Call of ours.
  const auto decoded = view.decode(message, ChunkLimits{}, chunks);
  if (!decoded.ok()) {
    return Taken::kNotACall;
  }
  const bool nomsg_call = fixed.proc == static_cast<uint32_t>(RdmaProc::kNomsg) && chunks.read_count > 0;
  const bool chunk_call = inline_message && direction_of(message, decoded->header_bytes) == Direction::kCall;
  return nomsg_call || chunk_call ? refuse(fixed, Form::kErrorChunk) : Taken::kNotACall;
}

// The error waits for its turn like a Reply, and takes a credit like a Call.
ReverseResponder::Taken ReverseResponder::refuse(const FixedHeader& fixed, Form form) {
  if (serving_.size() == credits_) {
    return Taken::kViolation;
  }
  ++stats_.messages_in[static_cast<size_t>(MessageKind::kOther)];
  serving_.push_back(fixed.xid);
  CW_ASSERT(answers_.push({.xid = fixed.xid, .version = fixed.version, .form = form, .message = {}}));
  return Taken::kTaken;
}

bool ReverseResponder::poll_call(ReverseCall& out) {
  if (calls_.empty()) {
    return false;
  }
  out = calls_.pop();
  return true;
}

void ReverseResponder::reply(uint32_t xid, Chain&& message) {
  Chain answer = std::move(message);
  if (std::find(serving_.begin(), serving_.end(), xid) == serving_.end() || answers_.full()) {
    ++stats_.late_replies;
    return;
  }
  // RFC 8167 5.2: a Reply carries an RPC reply to this Call, and nothing else.
  const bool good = answer.bytes() >= kRpcReplyBytesMin && check_reply(answer, xid, stats_) &&
                    kBareHeaderBytes + answer.bytes() <= send_bytes_max_;
  if (!good) {
    answer.clear();
  }
  CW_ASSERT(answers_.push(
      {.xid = xid, .version = kRpcRdmaVersion, .form = good ? Form::kReply : Form::kErrorChunk, .message = std::move(answer)}));
}

bool ReverseResponder::advance() {
  while (!answers_.empty()) {
    const uint32_t room = window_.room();
    if (room == 0) {
      return !qp_.in_error();
    }
    Buffer* header = pool_.allocate_one();
    if (header == nullptr) {
      ++stats_.no_buffer;
      return true;
    }
    Answer answer = answers_.pop();
    const bool written = write_header(answer, *header);
    verbs::SendRequest send{.payload = Chain(header), .signaled = window_.signaled(room)};
    send.payload.append(std::move(answer.message));
    if (!written || !qp_.post_send(std::move(send)).ok()) {
      return false;
    }
    count_sent(answer.form);
    const auto served = std::find(serving_.begin(), serving_.end(), answer.xid);
    *served = serving_.back();
    serving_.pop_back();
  }
  return true;
}

bool ReverseResponder::write_header(const Answer& answer, Buffer& header) const {
  const MutableBytes out = header.tailroom();
  const auto bytes = [&]() -> Result<uint32_t> {
    switch (answer.form) {
      case Form::kErrorChunk:
        return write_chunk_error(out, answer.xid, credits_);
      case Form::kErrorVersion:
        return write_version_error(out, answer.xid, answer.version, credits_);
      case Form::kReply:
        break;
    }
    FixedHeader{.xid = answer.xid, .credit = credits_, .proc = static_cast<uint32_t>(RdmaProc::kMsg)}.write(
        out.first<FixedHeader::kSize>());
    std::fill_n(out.data() + FixedHeader::kSize, kBareHeaderBytes - FixedHeader::kSize, uint8_t{0});
    return kBareHeaderBytes;
  }();
  if (bytes.ok()) {
    header.size = *bytes;
  }
  return bytes.ok();
}

void ReverseResponder::count_sent(Form form) {
  ++stats_.messages_out[static_cast<size_t>(form == Form::kReply ? MessageKind::kMsg : MessageKind::kError)];
  stats_.reverse_replies += form == Form::kReply ? 1 : 0;
  stats_.errors_out_chunk += form == Form::kErrorChunk ? 1 : 0;
  stats_.errors_out_version += form == Form::kErrorVersion ? 1 : 0;
}

void ReverseResponder::end() {
  serving_.clear();
  while (!calls_.empty()) {
    static_cast<void>(calls_.pop());
  }
  while (!answers_.empty()) {
    static_cast<void>(answers_.pop());
  }
}

}  // namespace cw::rpcrdma
