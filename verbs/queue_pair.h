// The interface that rpcrdma/ sees of a transport: one reliable connection. rocev2/rc implements it, as do iwarp/stream and rnic/
// (rdma-core). All calls are made on the owning core; none calls back. Virtual calls happen per message, never per packet.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "verbs/completion.h"
#include "verbs/ids.h"
#include "verbs/work_request.h"

namespace cw::verbs {

// See QueuePair::poll_messages.
struct ReceivedMessage {
  Buffer* payload = nullptr;  // all of it, unlinked; the holder's
  Instant begun;              // Completion::begun
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;

  // Each post is accepted whole (and takes the payload) or refused: kBadState when the queue pair is in Error or not connected,
  // kNoResources when the send queue is full (the payload stays with the caller). Work executes in the order posted.
  [[nodiscard]] virtual Status post_send(SendRequest&& request) = 0;
  [[nodiscard]] virtual Status post_write(WriteRequest&& request) = 0;
  [[nodiscard]] virtual Status post_read(ReadRequest&& request) = 0;
  // kUnsupported where the transport has no atomic operations or the peer takes none.
  [[nodiscard]] virtual Status post_atomic(const AtomicRequest& request) = 0;
  // Allows `count` more messages from the peer, each up to the receive size that the queue pair was created with. There is no
  // buffer to hand over: a message arrives in the packet buffers that carried it.
  virtual void post_receives(uint32_t count) = 0;
  // Takes the oldest completion. False when there is none. Receive completions come in the order of the peer's sends.
  [[nodiscard]] virtual bool poll_completion(Completion& out) = 0;
  // Takes the oldest completions as long as they are of messages of one Buffer about which there is nothing more to say: for
  // each, one call of poll_completion() would have given it with kReceive and kSuccess. Says how many; 0 also where a transport
  // does not tell them apart.
  [[nodiscard]] virtual uint32_t poll_messages(std::span<ReceivedMessage> /*out*/) { return 0; }
  // As post_receives(1) and post_send() for one after the other, up to the first that is refused. Says how many SENDs were posted
  // and takes their payloads.
  [[nodiscard]] virtual uint32_t post_receives_and_sends(std::span<PlainSend> sends) {
    uint32_t posted = 0;
    for (const PlainSend& send : sends) {
      post_receives(1);
      SendRequest request{.id = send.id, .payload = Chain(), .signaled = send.signaled};
      request.payload.push_back(send.payload);
      if (!post_send(std::move(request)).ok()) {
        (void)request.payload.detach();  // NOLINT(bugprone-use-after-move): what is refused is not taken
        break;
      }
      ++posted;
    }
    return posted;
  }
  // Work requests that can be posted before kNoResources.
  // No room does not mean that the own queue is full: a transport may share what a work request takes with its other queue pairs.
  // Then no completion tells when there is room again.
  [[nodiscard]] virtual uint32_t send_queue_room() const = 0;
  // Work requests posted and not yet done, signaled or not: neither acknowledged nor answered nor flushed.
  [[nodiscard]] virtual uint32_t works_pending() const = 0;
  // True from the moment the queue pair fails or is closed; pending work has been or will be flushed as completions.
  [[nodiscard]] virtual bool in_error() const = 0;
  // Moves to Error by our own wish: flushes, takes nothing more from the peer. Nothing happens when it is in Error already.
  virtual void close() = 0;
};

}  // namespace cw::verbs
