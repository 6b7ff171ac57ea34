#include "rpcrdma/endpoint/call_checks.h"

namespace cw::rpcrdma {
namespace {

void count_in(RpcRdmaStats& stats, MessageKind kind) {
  ++stats.messages_in[static_cast<size_t>(kind)];
}

HeaderCheck malformed(RpcRdmaStats& stats, HeaderError error) {
  ++stats.malformed[static_cast<size_t>(error)];
  return {.verdict = Verdict::kErrorChunk};
}

// RFC 8167 4.1: the second word of an inline RPC message tells its direction. Replies come without a Read list, so that the word
// is never in a chunk.
bool is_reply(const Chain& message, uint32_t header_bytes) {
  const auto word = peek_word(message, header_bytes / 4 + 1);
  return word.ok() && *word == static_cast<uint32_t>(RpcMessageType::kReply);
}

}  // namespace

Verdict check_fixed(HeaderView& view, const Chain& message, RpcRdmaStats& stats) {
  if (message.bytes() < kCallHeaderBytesMin) {
    ++stats.short_messages;
    return Verdict::kDrop;
  }
  const auto fixed = FixedHeader::parse(view.fixed(message));
  if (!fixed.ok()) {
    ++stats.short_messages;
    return Verdict::kDrop;
  }
  // Before the version: two confused peers must not answer errors with errors (RFC 8166 4.2.4).
  if (fixed->proc == static_cast<uint32_t>(RdmaProc::kError)) {
    count_in(stats, MessageKind::kError);
    return Verdict::kDrop;
  }
  if (fixed->version == kRpcRdmaVersion && fixed->proc == static_cast<uint32_t>(RdmaProc::kDone)) {
    count_in(stats, MessageKind::kOther);
    return Verdict::kDrop;
  }
  return Verdict::kCall;
}

HeaderCheck check_header(HeaderView& view, const Chain& message, const ServerOptions& options, ServerCall& call,
                         RpcRdmaStats& stats) {
  const auto fixed = FixedHeader::parse(view.fixed(message));
  call.xid = fixed->xid;
  call.version = fixed->version;
  if (fixed->version != kRpcRdmaVersion) {
    count_in(stats, MessageKind::kOther);
    return {.verdict = Verdict::kErrorVersion};
  }
  if (fixed->proc != static_cast<uint32_t>(RdmaProc::kMsg) && fixed->proc != static_cast<uint32_t>(RdmaProc::kNomsg)) {
    count_in(stats, MessageKind::kOther);
    return {.verdict = Verdict::kErrorChunk};
  }
  call.proc = static_cast<RdmaProc>(fixed->proc);
  count_in(stats, call.proc == RdmaProc::kMsg ? MessageKind::kMsg : MessageKind::kNomsg);

  const auto decoded = view.decode(message, options.limits, call.chunks);
  if (!decoded.ok()) {
    return malformed(stats, decoded.error());
  }
  if (call.proc == RdmaProc::kMsg && call.chunks.read_count == 0 && is_reply(message, decoded->header_bytes)) {
    return {.verdict = Verdict::kReverseReply};
  }
  call.inline_bytes = message.bytes() - decoded->header_bytes;
  const auto stream_bytes = check_positions(call.proc, call.chunks, call.inline_bytes);
  if (!stream_bytes.ok()) {
    return malformed(stats, stream_bytes.error());
  }
  // RFC 8166 8.1.4: unreasonably large arguments are refused before anything is read or set aside for them.
  if (*stream_bytes > options.call_bytes_max) {
    return malformed(stats, HeaderError::kReadTooLong);
  }
  return {.verdict = Verdict::kCall, .header_bytes = decoded->header_bytes};
}

HeaderCheck check_predicted(const Chain& message, ServerCall& call, RpcRdmaStats& stats) {
  call.xid = load_be32(message.head()->data);
  call.version = kRpcRdmaVersion;
  call.proc = RdmaProc::kMsg;
  count_in(stats, MessageKind::kMsg);
  call.inline_bytes = message.bytes() - kBareHeaderBytes;
  return {.verdict = Verdict::kCall, .header_bytes = kBareHeaderBytes};
}

}  // namespace cw::rpcrdma
