// A stage of the poll loop: tells the protocol stack when few packet buffers are left. Buffers go with frames and come back with
// anything, so while there are few, every turn looks.
#pragma once

#include "base/buffer_watermark.h"
#include "dataplane/buffer_pools.h"
#include "gateway/node/node.h"

namespace cw::dataplane {

class WatermarkWatch {
 public:
  WatermarkWatch(BufferPools& pools, node::Node& node) : pools_(pools), node_(node) {}

  // Once a turn, behind what was received.
  void look(bool received) {
    if (!received && watermark_ == BufferWatermark::kPlenty) {
      return;
    }
    const BufferWatermark before = watermark_;
    watermark_ = pools_.packet_watermark();
    if (watermark_ != before) [[unlikely]] {
      node_.endpoint().set_watermark(watermark_);
    }
    if (received && before != BufferWatermark::kPlenty) [[unlikely]] {
      pools_.note_packets_short();
    }
  }

 private:
  BufferPools& pools_;
  node::Node& node_;
  BufferWatermark watermark_ = BufferWatermark::kPlenty;
};

}  // namespace cw::dataplane
