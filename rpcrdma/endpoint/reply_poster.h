// Carries a reply plan out: RDMA Writes for what goes into chunks, then one SEND.
//
// The reply's Buffers are consumed from the front and handed to the queue pair; a Buffer astride a boundary is shared, nothing is
// copied except small rests that fit better into the header's own Buffer. When the send queue or a pool has no room the work
// stops where it is and goes on with the next call of post(): Writes of one reply may go out early, the SEND is always the last
// of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "rpcrdma/endpoint/rpcrdma_stats.h"
#include "rpcrdma/endpoint/send_window.h"
#include "rpcrdma/endpoint/server_call.h"
#include "rpcrdma/endpoint/stage_durations.h"
#include "verbs/queue_pair.h"

namespace cw::rpcrdma {

enum class PostResult : uint8_t {
  kPosted,    // the SEND is with the queue pair: the call has its answer
  kNoRoom,    // go on after a completion, or later when the queue itself is not full (SendWindow::is_full)
  kNoBuffer,  // go on when a pool has Buffers again
  kFailed,    // the queue pair refused: the connection is lost
};

// The handle of this call that its reply may invalidate (RFC 8797 4.1): of the first Write chunk that has segments, else of the
// Reply chunk, else of the Read list. Nothing when the call exposed no memory.
[[nodiscard]] std::optional<verbs::Rkey> handle_to_invalidate(const ChunkList& chunks);

// What the completion of a reply's SEND tells: the client has acknowledged it and the Writes before it.
struct Acknowledged {
  Stage stage = Stage::kReplyAck;
  Instant answered;  // the reply was complete
};
// In a SEND's work id. Others than ReplyPoster's own say nothing: work that is signaled to learn of room only.
[[nodiscard]] verbs::WorkId to_work_id(const Acknowledged& what);
[[nodiscard]] std::optional<Acknowledged> acknowledged_by(verbs::WorkId id);

class ReplyPoster {
 public:
  // Inline rests up to this that cannot take the header in front are copied behind it: cheaper to send than one more piece.
  static constexpr uint32_t kCopyBytesMax = 256;
  // Longer rests are copied only when their pieces are many and small on average.
  static constexpr uint32_t kPiecesMax = 8;
  static constexpr uint32_t kPieceBytesMin = 128;
  // Of replies without chunks one in so many is looked at: a completion of a small reply is a good part of its cost.
  static constexpr uint32_t kWatchEvery = 16;

  ReplyPoster(verbs::QueuePair& qp, SendWindow& window, BufferPool& pool, RpcRdmaStats& stats)
      : qp_(qp), window_(window), pool_(pool), stats_(stats) {}

  struct Grant {
    uint32_t credit = 1;       // what the reply says
    bool post_receive = true;  // false: the call's own credit goes, since the grant has been lowered
    bool signaled = false;     // a completion is wanted whatever the reply is
  };
  // Starts or continues `call`'s answer. The receive is posted before the SEND, so that the grant is backed when the client reads
  // it.
  [[nodiscard]] PostResult post(ServerCall& call, const Grant& grant, bool remote_invalidate);
  // The same in one step for an inline reply to a call without chunks, given at `answered`, whose one Buffer has room for the
  // header. False: the connection is lost. Precondition: `room` is the window's, and above 0.
  [[nodiscard]] bool post_plainly(uint32_t xid, Instant answered, Chain&& reply, uint32_t credit, uint32_t room);
  // The work id of a reply without chunks that was given at `answered`, behind so many messages with RDMA_MSG.
  [[nodiscard]] static verbs::WorkId watch_some(uint64_t posted, Instant answered) {
    return posted % kWatchEvery == kWatchEvery - 1 ? to_work_id({.stage = Stage::kReplyAck, .answered = answered})
                                                   : verbs::WorkId();
  }
  // The header of an inline reply to a call without chunks: kBareHeaderBytes.
  static void write_bare_header(MutableBytes out, uint32_t xid, uint32_t credit);

 private:
  [[nodiscard]] PostResult post_items(ServerCall& call);
  [[nodiscard]] PostResult post_chunk(ServerCall& call, const PlainChunk& chunk, Chain& from, ChunkKind kind);
  [[nodiscard]] PostResult post_send(ServerCall& call, const Grant& grant, bool remote_invalidate);
  [[nodiscard]] PostResult build_message(ServerCall& call, uint32_t credit, Chain& message);
  [[nodiscard]] static Result<uint32_t> write_header(const ServerCall& call, uint32_t credit, MutableBytes out);
  [[nodiscard]] verbs::WorkId watch(const ServerCall& call) const;
  [[nodiscard]] verbs::WorkId watch_some(Instant answered) const {
    return watch_some(stats_.messages_out[static_cast<size_t>(MessageKind::kMsg)], answered);
  }
  void count_sent(const ServerCall& call, bool invalidates);

  verbs::QueuePair& qp_;
  SendWindow& window_;
  BufferPool& pool_;
  RpcRdmaStats& stats_;
};

}  // namespace cw::rpcrdma
