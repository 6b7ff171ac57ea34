// RFC 8166 4: the RPC-over-RDMA version 1 transport header.
//
//   xid | vers (1) | credit | proc | body                          (32-bit XDR words)
//   RDMA_MSG, RDMA_NOMSG: Read list | Write list | Reply chunk     each entry preceded by a presence word 1, lists ended by 0
//   RDMA_ERROR: code | for ERR_VERS: low, high
//
// Decoding is in two passes. FixedHeader::parse() reads the four fixed words; decode_chunks() validates all lists against the
// limits without writing anything, and only then fills a ChunkList. Encoding writes words into a span that the caller has sized
// with the *_bytes functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "rpcrdma/wire/chunk_list.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kRpcRdmaVersion = 1;

enum class RdmaProc : uint32_t { kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4 };
enum class RdmaErrorCode : uint32_t { kVersion = 1, kChunk = 2 };

struct FixedHeader {
  static constexpr size_t kSize = 16;
  uint32_t xid = 0;
  uint32_t version = kRpcRdmaVersion;
  uint32_t credit = 0;
  uint32_t proc = 0;  // a RdmaProc, or anything a peer sent

  [[nodiscard]] static constexpr Result<FixedHeader> parse(Bytes message) {
    const auto reader = FixedReader<kSize>::from(message);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return FixedHeader{
        .xid = reader->be32<0>(), .version = reader->be32<4>(), .credit = reader->be32<8>(), .proc = reader->be32<12>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.be32<0>(xid);
    writer.be32<4>(version);
    writer.be32<8>(credit);
    writer.be32<12>(proc);
  }
  friend constexpr bool operator==(const FixedHeader&, const FixedHeader&) = default;
};

// Why a header was refused; each is a label value of the malformed-header counter and decides the answer (RFC 8166 4.5).
enum class HeaderError : uint8_t {
  kTruncated,        // an item runs past the end
  kBadDiscriminant,  // presence word neither 0 nor 1
  kTooManyReadSegments,
  kTooManyWriteChunks,
  kTooManySegments,
  kReadTooLong,        // sum of Read segments over the limit
  kOffsetWraps,        // offset + length exceeds 2^64
  kPositionAlignment,  // Position not a multiple of 4
  kPositionMixed,      // RDMA_MSG with a Position-Zero chunk, or RDMA_NOMSG call without one
  kPositionBeyond,     // Position past the end of the rebuilt stream, or chunks overlap
  kChunkTooLong,       // capacity of one Write chunk or of the Reply chunk over the limit
  kCount,
};
[[nodiscard]] const char* to_string(HeaderError error) noexcept;

struct DecodedChunks {
  uint32_t header_bytes = 0;  // bytes from the start of the message to the first byte behind the header
};

// Small calls and replies carry no chunk: three words of zero, which hold nothing to check.
inline constexpr uint32_t kBareHeaderBytes = FixedHeader::kSize + 12;
[[nodiscard]] inline bool has_no_chunks(Bytes message) {
  const uint8_t* lists = message.data() + FixedHeader::kSize;
  return message.size() >= kBareHeaderBytes && (load_be64(lists) | load_be32(lists + 8)) == 0;
}

// Both passes for RDMA_MSG and RDMA_NOMSG bodies. `message` is the whole received message made contiguous at least over the
// header (a header never exceeds the inline size); `chunks` is untouched on failure. Does not judge Positions against the inline
// body: check_positions does, since it needs to know the proc and the inline length.
[[nodiscard]] Result<DecodedChunks, HeaderError> decode_chunks(Bytes message, const ChunkLimits& limits, ChunkList& chunks);

// For a Call: Positions against procedure and inline body (RFC 8166 3.4.4, 3.5.1). On success the length of the
// rebuilt XDR stream. `inline_bytes` = bytes behind the header. Lengths are summed in 64 bits. What goes where is
// plan_splice()'s answer (wire/splice_plan.h); both are one walk. A stream shorter than an XID is not an error here: the caller's
// XID check finds it.
[[nodiscard]] Result<uint64_t, HeaderError> check_positions(RdmaProc proc, const ChunkList& chunks, uint64_t inline_bytes);

// Sizes and encoders. `lengths` holds the returned length per segment of the Write list / Reply chunk, in the order of
// ChunkList::segments; empty = the offered lengths. Fail with kNoSpace (`out` too small) or kBadValue (another number of
// lengths).
[[nodiscard]] uint32_t header_bytes(const ChunkList& chunks);        // fixed words + lists, as a Call carries them
[[nodiscard]] uint32_t reply_header_bytes(const ChunkList& chunks);  // same without the Read list (replies carry an empty one)
[[nodiscard]] Result<uint32_t> write_call_header(MutableBytes out, const FixedHeader& fixed, const ChunkList& chunks);
[[nodiscard]] Result<uint32_t> write_reply_header(MutableBytes out, const FixedHeader& fixed, const ChunkList& chunks,
                                                  std::span<const uint32_t> lengths);
inline constexpr uint32_t kChunkErrorBytes = 20;
inline constexpr uint32_t kVersionErrorBytes = 28;
[[nodiscard]] Result<uint32_t> write_chunk_error(MutableBytes out, uint32_t xid, uint32_t credit);
// Echoes the version that was not understood in rdma_vers (RFC 8166 4.5.1).
[[nodiscard]] Result<uint32_t> write_version_error(MutableBytes out, uint32_t xid, uint32_t bad_version, uint32_t credit);

struct RdmaError {
  RdmaErrorCode code = RdmaErrorCode::kChunk;
  uint32_t version_low = 0;
  uint32_t version_high = 0;
};
// Precondition: fixed header parsed and proc is kError.
[[nodiscard]] Result<RdmaError> parse_error(Bytes message);

}  // namespace cw::rpcrdma
