// What the streams of one core share.
#pragma once

#include <array>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/random.h"
#include "base/slab.h"
#include "iwarp/stream/byte_input.h"
#include "iwarp/stream/send_batch.h"
#include "iwarp/stream/work.h"
#include "iwarp/wire/terminate.h"
#include "verbs/memory_region.h"

namespace cw::iwarp {

class RdmapStream;
struct ReadyTag {};
struct SendableTag {};

struct StreamStats {
  uint64_t fpdus_received = 0;
  uint64_t fpdus_sent = 0;
  uint64_t bytes_received = 0;  // of FPDUs, whole
  uint64_t bytes_sent = 0;
  uint64_t crc_errors = 0;
  uint64_t payload_bytes_copied = 0;                             // of short segments, which would each hold a whole buffer
  std::array<uint64_t, kTerminateCauseCount> terminates_sent{};  // by index_of() their cause
  std::array<uint64_t, kTerminateCauseCount> terminates_received{};
  uint64_t out_of_buffers = 0;  // times that a stream waited for a buffer of the pool
};

struct StreamLimits {
  uint32_t streams_max = 64;
  uint32_t send_work_max = 4096;     // SENDs, WRITEs, READs and READ responses, posted and not polled
  uint32_t receive_work_max = 4096;  // messages received or being received, and not polled
};

struct StreamCore {
  // `memory`: what peers of the active side may read and write; nullptr exposes nothing.
  StreamCore(const StreamLimits& limits, BufferPool& pool, RandomSource& random_source, verbs::MemoryTable* memory_table)
      : spares(pool),
        sends(limits.send_work_max),
        receives(limits.receive_work_max),
        batches(limits.streams_max),
        random(random_source),
        memory(memory_table) {}

  SpareBuffers spares;
  Slab<Work> sends;
  Slab<Work> receives;
  Slab<SendBatch> batches;
  RandomSource& random;
  verbs::MemoryTable* memory;
  IntrusiveList<RdmapStream, ReadyTag> ready;        // have completions, or failed
  IntrusiveList<RdmapStream, SendableTag> sendable;  // have something to send
  StreamStats stats;
};

}  // namespace cw::iwarp
