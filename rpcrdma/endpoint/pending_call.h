// A call of the client side from submit() until its outcome has been polled and its reply has come.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/intrusive_list.h"
#include "rpcrdma/endpoint/client_endpoint.h"
#include "verbs/memory_region.h"

namespace cw::rpcrdma {

// Memory shown to the server for one chunk: one registration, cut into segments of at most ClientOptions::segment_bytes_max.
struct ExposedChunk {
  verbs::Rkey key;
  uint64_t address = 0;  // remote address of the first byte
  uint32_t bytes = 0;
  bool invalidated = false;  // by the server's SEND with Invalidate
  [[nodiscard]] bool registered() const { return bytes > 0; }
};

struct PendingTag {};  // the endpoint's list of calls in flight, oldest first, or of those given up
struct OutcomeTag {};  // the endpoint's list of outcomes to poll

struct PendingCall : ListNode<PendingTag>, ListNode<OutcomeTag> {
  uint32_t slot = 0;
  uint32_t xid = 0;
  bool in_flight = false;  // counts against the grant
  bool abandoned = false;  // timed out: the outcome is out, a late reply only frees the slot
  bool resent = false;     // under an XID of another connection
  PendingCall* next_free = nullptr;
  Instant sent;
  MutableBytes reply_memory;
  CallContext context;  // set when Write chunks are offered

  // Keys of this call. A registered one is set to ExposedChunk{} when it has been invalidated.
  ExposedChunk reply;
  ExposedChunk long_call;
  uint32_t read_count = 0;
  uint32_t write_count = 0;
  std::array<ExposedChunk, ClientEndpoint::kReadsMax> reads;
  std::array<ExposedChunk, ClientReply::kWritesMax> writes;

  ClientReply outcome;

  // The server's SEND has invalidated `key`. False when the key is none of this call's.
  [[nodiscard]] bool mark_invalidated(verbs::Rkey key);
};

// Lays the call's chunks out in `chunks`: counts and lengths final, handles and offsets not yet. kLimit when there are too many.
[[nodiscard]] Status lay_out_chunks(const ClientCall& call, uint64_t long_call_bytes, uint32_t segment_bytes_max,
                                    ChunkList& chunks);

// Registers the memory and fills handles and offsets in. Sources may only be read, sinks only be written (RFC 8166 8.1.3). All or
// nothing; kNoResources when the table is full. Precondition: lay_out_chunks() succeeded for the same call.
[[nodiscard]] Status expose_chunks(const ClientCall& call, uint64_t long_call_bytes, verbs::MemoryRegistry& memory,
                                   verbs::ProtectionDomain domain, PendingCall& pending, ChunkList& chunks);

// Shuts the server off from all memory of the call. False when that failed for a key that the server has not invalidated itself:
// the
// connection has to be closed before the call completes (RFC 8166 4.5.4).
[[nodiscard]] bool hide_chunks(verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain, PendingCall& pending);

// Compares what came back with what was offered (RFC 8166 3.4.6, 4.3.3): same chunks, same segments, lengths within bounds and
// without gaps. Fills the outcome's write_bytes and reply_chunk_bytes; false when the reply contradicts the call.
[[nodiscard]] bool match_chunks(const ChunkList& returned, uint32_t segment_bytes_max, PendingCall& pending);

}  // namespace cw::rpcrdma
