// The receive ladder of the server side: one check after the other, in the order of RFC 8166 4.5 as this project reads it (the
// text gives none): length, RDMA_ERROR, version, RDMA_DONE, procedure, chunk lists, direction, Positions, XID.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "rpcrdma/endpoint/header_view.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/server_call.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/xdr/peek_word.h"

namespace cw::rpcrdma {

// A message shorter than the smallest Call or Reply header is dropped unread (RFC 8166 4.5).
inline constexpr uint32_t kCallHeaderBytesMin = 28;
inline constexpr uint32_t kRpcReplyBytesMin = 12;  // xid, REPLY, reply_stat: less is no RPC reply

enum class Verdict : uint8_t {
  kCall,          // well-formed as far as it can be seen before its chunks are read
  kDrop,          // to be ignored without an answer
  kReverseReply,  // a Reply (RFC 8167) that the ReverseCaller did not take: nobody waits for it
  kErrorChunk,    // answer RDMA_ERROR, ERR_CHUNK
  kErrorVersion,  // answer RDMA_ERROR, ERR_VERS
};

// Checks that need no slot: kDrop or kCall, which here means "go on with check_header".
[[nodiscard]] Verdict check_fixed(HeaderView& view, const Chain& message, RpcRdmaStats& stats);

struct HeaderCheck {
  Verdict verdict = Verdict::kDrop;
  uint32_t header_bytes = 0;  // bytes to trim off, for kCall
};
// Everything else. Fills the call's xid, version, proc, chunks and inline_bytes; each refused input is counted under one reason.
// Precondition: check_fixed() said kCall.
[[nodiscard]] HeaderCheck check_header(HeaderView& view, const Chain& message, const ServerOptions& options, ServerCall& call,
                                       RpcRdmaStats& stats);

// What check_header() does with a message that CallPrediction::matches(), and whose stream is not too long.
[[nodiscard]] HeaderCheck check_predicted(const Chain& message, ServerCall& call, RpcRdmaStats& stats);

// The stream's first word against the header's XID (RFC 8166 4.5.2).
[[nodiscard]] inline bool check_xid(const Chain& stream, uint32_t xid, RpcRdmaStats& stats) {
  if (const auto first = peek_word(stream, 0); first.ok() && *first == xid) [[likely]] {
    return true;
  }
  ++stats.xid_mismatch;
  return false;
}
// The same for what the owner answers, which has to be an RPC reply (RFC 5531 9), too. Precondition: it has two words.
[[nodiscard]] inline bool check_reply(const Chain& stream, uint32_t xid, RpcRdmaStats& stats) {
  const auto type = peek_word(stream, 1);
  return check_xid(stream, xid, stats) && type.ok() && *type == static_cast<uint32_t>(RpcMessageType::kReply);
}

}  // namespace cw::rpcrdma
