// The memory for replies as workers on several threads share it. The counts move with replies that are longer than a buffer, and
// with waits; not with packets.
#pragma once

#include <atomic>
#include <vector>

#include "rpcrdma/rpc/record_admission.h"

namespace cw::dataplane {

class SharedRecordBudget final : public rpcrdma::RecordBudget {
 public:
  // `pool` has `buffers` Buffers.
  SharedRecordBudget(BufferPool& pool, uint32_t buffers, uint32_t sources_max)
      : RecordBudget(pool, sources_max), buffers_(buffers), share_(share_of(buffers, 1)), held_(sources_max) {}

  // How many sources there are now, at least 1: it sets their shares.
  void set_sources(uint32_t count) { share_.store(share_of(buffers_, count), std::memory_order_relaxed); }

  [[nodiscard]] bool take_share(uint32_t source, uint32_t units) override {
    std::atomic<uint32_t>& held = held_[source].units;
    const uint32_t share = share_.load(std::memory_order_relaxed);
    uint32_t before = held.load(std::memory_order_relaxed);
    do {
      if (!is_within(share, before, units)) {
        return false;
      }
    } while (!held.compare_exchange_weak(before, before + units, std::memory_order_relaxed));
    return true;
  }
  void give_share(uint32_t source, uint32_t units) override { held_[source].units.fetch_sub(units, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t draw_ticket() override { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] bool is_served(uint64_t ticket) const override { return serving_.load(std::memory_order_acquire) == ticket; }
  void serve_next(uint64_t ticket) override { serving_.store(ticket + 1, std::memory_order_release); }
  [[nodiscard]] bool someone_collects() const override {
    return serving_.load(std::memory_order_relaxed) != next_ticket_.load(std::memory_order_relaxed);
  }
  void note_collected(uint32_t count) override { collected_.fetch_add(count, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t collected() const override { return collected_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Held {
    std::atomic<uint32_t> units{0};
  };
  uint32_t buffers_;
  std::atomic<uint32_t> share_;
  std::vector<Held> held_;  // by source
  alignas(64) std::atomic<uint64_t> next_ticket_{0};
  std::atomic<uint64_t> serving_{0};
  std::atomic<uint64_t> collected_{0};
};

}  // namespace cw::dataplane
