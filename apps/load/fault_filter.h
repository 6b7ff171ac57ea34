// LinkFaults at the edge of a DPDK port: frames leave their mbufs, pass the links of the simulation, and go on in fresh ones.
#pragma once

#include <deque>

#include "apps/load/link_faults.h"
#include "dataplane/dpdk/frame_filter.h"
#include "dataplane/dpdk/mbuf_pool.h"

namespace cw::load {

class FaultFilter final : public dataplane::FrameFilter {
 public:
  FaultFilter(const LinkFaultOptions& options, dataplane::MbufPools& pools);
  ~FaultFilter() override;
  FaultFilter(const FaultFilter&) = delete;
  FaultFilter& operator=(const FaultFilter&) = delete;

  void received(Instant now, rte_mbuf* frame) override { take(now, in_, frame); }
  [[nodiscard]] rte_mbuf* poll_received(Instant now) override { return give(now, in_); }
  void sending(Instant now, rte_mbuf* frame) override { take(now, out_, frame); }
  [[nodiscard]] rte_mbuf* poll_sending(Instant now) override { return give(now, out_); }
  [[nodiscard]] Instant next_deadline() const override { return earlier(in_.way.next_at(), out_.way.next_at()); }

 private:
  struct Direction {
    FaultyWay way;
    bool faulty = false;
    std::deque<rte_mbuf*> untouched;  // of a direction without faults
  };
  static void take(Instant now, Direction& direction, rte_mbuf* frame);
  [[nodiscard]] rte_mbuf* give(Instant now, Direction& direction);

  dataplane::MbufPools& pools_;
  Direction in_;
  Direction out_;
};

}  // namespace cw::load
