#include "rpcrdma/endpoint/call_splicer.h"

#include "rpcrdma/wire/splice_plan.h"

namespace cw::rpcrdma {
namespace {

constexpr uint8_t kZeros[4] = {};

bool move_front(Chain& from, uint64_t bytes, Chain& to) {
  Chain part;
  if (!from.split_front(bytes, part)) {
    return false;
  }
  to.append(std::move(part));
  return true;
}

bool add_piece(ServerCall& call, const SplicePiece& piece, BufferPool& pool) {
  switch (piece.kind) {
    case SplicePiece::Kind::kBase:
      return move_front(call.base, piece.bytes, call.message);
    case SplicePiece::Kind::kRead:
      return move_front(call.read_data, piece.bytes, call.message);
    case SplicePiece::Kind::kPad:
      // Goes into the tail room of the Buffer before it when that one may be written.
      return call.message.append_copy(pool, Bytes(kZeros).first(static_cast<size_t>(piece.bytes)));
  }
  return false;
}

}  // namespace

bool splice(ServerCall& call, BufferPool& pool) {
  SplicePlan plan;
  const auto planned = plan_splice(call.proc, call.chunks, call.inline_bytes, plan);
  CW_ASSERT(planned.ok());
  if (!call.splicing) {
    // A Long Call's base stream is what its Position-Zero chunk brought.
    if (plan.base_segments == 0) {
      call.base = std::move(call.message);
    } else if (!call.read_data.split_front(plan.base_bytes, call.base)) {
      return false;
    }
    call.splicing = true;
  }
  for (; call.pieces_done < plan.count; ++call.pieces_done) {
    if (!add_piece(call, plan.list[call.pieces_done], pool)) {
      return false;
    }
  }
  CW_DASSERT(call.base.empty() && call.message.bytes() == *planned);
  return true;
}

}  // namespace cw::rpcrdma
