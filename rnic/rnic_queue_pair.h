// A queue pair of an RNIC. What is posted in a turn is collected, and given to the device as one chain at the turn's end; the
// last of a chain is signaled, so that whatever was posted is known to be done soon, at a completion for each chain and not for
// each work.
//
//   posted by the owner -> post_pending() -> device -> on_completion() -> polled by the owner
//
// A work may take several work requests: payload in more pieces than the device takes at a time. Works are done in the order
// posted; a completion tells that SENDs and WRITEs before it are done too. It tells nothing of READs: each has a completion of
// its own, and siw gives that of a SEND behind it first. The device has its own limit of READs in flight and holds back what is
// beyond it, with what is behind it, so nothing is counted here.
//
// Whether an idle peer is there is asked by a work that moves nothing (ask_peer()). It has a place of its own beside those of the
// owner, who sees nothing of it. No key is checked for a length of zero (IBTA C9-88, RFC 5040 5.2.1), so it needs none of the
// peer's. A WRITE asks; where a WRITE is done as soon as TCP has it, a READ.
//
// Buffers that the device has are the queue pair's until the device gives them back, or the host has destroyed its queue pair.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/intrusive_list.h"
#include "base/ring.h"
#include "base/time.h"
#include "rnic/rnic_core.h"
#include "rnic/rnic_error.h"
#include "rnic/rnic_host.h"
#include "verbs/queue_pair.h"

namespace cw::rnic {

struct RnicQueuePairOptions {
  RnicId id;
  uint32_t slot = 0;                  // the owner's own word
  uint32_t receive_bytes_max = 4096;  // longest SEND that is taken
  uint32_t send_queue_depth = 256;    // works posted and not polled
  uint16_t reads_max = 0;             // 0: no READs
  QueuePairMade made;
};

// What a work request's id says when it comes back.
struct WorkTag {
  uint32_t slot = 0;        // of the connection
  uint32_t generation = 0;  // of that slot: completions of an earlier one are stale
  bool is_receive = false;
  bool is_last = true;  // of its work
  uint32_t index = 0;   // of the work, or the receive

  static constexpr uint32_t kIndexBits = 20;
  static constexpr uint32_t kSlotBits = 20;
  static constexpr uint32_t kGenerationBits = 22;
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;

  [[nodiscard]] constexpr uint64_t pack() const {
    return uint64_t{is_receive} << 63 | uint64_t{is_last} << 62 |
           uint64_t{generation & ((1u << kGenerationBits) - 1)} << (kIndexBits + kSlotBits) | uint64_t{slot} << kIndexBits |
           (index & kIndexMask);
  }
  [[nodiscard]] static constexpr WorkTag of(uint64_t id) {
    return {.slot = static_cast<uint32_t>(id >> kIndexBits) & ((1u << kSlotBits) - 1),
            .generation = static_cast<uint32_t>(id >> (kIndexBits + kSlotBits)) & ((1u << kGenerationBits) - 1),
            .is_receive = (id >> 63) != 0,
            .is_last = (id >> 62 & 1) != 0,
            .index = static_cast<uint32_t>(id) & kIndexMask};
  }
};

class RnicQueuePair final : public verbs::QueuePair, public ListNode<ReadyTag>, public ListNode<PostTag> {
 public:
  RnicQueuePair(const RnicQueuePairOptions& options, RnicCore& core);
  // Precondition: the device has nothing of it any more: on_destroyed().
  ~RnicQueuePair() override;
  RnicQueuePair(const RnicQueuePair&) = delete;
  RnicQueuePair& operator=(const RnicQueuePair&) = delete;

  [[nodiscard]] Status post_send(verbs::SendRequest&& request) override;
  [[nodiscard]] Status post_write(verbs::WriteRequest&& request) override;
  [[nodiscard]] Status post_read(verbs::ReadRequest&& request) override;
  [[nodiscard]] Status post_atomic(const verbs::AtomicRequest& request) override;
  void post_receives(uint32_t count) override;
  [[nodiscard]] bool poll_completion(verbs::Completion& out) override;
  [[nodiscard]] uint32_t send_queue_room() const override;
  [[nodiscard]] uint32_t works_pending() const override { return static_cast<uint32_t>(tail_ - done_) - (is_asking() ? 1 : 0); }
  [[nodiscard]] bool in_error() const override { return error_.any(); }
  void close() override { fail({.cause = RnicErrorCause::kClosed}); }

  // Active side, before the owner has it: receives that the peer's first messages find. The owner's own count against them.
  void post_in_advance(uint32_t receives);
  // READs that the peer answers at a time, known with its answer.
  void set_reads_max(uint16_t reads_max) { options_.reads_max = reads_max; }
  // The owner has it from here on: what has come before is news.
  void tell_again();
  // Gives the device what it has room for. False: the pool has no buffers, call again later.
  [[nodiscard]] bool post_pending();
  void on_completion(Instant now, const WorkTag& tag, const WorkDone& done);
  // Moves to Error, and has the device flush what it has. Nothing happens when it is in Error already.
  void fail(const RnicError& error);
  // The device has no queue pair for it any more: what it had comes back, flushed.
  void on_destroyed();
  // Work was flushed, and why is not known yet.
  [[nodiscard]] bool is_flushing() const { return is_flushing_; }
  [[nodiscard]] bool heard_peer() const { return heard_peer_; }
  // Asks the peer whether it is there. False: something is under way whose end tells, or nothing can be asked any more.
  [[nodiscard]] bool ask_peer();
  [[nodiscard]] bool is_asking() const { return question_ >= done_ && question_ < tail_; }
  // When a completion said last that the peer is there.
  [[nodiscard]] Instant heard_at() const { return heard_at_; }

  [[nodiscard]] const RnicError& error() const { return error_; }
  [[nodiscard]] const RnicQueuePairOptions& options() const { return options_; }
  [[nodiscard]] uint32_t receives_posted() const { return receives_out_; }
  [[nodiscard]] uint32_t receives_owed() const { return receives_owed_; }
  [[nodiscard]] uint32_t reads_outstanding() const { return reads_outstanding_; }
  [[nodiscard]] uint32_t requests_out() const { return requests_out_; }
  [[nodiscard]] uint64_t payload_bytes_in() const { return payload_bytes_in_; }
  [[nodiscard]] uint64_t payload_bytes_out() const { return payload_bytes_out_; }

 private:
  struct Work {
    verbs::WorkId id;
    Chain payload;
    uint64_t remote_address = 0;
    verbs::Rkey rkey;
    uint32_t length = 0;
    WorkVerb verb = WorkVerb::kSend;
    bool fence = false;
    bool signaled = true;
    bool solicited = false;
    bool is_question = false;  // of ask_peer()
    bool is_answered = false;  // a READ all of whose requests are done, well or not
    bool is_free = true;       // polled, or done and of no interest
    verbs::WcStatus status = verbs::WcStatus::kSuccess;
  };
  // A receive that the device has, or a message that is not polled.
  struct Receive {
    Chain payload;
    Instant begun;
    std::optional<verbs::Rkey> invalidated;
    std::optional<uint32_t> immediate;
    verbs::WcStatus status = verbs::WcStatus::kSuccess;
    bool is_out = false;  // the device has it
  };
  // How far the first work that is not posted whole has come.
  struct Cursor {
    const Buffer* buffer = nullptr;  // the next one
    uint32_t offset = 0;
    bool begun = false;
  };
  struct Batch;
  enum class Added : uint8_t { kRequest, kNoRoom, kNoBuffers };

  [[nodiscard]] Work& at(uint64_t index) { return works_[index % works_.size()]; }
  [[nodiscard]] Status admit(uint64_t bytes) const;
  [[nodiscard]] Work& enqueue();
  [[nodiscard]] bool has_question() const { return question_ >= head_ && question_ < tail_; }
  void want_to_post();
  [[nodiscard]] bool post_receives_owed();
  [[nodiscard]] bool submit_receives(std::span<const ReceiveWork> works);
  [[nodiscard]] bool post_sends_pending();
  [[nodiscard]] Added add_request(Batch& batch);
  [[nodiscard]] bool add_sinks(Batch& batch, Work& work);
  [[nodiscard]] bool pull_up(Work& work);
  void add_payload(Batch& batch, const Work& work);
  [[nodiscard]] WorkTag tag(uint64_t index, bool is_receive, bool is_last) const;
  [[nodiscard]] bool submit(Batch& batch);
  void take_receive(Instant now, uint32_t index, const WorkDone& done);
  void take_error(const WorkDone& done);
  void note_done(uint64_t index, bool is_last, verbs::WcStatus others);
  void complete_done();
  void free_done();
  // It has requests that no completion has been seen of; of the work that is posted next, some may be there already.
  [[nodiscard]] bool device_has_work() const { return done_ < next_ + (cursor_.begun ? 1 : 0); }
  void flush_rest();
  void flush_unposted();
  void note_ready();
  [[nodiscard]] uint32_t pieces_of_receive() const;

  RnicQueuePairOptions options_;
  RnicCore& core_;
  RnicError error_;
  bool is_destroyed_ = false;
  bool is_flushing_ = false;
  bool heard_peer_ = false;
  Instant heard_at_;

  // Works, oldest first: polled, done, given to the device, posted by the owner.
  std::vector<Work> works_;
  uint64_t head_ = 0;
  uint64_t done_ = 0;
  uint64_t moved_ = 0;  // SENDs and WRITEs before this one are done, whether READs before them are or not
  uint64_t next_ = 0;
  uint64_t tail_ = 0;
  uint64_t question_ = UINT64_MAX;  // the last work of ask_peer()
  Cursor cursor_;
  // Requests that each completion to come tells of. Where completions come in another order than requests, it is one each.
  Ring<uint32_t> signals_;
  uint32_t requests_out_ = 0;
  uint32_t requests_unsignaled_ = 0;
  uint32_t reads_outstanding_ = 0;

  std::vector<Receive> receives_;
  std::vector<uint32_t> free_receives_;
  uint32_t receives_out_ = 0;
  uint32_t receives_owed_ = 0;
  uint32_t receives_in_advance_ = 0;  // that the owner has not asked for yet

  static constexpr uint32_t kReceiveFlag = 1u << 31;
  Ring<uint32_t> completions_;  // a place in works_, or with the flag in receives_
  uint64_t payload_bytes_in_ = 0;
  uint64_t payload_bytes_out_ = 0;
};

}  // namespace cw::rnic
