#include "dataplane/heap_pools.h"

#include "control/config/buffer_plan.h"

namespace cw::dataplane {

// Views are few bytes: each pool has as many as both together need.
HeapPools::HeapPools(const control::PoolSizes& sizes)
    : packets_(sizes.packet_buffers, control::kHeapPacketBytes, sizes.views),
      large_(sizes.large_buffers, control::kLargeBufferBytes, sizes.views) {}

BufferPools::Usage HeapPools::view_usage() const {
  const HeapBufferPool::Usage of_packets = packets_.view_usage();
  const HeapBufferPool::Usage of_large = large_.view_usage();
  return {of_packets.available + of_large.available, of_packets.size + of_large.size, of_packets.refused + of_large.refused};
}

}  // namespace cw::dataplane
