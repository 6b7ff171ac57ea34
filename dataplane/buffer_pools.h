// The buffers of a process: mbufs where there are DPDK ports, else the heap. Any thread may take and give back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/buffer_watermark.h"

namespace cw::dataplane {

class BufferPools {
 public:
  struct Usage {
    uint32_t available = 0;
    uint32_t size = 0;
    // Allocations that found too little, and bursts received while there was too little; not allocations of a device's driver.
    uint64_t refused = 0;
  };

  virtual ~BufferPools() = default;
  // What is received, headers, short replies.
  [[nodiscard]] virtual BufferPool& packets() = 0;
  // Replies of backends: control::kLargeBufferBytes each.
  [[nodiscard]] virtual BufferPool& large() = 0;
  // Whether a core may receive as it likes; cheap.
  [[nodiscard]] virtual BufferWatermark packet_watermark() const = 0;
  // Frames came and were not all taken because of that.
  virtual void note_packets_short() = 0;

  // What the buffers of both pools lie in, in as few pieces as it has: for a device that wants to know it beforehand.
  [[nodiscard]] virtual std::vector<MutableBytes> memory() const = 0;

  [[nodiscard]] virtual Usage packet_usage() const = 0;
  [[nodiscard]] virtual Usage large_usage() const = 0;
  [[nodiscard]] virtual Usage view_usage() const = 0;
};

}  // namespace cw::dataplane
