// The traffic of one perftest run with messages of one size: what one side posts and waits for on the data queue pairs.
//
//   send_bw     client: SENDs, `depth` in flight per queue pair   server: counts them; over iWARP it says how many, by WRITE
//   write_bw, read_bw, atomic_bw, read_lat, atomic_lat   client: as above, latency tests with one in flight   server: only waits
//   send_lat    SENDs back and forth; the client begins
//   write_lat   WRITEs back and forth, noticed by the last byte, which counts; the server begins
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "apps/nfs/pattern.h"
#include "base/buffer.h"
#include "base/time.h"
#include "tests/peers/perftest_plan.h"
#include "verbs/queue_pair.h"

namespace cw::peers {

// One data queue pair, and the memory at both ends of it.
struct PerftestLane {
  verbs::QueuePair* qp = nullptr;
  MutableBytes memory;     // ours, for the other side's WRITEs, READs and atomics
  verbs::Rkey remote_key;  // the other side's
  uint64_t remote_address = 0;
  uint64_t posted = 0;  // of this run
  uint64_t completed = 0;
  uint64_t received = 0;
  uint64_t receives_posted = 0;
  bool credit_due = false;  // the sender is to be told how much was received
};

class PerftestTraffic {
 public:
  virtual ~PerftestTraffic() = default;
  // What has to be ready before the other side begins.
  virtual void prepare() {}
  // Does what can be done now. True when all of the run is through.
  [[nodiscard]] virtual bool advance() = 0;
  // The other side has left: whether nothing of the run was missing but the acknowledgement of our last message.
  [[nodiscard]] virtual bool is_complete_but_for_acknowledgement() const { return false; }

  // Why it cannot go on; empty while it can.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 protected:
  // False, with failure() saying so, when the work request came to a bad end.
  [[nodiscard]] bool is_good(const verbs::Completion& done);
  // Whether a post was taken; a refusal that waiting does not cure is a failure.
  [[nodiscard]] bool was_taken(const Status& posted);
  void fail(std::string why) { failure_ = std::move(why); }

 private:
  std::string failure_;
};

// `lanes`, `source` and `pool` must outlive it. The lanes' counts are set to zero.
[[nodiscard]] std::unique_ptr<PerftestTraffic> make_perftest_traffic(const PerftestOptions& options, uint64_t message_bytes,
                                                                     std::span<PerftestLane> lanes, const PatternSource& source,
                                                                     BufferPool& pool);

}  // namespace cw::peers
