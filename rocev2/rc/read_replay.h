// Inbound RDMA READs: those whose responses are still to be sent, in order, and the last few that were accepted, so that a READ
// whose responses were lost can be answered again without keeping the octets: memory is read anew (IBA 9.7.5.1.2). Client role
// only.
//
// Bounds: kHistory accepted READs are remembered (older ones cannot be outstanding at a peer that keeps to its depth), kJobs
// responses may be waiting. Nothing is allocated; a full job list refuses.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/verbs/ids.h"
#include "rocev2/wire/psn.h"
#include "rocev2/wire/reth.h"

namespace cw::rc {

// A READ, or the rest of one.
struct ReadJob {
  wire::Psn first_psn;  // of the next response packet
  uint32_t packets_left = 0;
  uint64_t address = 0;  // of the next octet
  verbs::Rkey rkey;
  uint32_t bytes_left = 0;
  uint32_t msn = 0;       // that the acknowledging response packets carry
  bool started = false;   // its first response has been sent
  bool repeated = false;  // answered before: the peer may have had all it wanted, and its owner may have withdrawn the memory
};

class ReadReplay {
 public:
  static constexpr uint32_t kHistory = 16;
  static constexpr uint32_t kJobs = 16;

  [[nodiscard]] bool idle() const { return job_count_ == 0; }
  [[nodiscard]] bool full() const { return job_count_ == kJobs; }
  // Precondition: !full(). Remembers the READ and queues its answer.
  void accept(const ReadJob& read);
  // A READ request whose PSN lies before the expected one: queues the answer again when it repeats a remembered READ, or the rest
  // of one. False when it does not match any, or the job list is full: to be ignored.
  [[nodiscard]] bool replay(wire::Psn psn, const wire::Reth& reth, uint32_t mtu_bytes);
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

  std::array<ReadJob, kJobs> jobs_{};
  std::array<ReadJob, kHistory> history_{};
  uint8_t job_head_ = 0;
  uint8_t job_count_ = 0;
  uint8_t history_next_ = 0;
  uint8_t history_count_ = 0;
};

}  // namespace cw::rc
