// Calls of the bench program (rpcrdma/backend/bench_program.h).
#pragma once

#include "apps/load/workload.h"

namespace cw::load {

class BenchWorkload final : public Workload {
 public:
  explicit BenchWorkload(BufferPool& pool) : pool_(pool) {}

  void prepare(Slot& slot, const CallMix& mix) override;
  [[nodiscard]] bool build(const MixEntry& entry, const rpcrdma::InlineThresholds& thresholds, Slot& slot,
                           CallDraft& draft) override;
  [[nodiscard]] bool check(const MixEntry& entry, const rpcrdma::ClientReply& reply, const Slot& slot, bool in_full) override;

 private:
  BufferPool& pool_;
};

}  // namespace cw::load
