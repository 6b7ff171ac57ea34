#include "rpcrdma/endpoint/reply_plan.h"

#include <algorithm>

#include "rpcrdma/wire/transport_header.h"
#include "rpcrdma/xdr/xdr_reader.h"

namespace cw::rpcrdma {
namespace {

// Lays `bytes` over the segments of `chunk` in order, without gaps (3.4.6). Precondition: they fit.
void fill_segments(const ChunkList& chunks, const PlainChunk& chunk, uint64_t bytes, ReplyLayout& layout) {
  for (uint32_t i = 0; i < chunk.segment_count && bytes > 0; ++i) {
    const uint32_t at = uint32_t{chunk.first_segment} + i;
    const uint32_t take = static_cast<uint32_t>(std::min<uint64_t>(bytes, chunks.segments[at].length));
    layout.lengths[at] = take;
    bytes -= take;
  }
}

// Gives each item its Write chunk. False when an item is longer than the chunk that it must go to.
bool place_items(const ChunkList& chunks, uint64_t reply_bytes, const ReducibleItems& items, ReplyPlan& plan,
                 ReplyLayout& layout) {
  uint64_t stream_offset = 0;
  uint32_t chunk_index = 0;
  for (uint32_t i = 0; i < items.count && chunk_index < chunks.write_count; ++i) {
    const ReducibleItem& item = items.items[i];
    if (item.offset < stream_offset || item.offset > reply_bytes || xdr_padded(item.length) > reply_bytes - item.offset) {
      break;
    }
    stream_offset = item.offset + xdr_padded(item.length);
    const PlainChunk& chunk = chunks.write[chunk_index];
    const uint16_t index = static_cast<uint16_t>(chunk_index++);
    if (item.length == 0 || chunk.segment_count == 0) {
      continue;
    }
    if (item.length > chunk.capacity_bytes) {
      return false;
    }
    layout.placed[plan.placed_count++] = PlacedItem{.offset = item.offset, .bytes = item.length, .chunk = index};
    plan.kept_bytes -= xdr_padded(item.length);
    fill_segments(chunks, chunk, item.length, layout);
  }
  return true;
}

ReplyForm choose_form(const ChunkList& chunks, const ReplyLimits& limits, const ReplyPlan& plan) {
  if (plan.header_bytes > limits.send_bytes_max || plan.header_bytes > limits.header_bytes_max) {
    return ReplyForm::kErrorChunk;
  }
  if (plan.kept_bytes <= limits.send_bytes_max - plan.header_bytes) {
    return ReplyForm::kInline;
  }
  return chunks.has_reply && plan.kept_bytes <= chunks.reply.capacity_bytes ? ReplyForm::kReplyChunk : ReplyForm::kErrorChunk;
}

}  // namespace

const char* to_string(ReplyForm form) noexcept {
  switch (form) {
    case ReplyForm::kInline:
      return "inline";
    case ReplyForm::kReplyChunk:
      return "Reply chunk";
    case ReplyForm::kErrorChunk:
      return "ERR_CHUNK";
    case ReplyForm::kErrorVersion:
      return "ERR_VERS";
  }
  return "unknown form";
}

ReplyPlan ReplyPlan::error(ReplyForm form) {
  return {.form = form, .header_bytes = form == ReplyForm::kErrorVersion ? kVersionErrorBytes : kChunkErrorBytes};
}

ReplyPlan plan_reply(const ChunkList& chunks, uint64_t reply_bytes, const ReducibleItems& items, const ReplyLimits& limits,
                     ReplyLayout& layout) {
  if (reply_bytes > limits.reply_bytes_max) {
    return ReplyPlan::error(ReplyForm::kErrorChunk);
  }
  std::fill_n(layout.lengths.begin(), chunks.segment_count, 0u);
  ReplyPlan plan{.header_bytes = reply_header_bytes(chunks), .kept_bytes = reply_bytes};
  if (!place_items(chunks, reply_bytes, items, plan, layout)) {
    return ReplyPlan::error(ReplyForm::kErrorChunk);
  }
  plan.form = choose_form(chunks, limits, plan);
  if (plan.form == ReplyForm::kErrorChunk) {
    return ReplyPlan::error(ReplyForm::kErrorChunk);
  }
  if (plan.form == ReplyForm::kReplyChunk) {
    fill_segments(chunks, chunks.reply, plan.kept_bytes, layout);
  }
  return plan;
}

}  // namespace cw::rpcrdma
