// The bounded form of an RPC-over-RDMA header's chunk lists (RFC 8166 3.4, 4.3). Only this structure drives RDMA Reads and
// Writes: it is filled by pass two of the decoder, after pass one has validated the whole header against ChunkLimits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "verbs/ids.h"

namespace cw::rpcrdma {

// RFC 8166 4.2.1.4 xdr_rdma_segment: `length` bytes at `offset` under `handle`. 16 bytes on the wire: handle, length, offset.
struct Segment {
  verbs::Rkey handle;
  uint32_t length = 0;
  uint64_t offset = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// xdr_read_chunk: a segment and the byte of the unreduced XDR stream that it belongs at. Segments with one Position form one
// chunk.
struct ReadSegment {
  uint32_t position = 0;
  Segment segment;
  friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
};

// A Write chunk or the Reply chunk: a run of ChunkList::segments.
struct PlainChunk {
  uint16_t first_segment = 0;
  uint16_t segment_count = 0;  // 0 = an empty chunk, legal in a Write list
  uint64_t capacity_bytes = 0;
};

// Compile-time ceilings; the configured ChunkLimits lie at or below them.
inline constexpr uint32_t kReadSegmentsMax = 64;
inline constexpr uint32_t kPlainSegmentsMax = 64;  // Write list and Reply chunk together
inline constexpr uint32_t kWriteChunksMax = 16;

struct ChunkLimits {
  uint32_t read_segments_max = kReadSegmentsMax;
  uint32_t plain_segments_max = kPlainSegmentsMax;
  uint32_t write_chunks_max = kWriteChunksMax;
  uint64_t read_bytes_max = 4ULL << 20;   // sum of all Read segments of one call
  uint64_t plain_bytes_max = 1ULL << 32;  // sum per Write or Reply chunk: what the client offers, not what we use
};

struct ChunkList {
  std::array<ReadSegment, kReadSegmentsMax> read;  // sorted by Position, order of same-Position segments kept
  std::array<Segment, kPlainSegmentsMax> segments;
  std::array<PlainChunk, kWriteChunksMax> write;
  PlainChunk reply;
  uint32_t read_count = 0;
  uint32_t segment_count = 0;
  uint32_t write_count = 0;
  bool has_reply = false;
  uint64_t read_bytes = 0;

  [[nodiscard]] std::span<const ReadSegment> reads() const { return {read.data(), read_count}; }
  [[nodiscard]] std::span<const PlainChunk> writes() const { return {write.data(), write_count}; }
  [[nodiscard]] std::span<const Segment> segments_of(const PlainChunk& chunk) const {
    return {segments.data() + chunk.first_segment, chunk.segment_count};
  }
  [[nodiscard]] bool has_position_zero() const { return read_count > 0 && read[0].position == 0; }
  [[nodiscard]] bool empty() const { return read_count == 0 && write_count == 0 && !has_reply; }
  void clear() {
    read_count = 0;
    segment_count = 0;
    write_count = 0;
    has_reply = false;
    reply = PlainChunk{};
    read_bytes = 0;
  }
};

}  // namespace cw::rpcrdma
