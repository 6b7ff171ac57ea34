#include "rocev2/rc/read_replay.h"

#include "rocev2/base/assert.h"

namespace cw::rc {

void ReadReplay::accept(const ReadJob& read) {
  CW_DASSERT(!full());
  history_[history_next_] = read;
  history_next_ = static_cast<uint8_t>((history_next_ + 1) % kHistory);
  if (history_count_ < kHistory) {
    ++history_count_;
  }
  queue(read);
}

bool ReadReplay::replay(wire::Psn psn, const wire::Reth& reth, uint32_t mtu_bytes) {
  if (full()) {
    return false;
  }
  for (uint32_t i = 0; i < history_count_; ++i) {
    const ReadJob& read = remembered(i);
    const int32_t packets_in = read.first_psn.distance_to(psn);
    if (read.kind != ReadJobKind::kRead || packets_in < 0 || static_cast<uint32_t>(packets_in) >= read.packets_left) {
      continue;
    }
    // The repeated request may ask for the rest only, but not for anything that the first one did not name (IBA 9.7.5.1.2).
    const uint64_t bytes_in = uint64_t{static_cast<uint32_t>(packets_in)} * mtu_bytes;
    if (reth.rkey != read.rkey || reth.address != read.address + bytes_in || reth.length != read.bytes_left - bytes_in) {
      continue;
    }
    ReadJob again = read;
    again.first_psn = psn;
    again.packets_left = read.packets_left - static_cast<uint32_t>(packets_in);
    again.address = reth.address;
    again.bytes_left = reth.length;
    again.repeated = true;
    queue(again);
    return true;
  }
  return false;
}

bool ReadReplay::replay_atomic(wire::Psn psn, wire::Opcode opcode, const wire::AtomicEth& atomic) {
  if (full()) {
    return false;
  }
  const ReadJobKind kind = opcode == wire::Opcode::kRcCompareSwap ? ReadJobKind::kCompareSwap : ReadJobKind::kFetchAdd;
  for (uint32_t i = 0; i < history_count_; ++i) {
    const ReadJob& done = remembered(i);
    if (done.first_psn == psn && done.kind == kind && done.rkey == atomic.rkey && done.address == atomic.address) {
      queue(done);
      return true;
    }
  }
  return false;
}

void ReadReplay::finish_current() {
  CW_DASSERT(!idle());
  job_head_ = static_cast<uint8_t>((job_head_ + 1) % kJobs);
  --job_count_;
}

void ReadReplay::queue(const ReadJob& job) {
  jobs_[(job_head_ + job_count_) % kJobs] = job;
  ++job_count_;
}

}  // namespace cw::rc
