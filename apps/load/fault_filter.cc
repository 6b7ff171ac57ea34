#include "apps/load/fault_filter.h"

#include <cstring>
#include <utility>

namespace cw::load {

FaultFilter::FaultFilter(const LinkFaultOptions& options, dataplane::MbufPools& pools)
    : pools_(pools),
      in_{FaultyWay(options, FaultDirection::kIn, options.seed), options.hits(FaultDirection::kIn), {}},
      out_{FaultyWay(options, FaultDirection::kOut, options.seed + 100), options.hits(FaultDirection::kOut), {}} {}

FaultFilter::~FaultFilter() {
  for (Direction* direction : {&in_, &out_}) {
    for (rte_mbuf* frame : direction->untouched) {
      rte_pktmbuf_free(frame);
    }
  }
}

void FaultFilter::take(Instant now, Direction& direction, rte_mbuf* frame) {
  if (!direction.faulty) {
    direction.untouched.push_back(frame);
    return;
  }
  std::vector<uint8_t> raw(rte_pktmbuf_pkt_len(frame));
  size_t done = 0;
  for (const rte_mbuf* segment = frame; segment != nullptr; segment = segment->next) {
    std::memcpy(raw.data() + done, rte_pktmbuf_mtod(segment, const uint8_t*), segment->data_len);
    done += segment->data_len;
  }
  rte_pktmbuf_free(frame);
  direction.way.push(now, std::move(raw));
}

// Without a free mbuf, or when the frame does not fit one, it is one more that was lost.
rte_mbuf* FaultFilter::give(Instant now, Direction& direction) {
  if (!direction.untouched.empty()) {
    rte_mbuf* frame = direction.untouched.front();
    direction.untouched.pop_front();
    return frame;
  }
  std::vector<uint8_t> raw;
  while (direction.way.poll(now, raw)) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pools_.packet_mempool());
    char* room = frame != nullptr ? rte_pktmbuf_append(frame, static_cast<uint16_t>(raw.size())) : nullptr;
    if (room != nullptr) {
      std::memcpy(room, raw.data(), raw.size());
      return frame;
    }
    rte_pktmbuf_free(frame);
  }
  return nullptr;
}

}  // namespace cw::load
