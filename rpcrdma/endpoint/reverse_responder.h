// The client's half of the reverse direction (RFC 8167): Calls of the server on the client's connection, and their Replies.
//
//   received message -> take() -> poll_call() -> the owner's program -> reply() -> SEND under the Call's XID
//
// Credits are the calls served at once, fixed for the connection; each Reply grants all of them (5.2), and a receive is posted
// for each on top of those for forward Replies (4.3.1). Chunks are not supported: a Call that brings any is answered with
// ERR_CHUNK (5.3), and so is one whose Reply is longer than the forward Call's threshold (4.2). A server with more Calls in
// flight than were granted has broken the protocol: take() says so and the endpoint fails.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/ring.h"
#include "rpcrdma/endpoint/header_view.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/send_window.h"
#include "rpcrdma/ulb/binding.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

struct ReverseCall {
  uint32_t xid = 0;
  CallContext context;
  Chain message;  // the RPC call, XID first
};

class ReverseResponder {
 public:
  // `credits` 0: no Calls are taken.
  ReverseResponder(verbs::QueuePair& qp, SendWindow& window, BufferPool& pool, RpcRdmaStats& stats, uint32_t credits,
                   uint32_t send_bytes_max);

  [[nodiscard]] uint32_t credits() const { return credits_; }
  [[nodiscard]] uint32_t in_service() const { return static_cast<uint32_t>(serving_.size()); }

  enum class Taken : uint8_t {
    kNotACall,   // a forward Reply, or nothing that tells: left alone
    kTaken,      // to be served, or answered with an error already
    kViolation,  // more than granted: give the connection up
  };
  // `forward_pending`: this end has a Call of its own in flight under the message's XID, so that a message which does not tell
  // its direction is the answer to it. `chunks` is scratch. Precondition: `fixed` is the message's header and no RDMA_ERROR.
  [[nodiscard]] Taken take(HeaderView& view, ChunkList& chunks, const FixedHeader& fixed, bool forward_pending, Chain& message);

  [[nodiscard]] bool poll_call(ReverseCall& out);
  // Takes the answer of a call, to be sent by advance(); one that is not in service is ignored.
  void reply(uint32_t xid, Chain&& message);
  // Sends answers, as far as room and Buffers reach. False: the queue pair refused, the connection is lost.
  [[nodiscard]] bool advance();
  [[nodiscard]] bool has_answers() const { return !answers_.empty(); }
  void end();

 private:
  enum class Form : uint8_t { kReply, kErrorChunk, kErrorVersion };
  struct Answer {
    uint32_t xid = 0;
    uint32_t version = 0;  // as received
    Form form = Form::kReply;
    Chain message;
  };
  [[nodiscard]] Taken refuse(const FixedHeader& fixed, Form form);
  [[nodiscard]] bool write_header(const Answer& answer, Buffer& header) const;
  void count_sent(Form form);

  verbs::QueuePair& qp_;
  SendWindow& window_;
  BufferPool& pool_;
  RpcRdmaStats& stats_;
  uint32_t credits_;
  uint32_t send_bytes_max_;
  std::vector<uint32_t> serving_;  // XIDs of calls received whose answer has not been sent
  Ring<ReverseCall> calls_;        // to be polled
  Ring<Answer> answers_;           // to be sent
};

}  // namespace cw::rpcrdma
