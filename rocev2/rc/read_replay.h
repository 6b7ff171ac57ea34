// Inbound RDMA READs and atomics (the standard's responder resources): the last few that were accepted, and those whose responses
// are still to be sent, in order. A READ whose responses were lost is answered again without having kept the bytes: memory is
// read anew (IBA 9.7.5.1.2). An atomic was executed when it arrived and must not be again: its result is kept here and repeated.
// Only where memory is exposed.
//
// Bounds: kHistory accepted requests are remembered (older ones cannot be outstanding at a peer that keeps to its depth), as many
// answers may be waiting, with repetitions kJobs. A job names its request; only the one being answered has a state of its own.
// Nothing is allocated; a full job list refuses.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"
#include "rocev2/wire/reth.h"
#include "verbs/ids.h"

namespace cw::rc {

enum class ReadJobKind : uint8_t { kRead, kCompareSwap, kFetchAdd };

// An accepted READ, or an atomic that has been executed.
struct AcceptedRead {
  wire::Psn first_psn;
  verbs::Rkey rkey;
  uint64_t address = 0;
  uint64_t original = 0;  // atomics: the answer
  uint32_t bytes = 0;     // READ
  uint32_t msn = 0;       // that the acknowledging response packets carry
  ReadJobKind kind = ReadJobKind::kRead;
};

// What is left to answer of one of them.
struct ReadJob {
  wire::Psn next_psn;      // of the next response packet
  uint32_t bytes_in = 0;   // bytes of it that have been sent or were not asked for again
  uint32_t bytes_end = 0;  // where the answer ends: all of it, or the part that was asked for again
  bool started = false;    // its first response has been sent
  bool repeated = false;   // answered before: the peer may have had all it wanted, and its owner may have withdrawn the memory
};

class ReadReplay {
 public:
  static constexpr uint32_t kHistory = 16;
  static constexpr uint32_t kJobs = 24;

  [[nodiscard]] bool idle() const { return job_count_ == 0; }
  // No room for another request; for a repetition there may be.
  [[nodiscard]] bool full() const { return job_count_ >= kHistory; }
  // Precondition: !full(). Remembers the request and queues its answer.
  void accept(const AcceptedRead& read);
  // A READ request whose PSN lies before the expected one: queues the answer again when it repeats a remembered READ, the rest of
  // one, or some of its responses. False when it does not match any, or the job list is full: to be ignored.
  [[nodiscard]] bool replay(wire::Psn psn, const wire::Reth& reth, uint32_t mtu_bytes);
  // The same for an atomic, which must name the same operation on the same memory.
  [[nodiscard]] bool replay_atomic(wire::Psn psn, wire::Opcode opcode, const wire::AtomicEth& atomic);
  // Answers leave.
  void note_answering(Instant now) { answered_at_ = now; }
  // When the last ones left; 0: none yet.
  [[nodiscard]] Instant answered_at() const { return answered_at_; }
  // What is to be answered next, and how far that has come. Precondition: !idle().
  [[nodiscard]] const AcceptedRead& request() const { return request_; }
  [[nodiscard]] ReadJob& current() { return current_; }
  // The current job is answered. Precondition: !idle().
  void finish_current();
  void clear() {
    job_count_ = 0;
    remembered_ = 0;
  }

 private:
  struct QueuedJob {
    wire::Psn next_psn;
    uint32_t bytes_in = 0;
    uint32_t bytes_end = 0;
    uint16_t request = 0;  // accepted_ when it came
    bool repeated = false;
  };

  void queue(const QueuedJob& job);
  // Makes the head of the jobs current. One whose request has been forgotten meanwhile is passed over: its peer asked again for
  // something that it then took for answered.
  void begin_head();
  void pop();

  std::array<AcceptedRead, kHistory> history_{};
  std::array<QueuedJob, kJobs> jobs_{};
  AcceptedRead request_;  // that current_ answers; a copy, because a peer may have it forgotten while it is being answered
  ReadJob current_;
  Instant answered_at_;
  uint16_t accepted_ = 0;  // so far, modulo 2^16; the next goes to history_[accepted_ % kHistory]
  uint8_t remembered_ = 0;
  uint8_t job_head_ = 0;
  uint8_t job_count_ = 0;
};

}  // namespace cw::rc
