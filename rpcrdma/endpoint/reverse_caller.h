// The server's half of the reverse direction (RFC 8167): Calls to the client that opened the connection, and their Replies.
//
//   submit() -> waits for a credit, room and a Buffer -> SEND -> in flight by XID -> Reply or RDMA_ERROR -> poll_outcome()
//
// Messages are inline only (RFC 8167 5.3 leaves chunks to the upper layer's needs; an NFSv4.1 callback has none): header and call
// in one SEND of at most the forward Reply's threshold (4.2). Credits are a ledger of their own: one until the first Reply, then
// what the newest Reply grants (4.1), never more than were asked for. XIDs are the submitter's and pass unchanged; the table of
// those in flight knows nothing of forward calls, so that equal XIDs of both directions cannot meet (2.4).
//
// Nothing is sent before enable(): whether the client is ready is known to the upper layer alone (6).
// Receives: one is posted before each Call is sent, for its Reply, and used up by it (4.3.2). It is there on top of those for
// forward calls and comes back to nobody: a Reply that never comes leaves its receive, and its credit, taken until the connection
// ends, since it may come at any time. What waits for a credit expires; the submitter has a timer for the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/ring.h"
#include "base/time.h"
#include "rpcrdma/endpoint/header_view.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/send_window.h"
#include "rpcrdma/wire/transport_header.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

enum class ReverseStatus : uint8_t {
  kReplied,
  kRefused,  // RDMA_ERROR: the client takes no such call; never sent again (RFC 8167 5.3)
  kExpired,  // no credit came in time: nothing was sent
};
[[nodiscard]] const char* to_string(ReverseStatus status) noexcept;

struct ReverseOutcome {
  ReverseStatus status = ReverseStatus::kReplied;
  uint32_t xid = 0;
  Chain message;  // the RPC reply, for kReplied
};

class ReverseCaller {
 public:
  static constexpr uint32_t kWaitingMax = 32;   // calls that wait for a credit, per connection
  static constexpr uint32_t kCreditsMax = 256;  // of the table of calls in flight, which is searched

  // Made when the upper layer has learned that the client is ready: most connections never have one. It asks for
  // `options.reverse_credits`, which are not 0.
  ReverseCaller(verbs::QueuePair& qp, SendWindow& window, BufferPool& pool, RpcRdmaStats& stats, const ServerOptions& options,
                uint32_t send_bytes_max);
  // The connection is over: everything is forgotten.
  ~ReverseCaller();
  ReverseCaller(const ReverseCaller&) = delete;
  ReverseCaller& operator=(const ReverseCaller&) = delete;

  // Takes an RPC call, XID first. kLimit: longer than one inline message. kBadValue: no RPC call, or its XID waits or is in
  // flight already. kNoResources: kWaitingMax wait already. A refused call stays with the caller.
  [[nodiscard]] Status submit(Instant now, Chain&& call);
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }

  // Sends what waits, as far as credits, room and Buffers reach. kDone: what still waits goes on with a completion. kNoRoom,
  // kNoBuffer: see PostResult. kFailed: the connection is lost.
  enum class Progress : uint8_t { kDone, kNoRoom, kNoBuffer, kFailed };
  [[nodiscard]] Progress advance();

  // Takes `message` when it is the Reply to, or the RDMA_ERROR for, a call in flight: then its receive was the one posted for it.
  // Anything else is left alone. Precondition: in_flight() > 0.
  [[nodiscard]] bool take(HeaderView& view, Chain& message);

  [[nodiscard]] bool poll_outcome(ReverseOutcome& out);
  [[nodiscard]] bool has_outcome() const { return !outcomes_.empty(); }

  [[nodiscard]] Instant next_deadline() const;
  void on_deadline(Instant now);

  // Calls the client has granted.
  [[nodiscard]] uint32_t credits_granted() const { return granted_; }
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }

 private:
  struct Waiting {
    uint32_t xid = 0;
    Instant expires;
    Chain call;
  };
  // A call from submit() until its outcome.
  struct Entry {
    uint32_t xid = 0;
    bool sent = false;
  };
  [[nodiscard]] Entry* find(uint32_t xid);
  [[nodiscard]] bool send(Entry& entry, Chain&& call, uint32_t room, Buffer& header);
  [[nodiscard]] bool take_error(Bytes message, const FixedHeader& fixed, Entry& entry);
  [[nodiscard]] bool take_reply(const FixedHeader& fixed, Chain& message, Entry& entry);
  void finish(Entry& entry, ReverseOutcome&& outcome);
  void grant(uint32_t credit);

  verbs::QueuePair& qp_;
  SendWindow& window_;
  BufferPool& pool_;
  RpcRdmaStats& stats_;
  uint32_t credits_wanted_;
  uint32_t send_bytes_max_;
  Duration patience_;
  bool replied_ = false;  // a real Reply has come: RDMA_ERROR may move the grant from here on
  uint32_t granted_ = 1;  // RFC 8166 3.3.3: one until the first Reply
  uint32_t in_flight_ = 0;
  std::vector<Entry> entries_;  // calls that wait or are in flight, in no order
  Ring<Waiting> waiting_;
  Ring<ReverseOutcome> outcomes_;
};

}  // namespace cw::rpcrdma
