#include "dataplane/core_handover.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <array>

#include "base/assert.h"
#include "dataplane/dpdk/mbuf_pool.h"

namespace cw::dataplane {

void CoreHandover::share_with(const CoreShare& share, uint32_t roce_cores, CoreExchange& exchange) {
  CW_ASSERT(share.is_valid() && share.count == exchange.cores());
  exchange_ = &exchange;
  steering_ = node::Steering(share, roce_cores, node_.endpoint().qpn_codec());
}

bool CoreHandover::is_others(rte_mbuf* mbuf, uint16_t port) {
  const uint32_t owner = steering_.owner_of({rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_data_len(mbuf)});
  if (owner == core()) {
    return false;
  }
  if (exchange_->give_received(core(), owner, {mbuf, port, 0})) {
    ++stats_.frames_handed;
  } else {
    ++stats_.frames_not_handed;
    rte_pktmbuf_free(mbuf);
  }
  return true;
}

bool CoreHandover::receive_handed(Instant now) {
  bool worked = false;
  for (uint32_t from = 0; from < exchange_->cores(); ++from) {
    std::array<CoreExchange::Frame, PortQueue::kBurst> frames;
    const uint32_t count = exchange_->take_received(core(), from, frames);
    worked |= count > 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (i + 1 < count) {
        rte_prefetch0(rte_pktmbuf_mtod(frames[i + 1].mbuf, const void*));
      }
      if (!node_.on_frame(now, MbufPools::adopt(frames[i].mbuf), static_cast<uint16_t>(frames[i].port))) {
        rte_pktmbuf_free(frames[i].mbuf);
      }
    }
  }
  return worked;
}

bool CoreHandover::carry_of(uint32_t core) {
  bool worked = false;
  CoreExchange::Frame frame;
  for (uint16_t k = 0; k < PortQueue::kBurst && exchange_->take_to_send(this->core(), core, frame); ++k) {
    queues_[frame.port]->carry(frame.mbuf);
    worked = true;
  }
  return worked;
}

}  // namespace cw::dataplane
