// One work request of an RDMAP stream, from post to completion: a node of a slab that all streams of a core share. A posted SEND,
// WRITE or READ and the message being received are Works, and a Work that waits to be polled is the completion. An idle stream
// owns none.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/time.h"
#include "iwarp/wire/opcode.h"
#include "verbs/completion.h"
#include "verbs/ids.h"

namespace cw::iwarp {

enum class WorkKind : uint8_t { kSend, kWrite, kRead, kReceive, kReadResponse };

struct Work {
  Work* next = nullptr;
  verbs::WorkId id;
  // kSend, kWrite: what is sent. kRead, kReceive: what has arrived so far.
  Chain payload;
  uint64_t remote_address = 0;  // kWrite, kRead: at the peer. kReadResponse: the sink's tagged offset
  uint64_t local_address = 0;   // kReadResponse: of the registered memory that is read
  uint64_t end_position = 0;    // once all of it was made into FPDUs: how many bytes the stream has then
  Instant begun_at;             // kReceive: when its first segment arrived
  uint32_t length = 0;          // bytes of the whole message (kReceive: so far)
  verbs::Rkey rkey;             // the peer's memory; kSend, kReceive: what is invalidated; kReadResponse: the sink's
  verbs::Rkey local_key;        // kRead: our sink's tag. kReadResponse: the registered memory that is read
  WorkKind kind = WorkKind::kSend;
  Opcode opcode = Opcode::kSend;
  verbs::WcStatus status = verbs::WcStatus::kSuccess;
  bool fence = false;
  bool signaled = true;
  bool done = false;  // completes when all before it have

  [[nodiscard]] bool invalidates() const { return iwarp::invalidates(opcode); }
};

// First-in first-out queue of Works; does not own its nodes' storage.
class WorkQueue {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] Work* front() const { return head_; }
  void push(Work* work) {
    CW_DASSERT(work->next == nullptr);
    if (head_ == nullptr) {
      head_ = work;
    } else {
      tail_->next = work;
    }
    tail_ = work;
  }
  // nullptr when empty.
  [[nodiscard]] Work* pop() {
    Work* work = head_;
    if (work != nullptr) {
      head_ = std::exchange(work->next, nullptr);
    }
    return work;
  }

 private:
  Work* head_ = nullptr;
  Work* tail_ = nullptr;
};

}  // namespace cw::iwarp
