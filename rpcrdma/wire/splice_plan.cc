#include "rpcrdma/wire/splice_plan.h"

#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

// Read segments from `first` on that share its Position.
struct ReadRun {
  uint32_t first = 0;
  uint32_t count = 0;
  uint64_t bytes = 0;
};

ReadRun run_at(const ChunkList& chunks, uint32_t first) {
  ReadRun run{.first = first};
  while (first + run.count < chunks.read_count && chunks.read[first + run.count].position == chunks.read[first].position) {
    run.bytes += chunks.read[first + run.count].segment.length;
    ++run.count;
  }
  return run;
}

struct Base {
  uint32_t segments = 0;
  uint64_t bytes = 0;
};

// What the stream is made of before chunks go in. RFC 8166 4.2.4: an RDMA_NOMSG call holds its payload in the Position-Zero
// chunk. A payload both inline and in such a chunk is undefined, and refused (docs/architecture.md).
Result<Base, HeaderError> base_of(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  const bool long_call = proc == RdmaProc::kNomsg;
  if (long_call != chunks.has_position_zero()) {
    return fail(HeaderError::kPositionMixed);
  }
  if (!long_call) {
    return Base{.segments = 0, .bytes = inline_bytes};
  }
  const ReadRun zero = run_at(chunks, 0);
  return Base{.segments = zero.count, .bytes = zero.bytes};
}

// Walks the chunks in Position order and hands each piece to `emit`.
template <typename Emit>
Result<uint64_t, HeaderError> walk(const Base& base, const ChunkList& chunks, Emit&& emit) {
  uint64_t stream_bytes = 0;  // rebuilt so far
  uint64_t base_used = 0;
  for (uint32_t at = base.segments; at < chunks.read_count;) {
    const ReadRun run = run_at(chunks, at);
    const uint64_t position = chunks.read[at].position;
    // Behind what is rebuilt: the chunk before it overlaps. Ahead of it: the base stream has to fill the gap.
    if (position < stream_bytes || position - stream_bytes > base.bytes - base_used) {
      return fail(HeaderError::kPositionBeyond);
    }
    const uint64_t gap = position - stream_bytes;
    emit(SplicePiece{SplicePiece::Kind::kBase, 0, 0, base_used, gap});
    base_used += gap;
    emit(SplicePiece{SplicePiece::Kind::kRead, static_cast<uint8_t>(run.first), static_cast<uint8_t>(run.count), 0, run.bytes});
    const uint64_t pad = xdr_pad(run.bytes);
    emit(SplicePiece{SplicePiece::Kind::kPad, 0, 0, 0, pad});
    stream_bytes = position + run.bytes + pad;
    at += run.count;
  }
  emit(SplicePiece{SplicePiece::Kind::kBase, 0, 0, base_used, base.bytes - base_used});
  return stream_bytes + (base.bytes - base_used);
}

}  // namespace

Result<uint64_t, HeaderError> check_positions(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  if (chunks.read_count == 0 && proc == RdmaProc::kMsg) [[likely]] {
    return inline_bytes;
  }
  const auto base = base_of(proc, chunks, inline_bytes);
  if (!base.ok()) {
    return fail(base.error());
  }
  return walk(*base, chunks, [](const SplicePiece&) {});
}

Result<uint64_t, HeaderError> plan_splice(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes, SplicePlan& plan) {
  const auto base = base_of(proc, chunks, inline_bytes);
  if (!base.ok()) {
    return fail(base.error());
  }
  plan.count = 0;
  plan.base_segments = base->segments;
  plan.base_bytes = base->bytes;
  return walk(*base, chunks, [&plan](const SplicePiece& piece) {
    if (piece.bytes > 0) {
      plan.list[plan.count++] = piece;
    }
  });
}

}  // namespace cw::rpcrdma
