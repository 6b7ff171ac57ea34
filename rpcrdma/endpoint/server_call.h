// One call on its way through the server side, and the table of all of them on one core.
//
// A slot is taken when a SEND has passed the first checks and is used until the reply's SEND has been posted. Its CallWork lives
// as long as the call; the rest of the slot is constructed once, since a ChunkList is too big to be cleared per call.
#pragma once

#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/intrusive_list.h"
#include "base/strong_id.h"
#include "base/time.h"
#include "rpcrdma/endpoint/reply_plan.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"
#include "rpcrdma/ulb/binding.h"
#include "rpcrdma/wire/chunk_list.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::rpcrdma {

class ServerEndpoint;

struct CallIdTag {};
// Slot and generation: an answer that comes after its connection or call ended is recognised and dropped.
using CallId = StrongId<CallIdTag, uint64_t>;

enum class CallState : uint8_t {
  kFree,
  kWaiting,   // for its share of the SharedBudget, or for the rates
  kReading,   // RDMA Reads are to be posted or on their way
  kSplicing,  // all data are here, a pool was empty when the stream had to be put together
  kReady,     // waits for poll_call()
  kPolled,    // with the owner
  kReplying,  // the answer waits for room in the send queue or for Buffers
};
[[nodiscard]] const char* to_string(CallState state) noexcept;

struct ArrivalTag {};  // the endpoint's list of calls that wait for data, or of those that have all of it; oldest first
struct QueueTag {};    // the endpoint's list for the state: reading, ready or replying

// Everything that one call leaves in its slot. The table makes it anew for each call: no path has to remember what to clear.
struct CallWork {
  CallState state = CallState::kFree;
  RdmaProc proc = RdmaProc::kMsg;
  bool splicing = false;  // `base` is set up
  bool polled = false;    // the owner has seen it; a call refused before leaves no record
  uint32_t arrival = 0;   // counts the connection's calls, modulo 2^32
  uint32_t xid = 0;
  uint32_t version = kRpcRdmaVersion;  // as received: ERR_VERS echoes it
  Instant received;                    // when the first packet of its message arrived
  Instant begun_at;                    // what it waits for now: a turn, its RDMA Reads, the owner
  Instant answered;                    // the owner gave its reply
  Duration read_for;                   // what Stage::kRdmaRead took, zero without

  Chain message;               // the call as far as it is put together: inline part, in the end the whole stream
  Chain read_data;             // what the RDMA Reads brought, segment after segment
  Chain base;                  // while splicing: the rest of the stream that chunks go into
  uint64_t inline_bytes = 0;   // bytes behind the header when the SEND came
  uint64_t budget_bytes = 0;   // of SharedBudget::bytes_in_use: until the call is over
  uint64_t charged_bytes = 0;  // to RateLine, until the reply says how many they are
  uint64_t pulled_units = 0;   // of ServerShared::pulled_units: from the first RDMA Read until the call is over
  uint64_t reply_bytes = 0;    // of ClientShare::reply_bytes: from poll_call() until the reply is posted
  uint64_t unread_units = 0;   // the same until the last RDMA Read is answered
  uint32_t reads_posted = 0;   // read segments posted, or skipped since they are empty
  uint32_t reads_done = 0;     // the same for arrived
  uint32_t pieces_done = 0;    // of the splice plan

  // The answer. `reply` is consumed from the front while Writes are posted; what stays in the stream gathers in `kept`. A plan
  // that places nothing leaves all of it where it is: see rest().
  uint32_t placed_posted = 0;    // items of the plan that are completely posted
  uint32_t segments_posted = 0;  // segments of the item or Reply chunk in progress
  Chain reply;
  Chain kept;
  uint64_t reply_offset = 0;  // stream bytes consumed
  ReplyPlan plan;

  // Something that return_units() has to give back.
  [[nodiscard]] bool holds_shares() const { return (budget_bytes | pulled_units | reply_bytes) != 0; }
  // What goes behind the header or into the Reply chunk, when all items of the plan have been posted.
  [[nodiscard]] Chain& rest() { return plan.placed_count > 0 ? kept : reply; }
};

struct ServerCall : ListNode<ArrivalTag>, ListNode<QueueTag>, CallWork {
  uint32_t slot = 0;
  uint32_t generation = 1;
  ServerEndpoint* endpoint = nullptr;  // null when free
  BackendShare* share = nullptr;       // in which the slot counts
  ServerCall* next_free = nullptr;

  // Too big to be made anew: each is written whole, as far as it counts, before it is read. Counts of `chunks` start at 0.
  CallContext context;
  ReplyLayout layout;
  ChunkList chunks;

  [[nodiscard]] CallId id() const { return CallId((uint64_t{slot} << 32) | generation); }
};

// Its place in the list for its state.
inline ListNode<QueueTag>& queue_node(ServerCall& call) {
  return call;
}

class ServerCallTable {
 public:
  static constexpr uint32_t kSlotsMax = 1u << 24;  // a work id holds the slot in 24 bits

  explicit ServerCallTable(uint32_t capacity);
  ~ServerCallTable();

  // A slot with empty chains and chunks, or nullptr. It counts in `share`, if there is one, until its release.
  [[nodiscard]] ServerCall* acquire(ServerEndpoint& owner, BackendShare* share);
  // Back to the free ones. The slot is in no list.
  void release(ServerCall& call);
  // nullptr when the id's generation is over.
  [[nodiscard]] ServerCall* find(CallId id);

  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t in_use() const { return in_use_; }
  [[nodiscard]] uint32_t free_count() const { return capacity_ - in_use_; }

 private:
  void end_generation(ServerCall& call);

  std::unique_ptr<ServerCall[]> slots_;
  ServerCall* free_ = nullptr;
  uint32_t capacity_;
  uint32_t in_use_ = 0;
};

}  // namespace cw::rpcrdma
