// What the queue pairs of one core share.
#pragma once

#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "base/intrusive_list.h"
#include "rnic/rnic_host.h"
#include "verbs/completion.h"

namespace cw::rnic {

class RnicQueuePair;
struct ReadyTag {};
struct PostTag {};

struct RnicWorkStats {
  uint64_t work_requests = 0;  // of send queues, given to devices
  uint64_t posts = 0;          // calls that gave them, each a chain
  uint64_t receives = 0;       // given to devices
  uint64_t payload_bytes_in = 0;
  uint64_t payload_bytes_out = 0;
  std::array<uint64_t, verbs::kWcStatusCount> completions{};  // by status
  uint64_t stale_completions = 0;                             // of queue pairs that are gone
  uint64_t out_of_buffers = 0;                                // times that a queue pair waited for a buffer of the pool
  uint64_t pullups = 0;                                       // SENDs of more pieces than the device takes, copied together
};

struct RnicCore {
  RnicCore(RnicHost& rdma_core, BufferPool& buffers) : host(rdma_core), pool(buffers) {}

  RnicHost& host;
  BufferPool& pool;
  IntrusiveList<RnicQueuePair, ReadyTag> ready;   // have completions, or failed
  IntrusiveList<RnicQueuePair, PostTag> to_post;  // have something for the device
  RnicWorkStats stats;
};

}  // namespace cw::rnic
