// One work request, from post to completion: a node of a slab that the whole endpoint shares, linked into at most one queue of
// one queue pair. A posted SEND, WRITE, READ or atomic and the message being received are all Works, and a Work waiting to be
// polled *is* the completion: nothing is copied from queue to queue. An idle queue pair owns none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/time.h"
#include "rocev2/wire/psn.h"
#include "verbs/completion.h"
#include "verbs/ids.h"

namespace cw::rc {

enum class WorkKind : uint8_t { kSend, kWrite, kRead, kCompareSwap, kFetchAdd, kReceive };

struct Work {
  Work* next = nullptr;
  verbs::WorkId id;
  // kSend, kWrite: what is sent. kRead, kReceive: what has arrived so far.
  Chain payload;
  uint64_t remote_address = 0;  // kWrite, kRead, atomics
  uint64_t operand = 0;         // atomics: what to store or add
  uint64_t compare = 0;         // kCompareSwap
  uint64_t original = 0;        // atomics, once answered: what the memory held before
  Instant begun_at;             // kReceive: when its first packet arrived
  uint32_t length = 0;          // bytes of the whole message (kReceive: so far)
  uint32_t packets = 0;         // PSNs that it uses; at least 1
  wire::Psn first_psn;          // valid when begun
  wire::Psn ssn;                // sends: number of its last message, from 1; the peer's MSN when it is done
  verbs::Rkey rkey;  // kWrite, kRead, atomics: the peer's memory; kSend: what the peer shall invalidate; kReceive: what we did
  uint32_t immediate = 0;
  WorkKind kind = WorkKind::kSend;
  verbs::WcStatus status = verbs::WcStatus::kSuccess;
  bool begun = false;  // its first packet has been sent: first_psn is fixed
  bool has_immediate = false;
  bool has_invalidate = false;
  bool solicited = false;
  bool fence = false;
  bool signaled = true;
  bool plain = false;            // kSend with nothing but payload, and no fence; kReceive in one Buffer, with nothing else to say
  bool write_immediate = false;  // kReceive: announced by a WRITE with Immediate

  // READ and atomics: complete by a response of their own, not by an acknowledgement, and count against the initiator depth.
  [[nodiscard]] bool awaits_response() const {
    return kind == WorkKind::kRead || kind == WorkKind::kCompareSwap || kind == WorkKind::kFetchAdd;
  }
  // READ: the responses that are asked for together with number `index`, by one READ request: from begin on, before end. Each
  // request is a message to the peer, of `request_packets` responses (a power of two) or what is left. An atomic is one request.
  [[nodiscard]] static uint32_t request_begin(uint32_t index, uint32_t request_packets) { return index & ~(request_packets - 1); }
  [[nodiscard]] uint32_t request_end(uint32_t index, uint32_t request_packets) const {
    return std::min(request_begin(index, request_packets) + request_packets, packets);
  }
  // Requests that responses [begin, end) belong to.
  [[nodiscard]] static uint32_t requests_of(uint32_t begin, uint32_t end, uint32_t request_packets) {
    return (end + request_packets - 1) / request_packets - begin / request_packets;
  }
};

// First-in first-out queue of Works; does not own its nodes' storage. Works in it are linked in a ring.
class WorkQueue {
 public:
  [[nodiscard]] bool empty() const { return last_ == nullptr; }
  [[nodiscard]] Work* front() const { return last_ == nullptr ? nullptr : last_->next; }
  void push(Work* work) {
    CW_DASSERT(work->next == nullptr);
    work->next = last_ == nullptr ? work : std::exchange(last_->next, work);
    last_ = work;
  }
  // nullptr when empty.
  [[nodiscard]] Work* pop() {
    Work* work = front();
    if (work != nullptr) {
      last_->next = work->next;
      last_ = work == last_ ? nullptr : last_;
      work->next = nullptr;
    }
    return work;
  }

 private:
  Work* last_ = nullptr;
};

}  // namespace cw::rc
