// How a reply travels (RFC 8166 3.4.6, 3.5, 4.3.2, 4.3.3): a pure decision, taken before anything is posted.
//
//   reply stream   | kept 0 | item 0 | pad | kept 1 | item 1 | pad | kept 2 |
//   item i         -> the Write chunk that is next in order, segment after segment, without its pad
//   kept 0,1,2     -> inline behind the header (RDMA_MSG) or, when that is over the threshold, the Reply chunk (RDMA_NOMSG)
//
// Rules, with their clauses, and by name the readings in docs/architecture.md:
//  - Items take Write chunks in order until either runs out (4.3.2.1); items without a chunk stay in the stream.
//  - An empty chunk (no segments) keeps its item in the stream and uses the chunk up (4.3.2.3).
//  - An item of length 0 uses its chunk up and goes back as an unused one: the upper-layer binding lists it for that
//    (empty result).
//  - An item longer than its chunk: the server must use the chunk (4.3.2) and cannot, so that no reply is possible: ERR_CHUNK.
//    That holds for a chunk whose segments are all of length 0 too (chunk without room).
//  - The size test is header plus kept bytes against the threshold; equal fits (size test). The payload is reduced first and
//    the Reply chunk used only when the rest is still too long (3.5.3); Write chunks stay in use then.
//  - Every chunk of the call comes back with its returned lengths, unused ones with zeroes (every chunk returns).
#pragma once

#include <array>
#include <cstdint>

#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/wire/chunk_list.h"

namespace cw::rpcrdma {

enum class ReplyForm : uint8_t {
  kInline,        // RDMA_MSG: header and kept bytes in one SEND
  kReplyChunk,    // RDMA_NOMSG: kept bytes by RDMA Write, the SEND is the header alone
  kErrorChunk,    // RDMA_ERROR, ERR_CHUNK: it fits nowhere
  kErrorVersion,  // RDMA_ERROR, ERR_VERS: never planned, set by the receive checks
};
[[nodiscard]] const char* to_string(ReplyForm form) noexcept;

// An item that leaves the stream. Its pad, to the next multiple of 4, leaves with it and is sent nowhere.
struct PlacedItem {
  uint64_t offset = 0;  // in the reply stream
  uint32_t bytes = 0;   // content bytes, > 0
  uint16_t chunk = 0;   // index into ChunkList::write
};

// A small value: it is made whole and assigned whole, so that nothing of another call's plan can stay behind.
struct ReplyPlan {
  ReplyForm form = ReplyForm::kErrorChunk;
  uint32_t header_bytes = 0;  // of the transport header
  uint32_t placed_count = 0;
  uint64_t kept_bytes = 0;  // stream bytes that are in no Write chunk

  // An RDMA_ERROR: no payload, no chunks.
  [[nodiscard]] static ReplyPlan error(ReplyForm form);
  [[nodiscard]] bool has_payload() const { return form == ReplyForm::kInline || form == ReplyForm::kReplyChunk; }
};

// Where the parts of a planned reply go. Too big to be cleared per call: the plan that it belongs to says how much of it counts.
struct ReplyLayout {
  std::array<PlacedItem, kReducibleItemsMax> placed;  // valid for the first placed_count of the plan
  // Returned length per segment, in the order of ChunkList::segments; valid for the first segment_count of the call, when the
  // plan has payload.
  std::array<uint32_t, kPlainSegmentsMax> lengths;
};

struct ReplyLimits {
  uint32_t send_bytes_max = 1024;    // inline threshold towards the client
  uint32_t header_bytes_max = 1024;  // what one Buffer for the header holds
  uint64_t reply_bytes_max = 0;      // longest reply stream accepted
};

// The plan, with its parts in `layout`. `items` in stream order as find_reducible() gives them; one that contradicts the stream
// (out of order, past the end) ends the reduction there, since the backend's reply is not trusted either.
[[nodiscard]] ReplyPlan plan_reply(const ChunkList& chunks, uint64_t reply_bytes, const ReducibleItems& items,
                                   const ReplyLimits& limits, ReplyLayout& layout);

}  // namespace cw::rpcrdma
