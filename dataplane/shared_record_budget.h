// The memory for replies as workers on several threads share it. The counts move with replies that are longer than a buffer, and
// with waits; not with packets.
#pragma once

#include <atomic>
#include <vector>

#include "rpcrdma/rpc/record_admission.h"

namespace cw::dataplane {

class SharedRecordBudget final : public rpcrdma::RecordBudget {
 public:
  // `pool` has `buffers` Buffers, of which `one_record` are enough for the longest record (share_of()).
  SharedRecordBudget(BufferPool& pool, uint32_t buffers, uint32_t one_record, uint32_t sources_max)
      : RecordBudget(pool, sources_max), buffers_(buffers), one_record_(one_record), held_(sources_max) {
    set_sources(1);
  }

  // How many sources there are now, at least 1: it sets their shares.
  void set_sources(uint32_t count) { share_.store(share_of(buffers_, one_record_, count), std::memory_order_relaxed); }

  [[nodiscard]] bool take_share(uint32_t source, uint32_t units, uint32_t grown) override {
    const Share share = share_.load(std::memory_order_relaxed);
    Held before = held_[source].now.load(std::memory_order_relaxed);
    do {
      if (!is_within(share, before, units)) {
        return false;
      }
    } while (!exchange(source, before, {.units = before.units + units, .growing = before.growing - grown}));
    growing_.fetch_sub(grown, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] bool take_growing(uint32_t source, uint32_t units) override {
    const uint32_t max = growing_max(buffers_, one_record_);
    uint32_t all = growing_.load(std::memory_order_relaxed);
    do {
      if (units > max - all) {
        return false;
      }
    } while (!growing_.compare_exchange_weak(all, all + units, std::memory_order_relaxed));
    const Share share = share_.load(std::memory_order_relaxed);
    Held before = held_[source].now.load(std::memory_order_relaxed);
    do {
      if (!is_growing_within(share, before, units)) {
        growing_.fetch_sub(units, std::memory_order_relaxed);
        return false;
      }
    } while (!exchange(source, before, {.units = before.units + units, .growing = before.growing + units}));
    return true;
  }
  void give_share(uint32_t source, uint32_t units, bool growing) override {
    const uint32_t grown = growing ? units : 0;
    Held before = held_[source].now.load(std::memory_order_relaxed);
    while (!exchange(source, before, {.units = before.units - units, .growing = before.growing - grown})) {
    }
    growing_.fetch_sub(grown, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t draw_ticket() override { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] bool is_served(uint64_t ticket) const override { return serving_.load(std::memory_order_acquire) == ticket; }
  void serve_next(uint64_t ticket) override { serving_.store(ticket + 1, std::memory_order_release); }
  [[nodiscard]] bool someone_collects() const override {
    return serving_.load(std::memory_order_relaxed) != next_ticket_.load(std::memory_order_relaxed);
  }
  void note_collected(uint32_t count) override { collected_.fetch_add(count, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t collected() const override { return collected_.load(std::memory_order_relaxed); }

 private:
  // In one word each.
  static_assert(std::atomic<Held>::is_always_lock_free && std::atomic<Share>::is_always_lock_free);
  struct alignas(64) Source {
    std::atomic<Held> now{};
  };
  [[nodiscard]] bool exchange(uint32_t source, Held& before, Held after) {
    return held_[source].now.compare_exchange_weak(before, after, std::memory_order_relaxed);
  }

  uint32_t buffers_;
  uint32_t one_record_;
  std::atomic<Share> share_{};
  std::vector<Source> held_;
  std::atomic<uint32_t> growing_{0};  // over all sources
  alignas(64) std::atomic<uint64_t> next_ticket_{0};
  std::atomic<uint64_t> serving_{0};
  std::atomic<uint64_t> collected_{0};
};

}  // namespace cw::dataplane
