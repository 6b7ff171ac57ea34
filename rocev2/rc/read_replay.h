// Inbound RDMA READs and atomics (the standard's responder resources): those whose responses are still to be sent, in order, and
// the last few that were accepted. A READ whose responses were lost is answered again without having kept the octets: memory is
// read anew (IBA 9.7.5.1.2). An atomic was executed when it arrived and must not be again: its result is kept here and repeated.
// Only where memory is exposed.
//
// Bounds: kHistory accepted requests are remembered (older ones cannot be outstanding at a peer that keeps to its depth), kJobs
// responses may be waiting. Nothing is allocated; a full job list refuses.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/verbs/ids.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"
#include "rocev2/wire/reth.h"

namespace cw::rc {

enum class ReadJobKind : uint8_t { kRead, kCompareSwap, kFetchAdd };

// A READ, or the rest of one; or an atomic, executed.
struct ReadJob {
  wire::Psn first_psn;  // of the next response packet
  uint32_t packets_left = 0;
  uint64_t address = 0;  // of the next octet
  verbs::Rkey rkey;
  uint32_t bytes_left = 0;
  uint32_t msn = 0;       // that the acknowledging response packets carry
  bool started = false;   // its first response has been sent
  bool repeated = false;  // answered before: the peer may have had all it wanted, and its owner may have withdrawn the memory
  ReadJobKind kind = ReadJobKind::kRead;
  uint64_t original = 0;  // atomics: the answer
};

class ReadReplay {
 public:
  static constexpr uint32_t kHistory = 16;
  static constexpr uint32_t kJobs = 16;

  [[nodiscard]] bool idle() const { return job_count_ == 0; }
  [[nodiscard]] bool full() const { return job_count_ == kJobs; }
  // Precondition: !full(). Remembers the request and queues its answer.
  void accept(const ReadJob& read);
  // A READ request whose PSN lies before the expected one: queues the answer again when it repeats a remembered READ, or the rest
  // of one. False when it does not match any, or the job list is full: to be ignored.
  [[nodiscard]] bool replay(wire::Psn psn, const wire::Reth& reth, uint32_t mtu_bytes);
  // The same for an atomic, which must name the same operation on the same memory.
  [[nodiscard]] bool replay_atomic(wire::Psn psn, wire::Opcode opcode, const wire::AtomicEth& atomic);
  // The job whose responses go next. Precondition: !idle().
  [[nodiscard]] ReadJob& current() { return jobs_[job_head_]; }
  // The current job is answered. Precondition: !idle().
  void finish_current();
  void clear() {
    job_count_ = 0;
    history_count_ = 0;
  }

 private:
  void queue(const ReadJob& job);
  // The `age`-th latest of the remembered requests, 0 for the last. The latest first, because PSNs come round: of two requests
  // with one PSN only the later can be what the peer repeats.
  [[nodiscard]] const ReadJob& remembered(uint32_t age) const {
    return history_[(history_next_ + kHistory - 1 - age) % kHistory];
  }

  std::array<ReadJob, kJobs> jobs_{};
  std::array<ReadJob, kHistory> history_{};
  uint8_t job_head_ = 0;
  uint8_t job_count_ = 0;
  uint8_t history_next_ = 0;
  uint8_t history_count_ = 0;
};

}  // namespace cw::rc
