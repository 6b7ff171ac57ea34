#include "rocev2/rc/read_replay.h"

#include <algorithm>

#include "base/assert.h"

namespace cw::rc {

void ReadReplay::accept(const AcceptedRead& read) {
  CW_DASSERT(!full());
  history_[accepted_ % kHistory] = read;
  queue({.next_psn = read.first_psn, .bytes_end = read.bytes, .request = accepted_++});
  remembered_ = static_cast<uint8_t>(std::min<uint32_t>(remembered_ + 1u, kHistory));
}

// Both look at the latest request first, because PSNs come round: of two with one PSN only the later can be what the peer
// repeats.
bool ReadReplay::replay(wire::Psn psn, const wire::Reth& reth, uint32_t mtu_bytes) {
  if (job_count_ == kJobs) {
    return false;
  }
  for (uint32_t age = 1; age <= remembered_; ++age) {
    const auto request = static_cast<uint16_t>(accepted_ - age);
    const AcceptedRead& read = history_[request % kHistory];
    const int32_t packets_in = read.first_psn.distance_to(psn);
    if (read.kind != ReadJobKind::kRead || packets_in < 0) {
      continue;
    }
    const uint64_t bytes_in = uint64_t{static_cast<uint32_t>(packets_in)} * mtu_bytes;
    const bool inside = packets_in == 0 || bytes_in < read.bytes;
    // It may ask for a part, but not for anything that the first one did not name (IBA 9.7.5.1.2), nor for part of
    // a response.
    if (!inside || reth.rkey != read.rkey || reth.address != read.address + bytes_in || reth.length > read.bytes - bytes_in) {
      continue;
    }
    const bool to_the_end = reth.length == read.bytes - bytes_in;
    if (!to_the_end && (reth.length == 0 || reth.length % mtu_bytes != 0)) {
      continue;
    }
    const auto begin = static_cast<uint32_t>(bytes_in);
    queue({.next_psn = psn, .bytes_in = begin, .bytes_end = begin + reth.length, .request = request, .repeated = true});
    return true;
  }
  return false;
}

bool ReadReplay::replay_atomic(wire::Psn psn, wire::Opcode opcode, const wire::AtomicEth& atomic) {
  if (job_count_ == kJobs) {
    return false;
  }
  const ReadJobKind kind = opcode == wire::Opcode::kRcCompareSwap ? ReadJobKind::kCompareSwap : ReadJobKind::kFetchAdd;
  for (uint32_t age = 1; age <= remembered_; ++age) {
    const auto request = static_cast<uint16_t>(accepted_ - age);
    const AcceptedRead& done = history_[request % kHistory];
    if (done.first_psn == psn && done.kind == kind && done.rkey == atomic.rkey && done.address == atomic.address) {
      queue({.next_psn = psn, .request = request, .repeated = true});
      return true;
    }
  }
  return false;
}

void ReadReplay::finish_current() {
  CW_DASSERT(!idle());
  pop();
  begin_head();
}

void ReadReplay::queue(const QueuedJob& job) {
  jobs_[(job_head_ + job_count_) % kJobs] = job;
  if (++job_count_ == 1) {
    begin_head();
  }
}

void ReadReplay::begin_head() {
  while (job_count_ > 0) {
    const QueuedJob& job = jobs_[job_head_];
    if (static_cast<uint16_t>(accepted_ - job.request) <= kHistory) {
      request_ = history_[job.request % kHistory];
      current_ =
          ReadJob{.next_psn = job.next_psn, .bytes_in = job.bytes_in, .bytes_end = job.bytes_end, .repeated = job.repeated};
      return;
    }
    pop();
  }
}

void ReadReplay::pop() {
  job_head_ = static_cast<uint8_t>((job_head_ + 1) % kJobs);
  --job_count_;
}

}  // namespace cw::rc
