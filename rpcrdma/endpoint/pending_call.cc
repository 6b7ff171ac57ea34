#include "rpcrdma/endpoint/pending_call.h"

#include <algorithm>

namespace cw::rpcrdma {
namespace {

uint32_t segment_limit(uint32_t segment_bytes_max) {
  return segment_bytes_max == 0 ? UINT32_MAX : segment_bytes_max;
}

uint64_t segment_count(uint64_t bytes, uint32_t segment_bytes_max) {
  const uint64_t most = segment_limit(segment_bytes_max);
  return (bytes + most - 1) / most;
}

// Segments of a chunk of `bytes`; offsets count from the chunk's start.
Segment segment_at(uint64_t bytes, uint32_t segment_bytes_max, uint64_t index) {
  const uint64_t most = segment_limit(segment_bytes_max);
  const uint64_t start = index * most;
  return {.length = static_cast<uint32_t>(std::min(most, bytes - start)), .offset = start};
}

bool add_read(ChunkList& chunks, uint32_t position, uint64_t bytes, uint32_t segment_bytes_max) {
  const uint64_t count = segment_count(bytes, segment_bytes_max);
  if (count > kReadSegmentsMax - chunks.read_count) {
    return false;
  }
  for (uint64_t i = 0; i < count; ++i) {
    chunks.read[chunks.read_count++] = {.position = position, .segment = segment_at(bytes, segment_bytes_max, i)};
  }
  chunks.read_bytes += bytes;
  return true;
}

bool add_plain(ChunkList& chunks, uint64_t bytes, uint32_t segment_bytes_max, PlainChunk& chunk) {
  const uint64_t count = segment_count(bytes, segment_bytes_max);
  if (count > kPlainSegmentsMax - chunks.segment_count) {
    return false;
  }
  chunk = {.first_segment = static_cast<uint16_t>(chunks.segment_count),
           .segment_count = static_cast<uint16_t>(count),
           .capacity_bytes = bytes};
  for (uint64_t i = 0; i < count; ++i) {
    chunks.segments[chunks.segment_count++] = segment_at(bytes, segment_bytes_max, i);
  }
  return true;
}

// Registration of the memory of one call, undone when one fails.
class Exposer {
 public:
  Exposer(verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain, ChunkList& chunks)
      : memory_(memory), domain_(domain), chunks_(chunks) {}

  bool read(MutableBytes bytes, ExposedChunk& chunk) {
    if (!add(bytes, verbs::RemoteAccess::kRead, chunk)) {
      return false;
    }
    for (uint64_t done = 0; done < bytes.size();) {
      Segment& segment = chunks_.read[next_read_++].segment;
      segment.handle = chunk.key;
      segment.offset += chunk.address;
      done += segment.length;
    }
    return true;
  }
  bool write(MutableBytes bytes, ExposedChunk& chunk) {
    if (!add(bytes, verbs::RemoteAccess::kWrite, chunk)) {
      return false;
    }
    for (uint64_t done = 0; done < bytes.size();) {
      Segment& segment = chunks_.segments[next_plain_++];
      segment.handle = chunk.key;
      segment.offset += chunk.address;
      done += segment.length;
    }
    return true;
  }

 private:
  bool add(MutableBytes bytes, verbs::RemoteAccess access, ExposedChunk& chunk) {
    if (bytes.empty()) {
      return true;
    }
    const auto region = memory_.expose(domain_, bytes, access);
    if (!region.ok()) {
      return false;
    }
    chunk = {.key = region->key, .address = region->address, .bytes = static_cast<uint32_t>(bytes.size())};
    return true;
  }

  verbs::MemoryRegistry& memory_;
  verbs::ProtectionDomain domain_;
  ChunkList& chunks_;
  uint32_t next_read_ = 0;
  uint32_t next_plain_ = 0;
};

bool expose_all(const ClientCall& call, uint64_t long_call_bytes, Exposer& exposer, PendingCall& pending) {
  if (call.long_call && !exposer.read(call.long_call_memory.first(static_cast<size_t>(long_call_bytes)), pending.long_call)) {
    return false;
  }
  for (const ReadChunkSource& source : call.reads) {
    if (!exposer.read(source.memory, pending.reads[pending.read_count])) {
      return false;
    }
    ++pending.read_count;
  }
  for (const MutableBytes memory : call.writes) {
    if (!exposer.write(memory, pending.writes[pending.write_count])) {
      return false;
    }
    ++pending.write_count;
  }
  return exposer.write(call.reply_memory, pending.reply);
}

// Bytes returned in one chunk, or nothing when it is not the chunk that was offered.
std::optional<uint32_t> returned_bytes(const ChunkList& returned, const PlainChunk& chunk, const ExposedChunk& offered,
                                       uint32_t segment_bytes_max) {
  if (chunk.segment_count != segment_count(offered.bytes, segment_bytes_max)) {
    return std::nullopt;
  }
  uint64_t bytes = 0;
  bool full = true;  // all segments so far
  for (uint32_t i = 0; i < chunk.segment_count; ++i) {
    const Segment expected = segment_at(offered.bytes, segment_bytes_max, i);
    const Segment& segment = returned.segments[uint32_t{chunk.first_segment} + i];
    if (segment.handle != offered.key || segment.offset != offered.address + expected.offset ||
        segment.length > expected.length || (!full && segment.length > 0)) {
      return std::nullopt;
    }
    full = segment.length == expected.length;
    bytes += segment.length;
  }
  return static_cast<uint32_t>(bytes);
}

// False when the memory could not be shut off.
bool hide(verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain, ExposedChunk& chunk) {
  if (!chunk.registered()) {
    return true;
  }
  const bool hidden = chunk.invalidated || memory.invalidate(domain, chunk.key);
  chunk = {};
  return hidden;
}

}  // namespace

bool PendingCall::mark_invalidated(verbs::Rkey key) {
  const auto mark = [key](ExposedChunk& chunk) {
    const bool is_key = chunk.registered() && chunk.key == key;
    chunk.invalidated = chunk.invalidated || is_key;
    return is_key;
  };
  return mark(reply) || mark(long_call) || std::any_of(reads.begin(), reads.begin() + read_count, mark) ||
         std::any_of(writes.begin(), writes.begin() + write_count, mark);
}

Status lay_out_chunks(const ClientCall& call, uint64_t long_call_bytes, uint32_t segment_bytes_max, ChunkList& chunks) {
  chunks.clear();
  if (call.long_call && !add_read(chunks, 0, long_call_bytes, segment_bytes_max)) {
    return fail(Error::kLimit);
  }
  for (const ReadChunkSource& source : call.reads) {
    if (!add_read(chunks, source.position, source.memory.size(), segment_bytes_max)) {
      return fail(Error::kLimit);
    }
  }
  for (const MutableBytes memory : call.writes) {
    if (!add_plain(chunks, memory.size(), segment_bytes_max, chunks.write[chunks.write_count])) {
      return fail(Error::kLimit);
    }
    ++chunks.write_count;
  }
  chunks.has_reply = !call.reply_memory.empty();
  if (chunks.has_reply && !add_plain(chunks, call.reply_memory.size(), segment_bytes_max, chunks.reply)) {
    return fail(Error::kLimit);
  }
  return {};
}

Status expose_chunks(const ClientCall& call, uint64_t long_call_bytes, verbs::MemoryRegistry& memory,
                     verbs::ProtectionDomain domain, PendingCall& pending, ChunkList& chunks) {
  Exposer exposer(memory, domain, chunks);
  if (!expose_all(call, long_call_bytes, exposer, pending)) {
    (void)hide_chunks(memory, domain, pending);
    return fail(Error::kNoResources);
  }
  return {};
}

bool hide_chunks(verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain, PendingCall& pending) {
  bool hidden = hide(memory, domain, pending.reply);
  hidden = hide(memory, domain, pending.long_call) && hidden;
  for (uint32_t i = 0; i < pending.read_count; ++i) {
    hidden = hide(memory, domain, pending.reads[i]) && hidden;
  }
  for (uint32_t i = 0; i < pending.write_count; ++i) {
    hidden = hide(memory, domain, pending.writes[i]) && hidden;
  }
  pending.read_count = 0;
  pending.write_count = 0;
  return hidden;
}

bool match_chunks(const ChunkList& returned, uint32_t segment_bytes_max, PendingCall& pending) {
  if (returned.write_count != pending.write_count || returned.has_reply != pending.reply.registered()) {
    return false;
  }
  for (uint32_t i = 0; i < pending.write_count; ++i) {
    const auto bytes = returned_bytes(returned, returned.write[i], pending.writes[i], segment_bytes_max);
    if (!bytes) {
      return false;
    }
    pending.outcome.write_bytes[i] = *bytes;
  }
  if (!returned.has_reply) {
    return true;
  }
  const auto bytes = returned_bytes(returned, returned.reply, pending.reply, segment_bytes_max);
  pending.outcome.reply_chunk_bytes = bytes.value_or(0);
  return bytes.has_value();
}

}  // namespace cw::rpcrdma
