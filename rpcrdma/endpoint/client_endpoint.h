// The client side of one RPC-over-RDMA connection: what causeway-load and the tests use.
//
// The caller gives the RPC call's XDR stream and says which ranges of it travel as Read chunks (DDP-eligible arguments or, as
// Position Zero, all of it) and where results may be placed. Memory for chunks is plain memory of the caller, registered for the
// one call and invalidated (by the server's SEND with Invalidate or locally) before the outcome is delivered.
//
// How it fails: a reply whose header is faulty is dropped and counted, its call stays pending until its timeout (RFC 8166 4.5). A
// call that timed out or is cancelled is delivered as such, its memory is shut off, and it keeps its credit until the late reply
// comes (3.3.1): what the server then still writes is refused, which ends the connection (8.1.4). A failed RDMA operation or a
// queue pair in Error fails the endpoint: every pending call ends with kConnectionLost.
// Reverse direction (RFC 8167): with options.reverse_credits the server's calls are taken too, see ReverseResponder. Which end a
// message belongs to is told by its msg_type, never by its XID alone. The upper layer tells the server that it may call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/buffer.h"
#include "base/intrusive_list.h"
#include "rpcrdma/endpoint/header_view.h"
#include "rpcrdma/endpoint/reverse_responder.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/send_window.h"
#include "rpcrdma/ulb/binding.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

// An argument moved by RDMA Read: `memory` belongs at XDR byte `position`; the opaque's length word is inline just before it,
// its padding is neither inline nor in the chunk.
struct ReadChunkSource {
  uint32_t position = 0;
  MutableBytes memory;  // not written; mutable because registration is
};

struct ClientCall {
  uint64_t user_data = 0;
  // The RPC call without the reduced arguments, XID first; the XID word is replaced by a fresh one, or by `resent_xid`.
  Chain message;
  std::span<const ReadChunkSource> reads;  // ascending positions, not 0
  std::span<const MutableBytes> writes;    // one Write chunk each, in order of the eligible results; empty = empty chunk
  MutableBytes reply_memory;               // Reply chunk; empty = none is offered
  // Send everything as a Position-Zero Read chunk: `message` is copied to the front of `long_call_memory`; with an empty
  // `message` that memory is the whole stream already.
  bool long_call = false;
  MutableBytes long_call_memory;
  // The longest reply stream possible, less what goes to Write chunks, and the longest eligible result; the upper layer knows. A
  // call that offers less room for them is refused. 0 = not said.
  uint64_t reply_bytes_max = 0;
  uint32_t result_bytes_max = 0;
  // A retransmission (RFC 8166 4.5.5, RFC 8167 5.4): the XID that the call had on a connection that is lost. Its memory is
  // registered anew: keys belong to a connection.
  std::optional<uint32_t> resent_xid;
};

enum class CallStatus : uint8_t { kReplied, kErrorVersion, kErrorChunk, kTimeout, kConnectionLost, kBadReply, kCancelled };
inline constexpr size_t kCallStatusCount = 7;
[[nodiscard]] const char* to_string(CallStatus status) noexcept;

struct ClientReply {
  uint64_t user_data = 0;
  CallStatus status = CallStatus::kReplied;
  Chain message;                   // RPC reply, inline part (empty when it came in the Reply chunk)
  uint32_t reply_chunk_bytes = 0;  // bytes in reply_memory
  static constexpr uint32_t kWritesMax = 16;
  uint32_t write_bytes[kWritesMax] = {};  // bytes placed per Write chunk
  Instant sent;
  uint32_t xid = 0;
};

struct PendingCall;
struct PendingTag;
struct OutcomeTag;

class ClientEndpoint {
 public:
  // How soon a reverse answer that found no room or Buffer is tried again. Nothing announces Buffers.
  static constexpr Duration kRetryInterval = Duration::us(200);
  static constexpr uint32_t kReadsMax = 16;  // Read chunks per call, the Position-Zero one not counted

  ClientEndpoint(verbs::QueuePair& qp, verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain, BufferPool& pool,
                 const ClientOptions& options, const InlineThresholds& thresholds, uint32_t first_xid, RpcRdmaStats& stats);
  ~ClientEndpoint();
  ClientEndpoint(const ClientEndpoint&) = delete;
  ClientEndpoint& operator=(const ClientEndpoint&) = delete;

  // Posts the receives. Call before the first submit().
  void start();
  // Calls that can be submitted now: the last granted credits less those in flight (one before the first reply).
  [[nodiscard]] uint32_t calls_allowed() const;
  // Takes the call or refuses it: kNoResources (credits or send queue: try again after a reply), kLimit (does not fit: offer
  // chunks), kBadValue (the call contradicts itself, lacks arguments that are not eligible, or has no room for its reply),
  // kBadState
  // (connection lost). A refused call keeps its message. kBadValue also for a `resent_xid` that is in flight.
  [[nodiscard]] Status submit(Instant now, ClientCall&& call);
  // Of the last call that was taken.
  [[nodiscard]] uint32_t last_xid() const { return last_xid_; }
  // The owner wants no reply to the call any more: its outcome is kCancelled, and its memory is the owner's again once that has
  // been polled. The server does not know of it and executes the call all the same. kBadValue: no such call is waiting.
  [[nodiscard]] Status cancel(uint32_t xid);
  void on_completions(Instant now);
  // Takes the next outcome. Each submitted call has exactly one.
  [[nodiscard]] bool poll_reply(ClientReply& out);
  // Calls of the server, in the order of their arrival; answered in any.
  [[nodiscard]] bool poll_reverse_call(ReverseCall& out) { return reverse_.poll_call(out); }
  void reply_reverse(Instant now, uint32_t xid, Chain&& message);
  [[nodiscard]] const ReverseResponder& reverse() const { return reverse_; }
  // Gives the connection up, as when the queue pair fails.
  void fail();
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Instant next_deadline() const;
  void on_deadline(Instant now);
  [[nodiscard]] uint32_t credits() const { return granted_; }  // last grant
  // Calls sent and not answered, timed-out and cancelled ones included.
  [[nodiscard]] uint32_t calls_in_flight() const { return in_flight_; }
  [[nodiscard]] const InlineThresholds& thresholds() const { return thresholds_; }

 private:
  [[nodiscard]] Status check_call(const ClientCall& call, uint64_t stream_bytes) const;
  [[nodiscard]] bool check_reduction(const ClientCall& call);
  [[nodiscard]] bool check_reply_room(const ClientCall& call) const;
  [[nodiscard]] Status send_call(Instant now, PendingCall& pending, ClientCall& call, uint64_t long_call_bytes);
  [[nodiscard]] Buffer* build_header(const PendingCall& pending, bool with_xid);
  void free_slot(PendingCall& pending);
  [[nodiscard]] PendingCall* find(uint32_t xid);
  [[nodiscard]] uint32_t fresh_xid(const PendingCall& pending);

  void on_completion(verbs::Completion& completion);
  void on_message(Chain&& message, std::optional<verbs::Rkey> invalidated);
  [[nodiscard]] bool take_reverse_call(const FixedHeader& fixed, bool forward_pending, Chain& message);
  void advance_reverse(Instant now);
  void on_error(Bytes message, const FixedHeader& fixed);
  void on_reply(Chain&& message, const FixedHeader& fixed, PendingCall& pending);
  [[nodiscard]] bool check_reply(const Chain& message, const FixedHeader& fixed, uint32_t& header_bytes);
  [[nodiscard]] bool check_results(const PendingCall& pending, const Chain& message, bool long_reply);
  void count_moved(const ClientReply& outcome);
  void deliver(PendingCall& pending, CallStatus status);
  void abandon(PendingCall& pending, CallStatus status);
  void answered(PendingCall& pending);
  void grant(uint32_t credit);

  verbs::QueuePair& qp_;
  verbs::MemoryRegistry& memory_;
  verbs::ProtectionDomain domain_;
  BufferPool& pool_;
  ClientOptions options_;
  InlineThresholds thresholds_;
  RpcRdmaStats& stats_;
  SendWindow window_;
  ReverseResponder reverse_;
  HeaderView header_view_;
  ChunkList chunks_;     // of the call being built or the reply being read
  CallContext context_;  // of the call being built, when it moves anything

  std::unique_ptr<PendingCall[]> slots_;
  PendingCall* free_ = nullptr;
  uint32_t slot_count_;
  uint32_t free_count_ = 0;
  IntrusiveList<PendingCall, PendingTag> sent_;       // in flight, oldest first
  IntrusiveList<PendingCall, PendingTag> abandoned_;  // timed out or cancelled, and not answered
  IntrusiveList<PendingCall, OutcomeTag> outcomes_;

  uint32_t first_xid_;
  uint32_t xid_count_ = 0;  // fresh XIDs taken
  uint32_t slot_bits_ = 0;  // low bits of (XID - first_xid_) name the slot, so that no two pending calls share one
  uint32_t resent_ = 0;     // calls in flight whose XID is from another connection: it names no slot
  uint32_t last_xid_ = 0;
  uint32_t granted_ = 1;  // RFC 8166 3.3.3: one until the first reply
  uint32_t in_flight_ = 0;
  bool exposed_ = false;  // memory could not be shut off: the connection has to go
  bool replied_ = false;  // a real reply has come: RDMA_ERROR may move the grant from here on
  bool failed_ = false;
  Instant reverse_retry_at_ = Instant::never();  // a reverse answer waits for room or memory
};

}  // namespace cw::rpcrdma
