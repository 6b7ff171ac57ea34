#include "rpcrdma/wire/transport_header.h"

#include <algorithm>
#include <cstring>

#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::rpcrdma {
namespace {

constexpr size_t kReadSegmentBytes = 20;   // position, handle, length, offset
constexpr size_t kPlainSegmentBytes = 16;  // handle, length, offset

// A cursor over the lists. It gives words only after the caller has proved with need() that they are there.
class ListCursor {
 public:
  explicit ListCursor(Bytes message) : start_(message.data()), at_(start_ + FixedHeader::kSize), end_(start_ + message.size()) {}
  [[nodiscard]] bool need(size_t count) const { return static_cast<size_t>(end_ - at_) >= count; }
  [[nodiscard]] uint32_t word() {
    const uint32_t value = load_be32(at_);
    at_ += 4;
    return value;
  }
  [[nodiscard]] Segment segment() {
    const Segment segment{.handle = verbs::Rkey(load_be32(at_)), .length = load_be32(at_ + 4), .offset = load_be64(at_ + 8)};
    at_ += kPlainSegmentBytes;
    return segment;
  }
  [[nodiscard]] uint32_t offset() const { return static_cast<uint32_t>(at_ - start_); }

 private:
  const uint8_t* start_;
  const uint8_t* at_;
  const uint8_t* end_;
};

// The last byte of a region may be the last one of the address space; none may lie behind it.
constexpr bool wraps(const Segment& segment) {
  return segment.length != 0 && segment.offset > UINT64_MAX - (segment.length - 1);
}

// Pass one: everything that the lists say is checked here, and nothing is written.
class Validator {
 public:
  Validator(Bytes message, const ChunkLimits& limits)
      : at_(message),
        read_segments_max_(std::min(limits.read_segments_max, kReadSegmentsMax)),
        plain_segments_max_(std::min(limits.plain_segments_max, kPlainSegmentsMax)),
        write_chunks_max_(std::min(limits.write_chunks_max, kWriteChunksMax)),
        read_bytes_max_(limits.read_bytes_max),
        plain_bytes_max_(limits.plain_bytes_max) {}

  // The header's length, or the first thing that is wrong with it.
  Result<DecodedChunks, HeaderError> run() {
    if (const auto step = read_list(); !step.ok()) {
      return fail(step.error());
    }
    if (const auto step = write_list(); !step.ok()) {
      return fail(step.error());
    }
    if (const auto step = reply_chunk(); !step.ok()) {
      return fail(step.error());
    }
    return DecodedChunks{.header_bytes = at_.offset()};
  }

 private:
  using Step = Result<void, HeaderError>;

  // Reads a presence word into `present`: only 0 and 1 are XDR.
  Step presence(bool& present) {
    if (!at_.need(4)) {
      return fail(HeaderError::kTruncated);
    }
    const uint32_t word = at_.word();
    if (word > 1) {
      return fail(HeaderError::kBadDiscriminant);
    }
    present = word == 1;
    return {};
  }

  Step read_list() {
    uint32_t count = 0;
    uint64_t bytes = 0;
    bool present = false;
    while (true) {
      if (const Step step = presence(present); !step.ok() || !present) {
        return step;
      }
      if (++count > read_segments_max_) {
        return fail(HeaderError::kTooManyReadSegments);
      }
      if (!at_.need(kReadSegmentBytes)) {
        return fail(HeaderError::kTruncated);
      }
      if (at_.word() % 4 != 0) {
        return fail(HeaderError::kPositionAlignment);
      }
      const Segment segment = at_.segment();
      if (wraps(segment)) {
        return fail(HeaderError::kOffsetWraps);
      }
      bytes += segment.length;
      if (bytes > read_bytes_max_) {
        return fail(HeaderError::kReadTooLong);
      }
    }
  }

  Step write_list() {
    uint32_t count = 0;
    bool present = false;
    while (true) {
      if (const Step step = presence(present); !step.ok() || !present) {
        return step;
      }
      if (++count > write_chunks_max_) {
        return fail(HeaderError::kTooManyWriteChunks);
      }
      if (const Step step = plain_chunk(); !step.ok()) {
        return step;
      }
    }
  }

  // An optional (RFC 8166 4.2), not a list: no terminating word follows.
  Step reply_chunk() {
    bool present = false;
    if (const Step step = presence(present); !step.ok() || !present) {
      return step;
    }
    return plain_chunk();
  }

  Step plain_chunk() {
    if (!at_.need(4)) {
      return fail(HeaderError::kTruncated);
    }
    const uint32_t count = at_.word();
    // The count is bounded before it is multiplied, so the product cannot wrap.
    if (count > plain_segments_max_ - segments_) {
      return fail(HeaderError::kTooManySegments);
    }
    if (!at_.need(count * kPlainSegmentBytes)) {
      return fail(HeaderError::kTruncated);
    }
    segments_ += count;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const Segment segment = at_.segment();
      if (wraps(segment)) {
        return fail(HeaderError::kOffsetWraps);
      }
      bytes += segment.length;
    }
    if (bytes > plain_bytes_max_) {
      return fail(HeaderError::kChunkTooLong);
    }
    return {};
  }

  ListCursor at_;
  uint32_t read_segments_max_;
  uint32_t plain_segments_max_;
  uint32_t write_chunks_max_;
  uint64_t read_bytes_max_;
  uint64_t plain_bytes_max_;
  uint32_t segments_ = 0;
};

// Pass two: copies what pass one has proved. Insertion keeps the Read list sorted by Position and equal Positions in list order
// (RFC 8166 3.4.5 asks for no order); peers send it sorted, so nothing moves as a rule.
void fill_reads(ListCursor& at, ChunkList& chunks) {
  while (at.word() == 1) {
    ReadSegment entry;
    entry.position = at.word();
    entry.segment = at.segment();
    uint32_t slot = chunks.read_count;
    while (slot > 0 && chunks.read[slot - 1].position > entry.position) {
      chunks.read[slot] = chunks.read[slot - 1];
      --slot;
    }
    chunks.read[slot] = entry;
    ++chunks.read_count;
    chunks.read_bytes += entry.segment.length;
  }
}

PlainChunk fill_plain(ListCursor& at, ChunkList& chunks) {
  PlainChunk chunk;
  chunk.first_segment = static_cast<uint16_t>(chunks.segment_count);
  chunk.segment_count = static_cast<uint16_t>(at.word());
  for (uint32_t i = 0; i < chunk.segment_count; ++i) {
    const Segment segment = at.segment();
    chunks.segments[chunks.segment_count++] = segment;
    chunk.capacity_bytes += segment.length;
  }
  return chunk;
}

void fill(Bytes message, ChunkList& chunks) {
  ListCursor at(message);
  chunks.clear();
  fill_reads(at, chunks);
  while (at.word() == 1) {
    chunks.write[chunks.write_count++] = fill_plain(at, chunks);
  }
  chunks.has_reply = at.word() == 1;
  chunks.reply = chunks.has_reply ? fill_plain(at, chunks) : PlainChunk{};
}

void write_fixed(XdrWriter& out, const FixedHeader& fixed) {
  out.u32(fixed.xid);
  out.u32(fixed.version);
  out.u32(fixed.credit);
  out.u32(fixed.proc);
}

// Small calls and replies again: all of the header at once.
uint32_t write_bare_header(MutableBytes out, const FixedHeader& fixed) {
  fixed.write(out.first<FixedHeader::kSize>());
  std::memset(out.data() + FixedHeader::kSize, 0, kBareHeaderBytes - FixedHeader::kSize);
  return kBareHeaderBytes;
}

void write_segment(XdrWriter& out, const Segment& segment, uint32_t length) {
  out.u32(segment.handle.value());
  out.u32(length);
  out.u64(segment.offset);
}

void write_plain(XdrWriter& out, const ChunkList& chunks, const PlainChunk& chunk, std::span<const uint32_t> lengths) {
  out.u32(1);
  out.u32(chunk.segment_count);
  for (uint32_t i = chunk.first_segment; i < uint32_t{chunk.first_segment} + chunk.segment_count; ++i) {
    const Segment& segment = chunks.segments[i];
    write_segment(out, segment, lengths.empty() ? segment.length : lengths[i]);
  }
}

// Write list and Reply chunk: the same in both directions but for the lengths.
void write_results(XdrWriter& out, const ChunkList& chunks, std::span<const uint32_t> lengths) {
  for (const PlainChunk& chunk : chunks.writes()) {
    write_plain(out, chunks, chunk, lengths);
  }
  out.u32(0);
  if (chunks.has_reply) {
    write_plain(out, chunks, chunks.reply, lengths);
  } else {
    out.u32(0);
  }
}

Result<uint32_t> written(const XdrWriter& out) {
  if (!out.ok()) {
    return fail(Error::kNoSpace);
  }
  return static_cast<uint32_t>(out.offset());
}

}  // namespace

const char* to_string(HeaderError error) noexcept {
  switch (error) {
    case HeaderError::kTruncated:
      return "truncated";
    case HeaderError::kBadDiscriminant:
      return "bad_discriminant";
    case HeaderError::kTooManyReadSegments:
      return "too_many_read_segments";
    case HeaderError::kTooManyWriteChunks:
      return "too_many_write_chunks";
    case HeaderError::kTooManySegments:
      return "too_many_segments";
    case HeaderError::kReadTooLong:
      return "read_too_long";
    case HeaderError::kOffsetWraps:
      return "offset_wraps";
    case HeaderError::kPositionAlignment:
      return "position_alignment";
    case HeaderError::kPositionMixed:
      return "position_mixed";
    case HeaderError::kPositionBeyond:
      return "position_beyond";
    case HeaderError::kChunkTooLong:
      return "chunk_too_long";
    case HeaderError::kCount:
      break;
  }
  return "unknown";
}

Result<DecodedChunks, HeaderError> decode_chunks(Bytes message, const ChunkLimits& limits, ChunkList& chunks) {
  if (message.size() < FixedHeader::kSize) {
    return fail(HeaderError::kTruncated);
  }
  const auto validated = Validator(message, limits).run();
  if (validated.ok()) {
    fill(message, chunks);
  }
  return validated;
}

uint32_t reply_header_bytes(const ChunkList& chunks) {
  // Each Write chunk: presence word, count, segments. The Read list is one zero word.
  uint32_t words = 4 + 1 + 2 * chunks.write_count + 1 + 1 + 4 * chunks.segment_count;
  if (chunks.has_reply) {
    words += 1;
  }
  return words * 4;
}

uint32_t header_bytes(const ChunkList& chunks) {
  return reply_header_bytes(chunks) + 24 * chunks.read_count;
}

Result<uint32_t> write_call_header(MutableBytes out, const FixedHeader& fixed, const ChunkList& chunks) {
  if (chunks.empty() && out.size() >= kBareHeaderBytes) {
    return write_bare_header(out, fixed);
  }
  XdrWriter writer(out);
  write_fixed(writer, fixed);
  for (const ReadSegment& read : chunks.reads()) {
    writer.u32(1);
    writer.u32(read.position);
    write_segment(writer, read.segment, read.segment.length);
  }
  writer.u32(0);
  write_results(writer, chunks, {});
  return written(writer);
}

Result<uint32_t> write_reply_header(MutableBytes out, const FixedHeader& fixed, const ChunkList& chunks,
                                    std::span<const uint32_t> lengths) {
  if (!lengths.empty() && lengths.size() != chunks.segment_count) {
    return fail(Error::kBadValue);
  }
  if (chunks.write_count == 0 && !chunks.has_reply && out.size() >= kBareHeaderBytes) {
    return write_bare_header(out, fixed);
  }
  XdrWriter writer(out);
  write_fixed(writer, fixed);
  writer.u32(0);  // RFC 8166 4.3.1: responders leave the Read list empty
  write_results(writer, chunks, lengths);
  return written(writer);
}

Result<uint32_t> write_chunk_error(MutableBytes out, uint32_t xid, uint32_t credit) {
  XdrWriter writer(out);
  write_fixed(writer, {.xid = xid, .credit = credit, .proc = static_cast<uint32_t>(RdmaProc::kError)});
  writer.u32(static_cast<uint32_t>(RdmaErrorCode::kChunk));
  return written(writer);
}

Result<uint32_t> write_version_error(MutableBytes out, uint32_t xid, uint32_t bad_version, uint32_t credit) {
  XdrWriter writer(out);
  write_fixed(writer, {.xid = xid, .version = bad_version, .credit = credit, .proc = static_cast<uint32_t>(RdmaProc::kError)});
  writer.u32(static_cast<uint32_t>(RdmaErrorCode::kVersion));
  writer.u32(kRpcRdmaVersion);
  writer.u32(kRpcRdmaVersion);
  return written(writer);
}

Result<RdmaError> parse_error(Bytes message) {
  const auto head = FixedReader<kChunkErrorBytes>::from(message);
  if (!head) {
    return fail(Error::kTruncated);
  }
  const uint32_t code = head->be32<16>();
  if (code == static_cast<uint32_t>(RdmaErrorCode::kChunk)) {
    return RdmaError{.code = RdmaErrorCode::kChunk};
  }
  if (code != static_cast<uint32_t>(RdmaErrorCode::kVersion)) {
    return fail(Error::kBadValue);
  }
  const auto whole = FixedReader<kVersionErrorBytes>::from(message);
  if (!whole) {
    return fail(Error::kTruncated);
  }
  return RdmaError{.code = RdmaErrorCode::kVersion, .version_low = whole->be32<20>(), .version_high = whole->be32<24>()};
}

}  // namespace cw::rpcrdma
