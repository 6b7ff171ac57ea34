// How a call's XDR stream is put together from its parts (RFC 8166 3.4.5, 3.5.3).
//
// A call arrives as a base stream (the bytes behind the header of an RDMA_MSG; the contents of the Position-Zero chunk of an
// RDMA_NOMSG) out of which arguments have been taken. Each Read chunk goes back at its Position, which counts bytes of the
// stream before anything was taken out, roundup included. A chunk may carry its roundup or not (RFC 8166 3.4.5.2): when its
// length is no multiple of 4 the roundup is missing and zeros have to be put in. The plan says all of it as a list of pieces;
// carrying it out moves Buffers only.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "rpcrdma/wire/chunk_list.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

struct SplicePiece {
  enum class Kind : uint8_t {
    kBase,  // [offset, offset + bytes) of the base stream; bases come in order and together cover it
    kRead,  // what was pulled by read segments [first_segment, first_segment + segment_count) of ChunkList::read, in that order
    kPad,   // `bytes` zero bytes, 1..3
  };
  Kind kind;
  uint8_t first_segment;
  uint8_t segment_count;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(kReadSegmentsMax <= UINT8_MAX);

struct SplicePlan {
  // Per chunk at most a base piece, the chunk and its pad; and the rest of the base stream.
  static constexpr uint32_t kPiecesMax = 3 * kReadSegmentsMax + 1;
  std::array<SplicePiece, kPiecesMax> list;  // left uninitialised beyond `count`
  uint32_t count = 0;
  // Read segments [0, base_segments) are the Position-Zero chunk and make the base stream; 0 = the base stream is inline.
  uint32_t base_segments = 0;
  uint64_t base_bytes = 0;

  [[nodiscard]] std::span<const SplicePiece> pieces() const { return {list.data(), count}; }
};

// The plan for a Call, or why its Positions are refused; the value is the rebuilt stream's length. `inline_bytes` = bytes behind
// the header, ignored for RDMA_NOMSG. Pieces are never empty. Nothing depends on `plan` when it fails.
[[nodiscard]] Result<uint64_t, HeaderError> plan_splice(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes,
                                                        SplicePlan& plan);

}  // namespace cw::rpcrdma
