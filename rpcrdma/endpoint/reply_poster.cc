#include "rpcrdma/endpoint/reply_poster.h"

#include <algorithm>
#include <cstring>

#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

ChunkStats& stats_of(RpcRdmaStats& stats, ChunkKind kind) {
  return stats.chunks[static_cast<size_t>(kind)];
}

bool is_small(const Chain& rest) {
  return rest.bytes() <= ReplyPoster::kCopyBytesMax;
}

bool is_shattered(const Chain& rest) {
  return rest.buffer_count() > ReplyPoster::kPiecesMax && rest.bytes() / rest.buffer_count() < ReplyPoster::kPieceBytesMin;
}

// The header goes in front of the inline rest, into its first Buffer, instead of into one of its own. A small rest in a Buffer
// larger than ours is better copied: it would keep that until the client has acknowledged.
bool goes_in_front(const ServerCall& call, const Chain& rest, const BufferPool& ours) {
  if (rest.empty() || rest.head()->headroom_bytes < call.plan.header_bytes) {
    return false;
  }
  return is_small(rest) ? rest.buffer_count() == 1 && rest.head()->pool == &ours : !is_shattered(rest);
}

// Puts the inline rest behind the header: copied when that makes the message simpler, else as further pieces of the chain.
void add_inline(Chain& message, Buffer* header, Chain& rest, RpcRdmaStats& stats) {
  const size_t bytes = static_cast<size_t>(rest.bytes());
  const bool small = is_small(rest);
  if ((small || is_shattered(rest)) && bytes <= header->tailroom().size()) {
    stats.pullups += small ? 0 : 1;
    rest.copy_to(0, header->tailroom().first(bytes));
    header->size += static_cast<uint32_t>(bytes);
    rest.clear();
  }
  message.push_back(header);
  message.append(std::move(rest));
}

}  // namespace

std::optional<verbs::Rkey> handle_to_invalidate(const ChunkList& chunks) {
  // Write chunks come first in `segments` and the Reply chunk follows: its first entry is the right one in either case.
  if (chunks.segment_count > 0) {
    return chunks.segments[0].handle;
  }
  if (chunks.read_count > 0) {
    return chunks.read[0].segment.handle;
  }
  return std::nullopt;
}

verbs::WorkId to_work_id(const Acknowledged& what) {
  const uint64_t chunks = what.stage == Stage::kRdmaWrite ? 1 : 0;
  return verbs::WorkId((static_cast<uint64_t>(what.answered.to_ns() + 1) << 1) | chunks);
}

std::optional<Acknowledged> acknowledged_by(verbs::WorkId id) {
  if (id == verbs::WorkId()) {
    return std::nullopt;
  }
  return Acknowledged{.stage = (id.value() & 1) != 0 ? Stage::kRdmaWrite : Stage::kReplyAck,
                      .answered = Instant::from_ns(static_cast<int64_t>(id.value() >> 1) - 1)};
}

PostResult ReplyPoster::post(ServerCall& call, const Grant& grant, bool remote_invalidate) {
  if (!call.plan.has_payload()) [[unlikely]] {
    return post_send(call, grant, false);
  }
  if (call.plan.placed_count > 0) {
    if (const PostResult items = post_items(call); items != PostResult::kPosted) {
      return items;
    }
  }
  if (call.plan.form == ReplyForm::kReplyChunk) {
    if (const PostResult rest = post_chunk(call, call.chunks.reply, call.rest(), ChunkKind::kReply);
        rest != PostResult::kPosted) {
      return rest;
    }
  }
  return post_send(call, grant, remote_invalidate);
}

PostResult ReplyPoster::post_items(ServerCall& call) {
  const ReplyPlan& plan = call.plan;
  while (call.placed_posted < plan.placed_count) {
    const PlacedItem& item = call.layout.placed[call.placed_posted];
    if (call.reply_offset < item.offset) {
      Chain before;
      if (!call.reply.split_front(item.offset - call.reply_offset, before)) {
        return PostResult::kNoBuffer;
      }
      call.kept.append(std::move(before));
      call.reply_offset = item.offset;
    }
    const PostResult result = post_chunk(call, call.chunks.write[item.chunk], call.reply, ChunkKind::kWrite);
    if (result != PostResult::kPosted) {
      return result;
    }
    call.reply.trim_front(xdr_padded(item.bytes) - item.bytes);
    call.reply_offset = item.offset + xdr_padded(item.bytes);
    ++call.placed_posted;
    call.segments_posted = 0;
  }
  call.kept.append(std::move(call.reply));
  return PostResult::kPosted;
}

PostResult ReplyPoster::post_chunk(ServerCall& call, const PlainChunk& chunk, Chain& from, ChunkKind kind) {
  for (; call.segments_posted < chunk.segment_count; ++call.segments_posted) {
    const uint32_t at = chunk.first_segment + call.segments_posted;
    const uint32_t bytes = call.layout.lengths[at];
    if (bytes == 0) {
      continue;
    }
    const uint32_t room = window_.room();
    if (room == 0) {
      return qp_.in_error() ? PostResult::kFailed : PostResult::kNoRoom;
    }
    // The id is looked at when the client refuses the Write: which call was it?
    verbs::WriteRequest write{.id = verbs::WorkId(call.xid),
                              .rkey = call.chunks.segments[at].handle,
                              .remote_address = call.chunks.segments[at].offset,
                              .signaled = window_.signaled(room)};
    if (!from.split_front(bytes, write.payload)) {
      return PostResult::kNoBuffer;
    }
    if (!qp_.post_write(std::move(write)).ok()) {
      return PostResult::kFailed;
    }
    window_.note_posted();
    stats_of(stats_, kind).bytes += bytes;
    ++stats_of(stats_, kind).segments;
  }
  return PostResult::kPosted;
}

PostResult ReplyPoster::post_send(ServerCall& call, const Grant& grant, bool remote_invalidate) {
  const uint32_t room = window_.room();
  if (room == 0) {
    return qp_.in_error() ? PostResult::kFailed : PostResult::kNoRoom;
  }
  const verbs::WorkId id = watch(call);
  verbs::SendRequest send{.id = id, .signaled = window_.signaled(room) || id != verbs::WorkId() || grant.signaled};
  if (const PostResult built = build_message(call, grant.credit, send.payload); built != PostResult::kPosted) [[unlikely]] {
    return built;
  }
  if (remote_invalidate && (call.chunks.segment_count > 0 || call.chunks.read_count > 0)) {
    send.invalidate = handle_to_invalidate(call.chunks);
  }
  const bool invalidates = send.invalidate.has_value();
  if (grant.post_receive) {
    qp_.post_receives(1);
  }
  if (!qp_.post_send(std::move(send)).ok()) {
    return PostResult::kFailed;
  }
  window_.note_posted();
  count_sent(call, invalidates);
  return PostResult::kPosted;
}

bool ReplyPoster::post_plainly(uint32_t xid, Instant answered, Chain&& reply, uint32_t credit, uint32_t room) {
  const verbs::WorkId id = watch_some(answered);
  verbs::SendRequest send{.id = id, .payload = std::move(reply)};
  send.signaled = window_.signaled(room) || id != verbs::WorkId();
  write_bare_header(send.payload.extend_front(kBareHeaderBytes), xid, credit);
  qp_.post_receives(1);
  if (!qp_.post_send(std::move(send)).ok()) {
    return false;
  }
  window_.note_posted();
  ++stats_.messages_out[static_cast<size_t>(MessageKind::kMsg)];
  return true;
}

void ReplyPoster::write_bare_header(MutableBytes out, uint32_t xid, uint32_t credit) {
  FixedHeader{.xid = xid, .credit = credit, .proc = static_cast<uint32_t>(RdmaProc::kMsg)}.write(out.first<FixedHeader::kSize>());
  std::memset(out.data() + FixedHeader::kSize, 0, kBareHeaderBytes - FixedHeader::kSize);
}

// Nothing of the call is taken before it is certain to be sent: without a Buffer it is tried again.
PostResult ReplyPoster::build_message(ServerCall& call, uint32_t credit, Chain& message) {
  const bool is_inline = call.plan.form == ReplyForm::kInline;
  if (is_inline && goes_in_front(call, call.rest(), pool_)) {
    message = std::move(call.rest());
    const auto written = write_header(call, credit, message.extend_front(call.plan.header_bytes));
    return written.ok() && *written == call.plan.header_bytes ? PostResult::kPosted : PostResult::kFailed;
  }
  Buffer* header = pool_.allocate_one();
  if (header == nullptr) {
    return PostResult::kNoBuffer;
  }
  const auto written = write_header(call, credit, header->tailroom());
  if (!written.ok()) {
    release_buffers(header);
    return PostResult::kFailed;
  }
  header->size = *written;
  if (is_inline) {
    add_inline(message, header, call.rest(), stats_);
  } else {
    message.push_back(header);
  }
  return PostResult::kPosted;
}

Result<uint32_t> ReplyPoster::write_header(const ServerCall& call, uint32_t credit, MutableBytes out) {
  switch (call.plan.form) {
    case ReplyForm::kErrorChunk:
      return write_chunk_error(out, call.xid, credit);
    case ReplyForm::kErrorVersion:
      return write_version_error(out, call.xid, call.version, credit);
    case ReplyForm::kInline:
    case ReplyForm::kReplyChunk:
      break;
  }
  const RdmaProc proc = call.plan.form == ReplyForm::kInline ? RdmaProc::kMsg : RdmaProc::kNomsg;
  const FixedHeader fixed{.xid = call.xid, .credit = credit, .proc = static_cast<uint32_t>(proc)};
  return write_reply_header(out, fixed, call.chunks, {call.layout.lengths.data(), call.chunks.segment_count});
}

verbs::WorkId ReplyPoster::watch(const ServerCall& call) const {
  if (!call.polled) {
    return {};  // refused: no reply of the owner
  }
  if (call.plan.form == ReplyForm::kReplyChunk || (call.plan.form == ReplyForm::kInline && call.plan.placed_count > 0)) {
    return to_work_id({.stage = Stage::kRdmaWrite, .answered = call.answered});
  }
  return watch_some(call.answered);
}

void ReplyPoster::count_sent(const ServerCall& call, bool invalidates) {
  const auto kind = [&]() {
    switch (call.plan.form) {
      case ReplyForm::kInline:
        return MessageKind::kMsg;
      case ReplyForm::kReplyChunk:
        ++stats_of(stats_, ChunkKind::kReply).chunks;
        return MessageKind::kNomsg;
      case ReplyForm::kErrorChunk:
        ++stats_.errors_out_chunk;
        return MessageKind::kError;
      case ReplyForm::kErrorVersion:
        ++stats_.errors_out_version;
        return MessageKind::kError;
    }
    return MessageKind::kOther;
  }();
  ++stats_.messages_out[static_cast<size_t>(kind)];
  if (call.plan.placed_count > 0) [[unlikely]] {
    stats_of(stats_, ChunkKind::kWrite).chunks += call.plan.placed_count;
  }
  stats_.remote_invalidations += invalidates ? 1 : 0;
}

}  // namespace cw::rpcrdma
