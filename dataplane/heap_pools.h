// The buffers of a gateway without ports: ordinary memory, which the kernel gives when it is first used.
#pragma once

#include "base/heap_buffer_pool.h"
#include "control/config/memory_plan.h"
#include "dataplane/buffer_pools.h"

namespace cw::dataplane {

class HeapPools final : public BufferPools {
 public:
  // Of as many buffers as the same sizes would give mbufs; packet buffers are of control::kHeapPacketBytes.
  explicit HeapPools(const control::PoolSizes& sizes);

  [[nodiscard]] BufferPool& packets() override { return packets_; }
  [[nodiscard]] BufferPool& large() override { return large_; }
  // TCP receives when its reader wants to: there is nothing to drop.
  [[nodiscard]] BufferWatermark packet_watermark() const override { return BufferWatermark::kPlenty; }
  void note_packets_short() override {}
  [[nodiscard]] std::vector<MutableBytes> memory() const override { return {packets_.storage(), large_.storage()}; }
  [[nodiscard]] Usage packet_usage() const override { return usage(packets_.buffer_usage()); }
  [[nodiscard]] Usage large_usage() const override { return usage(large_.buffer_usage()); }
  [[nodiscard]] Usage view_usage() const override;

 private:
  [[nodiscard]] static Usage usage(const HeapBufferPool::Usage& of) { return {of.available, of.size, of.refused}; }

  HeapBufferPool packets_;
  HeapBufferPool large_;
};

}  // namespace cw::dataplane
