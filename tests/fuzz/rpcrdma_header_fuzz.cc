// The RPC-over-RDMA header on arbitrary messages: what decodes lies within the limits and the message, encodes to a header of the
// same length, and decodes from it to the same lists; a plan for its Positions covers the base stream and every Read segment
// exactly once.
#include <vector>

#include "rpcrdma/wire/splice_plan.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::rpcrdma {
namespace {

void check_plan(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes) {
  SplicePlan plan;
  const auto length = plan_splice(proc, chunks, inline_bytes, plan);
  const auto checked = check_positions(proc, chunks, inline_bytes);
  FUZZ_CHECK(length.ok() == checked.ok());
  if (!length.ok()) {
    FUZZ_CHECK(length.error() == checked.error());
    return;
  }
  FUZZ_CHECK(*length == *checked);
  FUZZ_CHECK(plan.count <= SplicePlan::kPiecesMax);
  uint64_t base = 0;
  uint64_t read = 0;
  uint64_t total = 0;
  for (const SplicePiece& piece : plan.pieces()) {
    FUZZ_CHECK(piece.bytes > 0);
    total += piece.bytes;
    if (piece.kind == SplicePiece::Kind::kBase) {
      FUZZ_CHECK(piece.offset == base);
      base += piece.bytes;
    } else if (piece.kind == SplicePiece::Kind::kRead) {
      FUZZ_CHECK(piece.first_segment + piece.segment_count <= chunks.read_count);
      read += piece.bytes;
    } else {
      FUZZ_CHECK(piece.bytes < 4 && total % 4 == 0);
    }
  }
  FUZZ_CHECK(base == plan.base_bytes && total == *length);
  FUZZ_CHECK(plan.base_segments > 0 ? base + read == chunks.read_bytes : base == inline_bytes && read == chunks.read_bytes);
}

void check_lists(Bytes message, const ChunkList& chunks, uint32_t header) {
  FUZZ_CHECK(header <= message.size());
  FUZZ_CHECK(header_bytes(chunks) == header);
  for (uint32_t i = 1; i < chunks.read_count; ++i) {
    FUZZ_CHECK(chunks.read[i - 1].position <= chunks.read[i].position);
  }
  std::vector<uint8_t> encoded(header);
  const auto fixed = FixedHeader::parse(message);
  FUZZ_CHECK(fixed.ok() && write_call_header(encoded, *fixed, chunks).ok());
  ChunkList again;
  const auto decoded = decode_chunks(encoded, ChunkLimits{}, again);
  FUZZ_CHECK(decoded.ok() && decoded->header_bytes == header);
  FUZZ_CHECK(again.read_count == chunks.read_count && again.segment_count == chunks.segment_count);
  for (uint32_t i = 0; i < chunks.segment_count; ++i) {
    FUZZ_CHECK(again.segments[i] == chunks.segments[i]);
  }
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    FUZZ_CHECK(again.read[i] == chunks.read[i]);
  }
}

void check(Bytes message) {
  ChunkList chunks;
  const auto decoded = decode_chunks(message, ChunkLimits{}, chunks);
  const ChunkLimits small{
      .read_segments_max = 2, .plain_segments_max = 3, .write_chunks_max = 2, .read_bytes_max = 4096, .plain_bytes_max = 4096};
  ChunkList few;
  if (decode_chunks(message, small, few).ok()) {
    FUZZ_CHECK(decoded.ok());
    FUZZ_CHECK(few.read_count <= 2 && few.segment_count <= 3 && few.write_count <= 2 && few.read_bytes <= 4096);
  }
  if (decoded.ok()) {
    check_lists(message, chunks, decoded->header_bytes);
    for (const RdmaProc proc : {RdmaProc::kMsg, RdmaProc::kNomsg}) {
      check_plan(proc, chunks, message.size() - decoded->header_bytes);
    }
  }
  FUZZ_CHECK(!parse_error(message).ok() || message.size() >= kChunkErrorBytes);
}

}  // namespace
}  // namespace cw::rpcrdma

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cw::rpcrdma::check(cw::Bytes(data, size));
  return 0;
}
