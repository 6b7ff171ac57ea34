// The shares of rates that the poll cores of a process have together. Atomic words, no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpcrdma/endpoint/rate_shares.h"

namespace cw::dataplane {

// Any thread, at any time. What one sees of the others is a little old: a line may go when it should have given way, once.
class SharedRateShares final : public rpcrdma::RateShares {
 public:
  // `sections`: with one for those that are of none.
  SharedRateShares(size_t listeners, size_t sections)
      : sections_(sections), lines_(listeners * sections), listeners_(listeners) {}

  [[nodiscard]] int64_t clock(size_t listener, size_t section) const override {
    return lines_[at(listener, section)].clock.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_waiting(size_t listener, size_t section) const override {
    return lines_[at(listener, section)].waiting.load(std::memory_order_relaxed) > 0;
  }
  [[nodiscard]] uint32_t lines_waiting(size_t listener) const override {
    return listeners_[listener].waiting.load(std::memory_order_relaxed);
  }
  void begin_to_wait(size_t listener, size_t section) override {
    lines_[at(listener, section)].waiting.fetch_add(1, std::memory_order_relaxed);
    listeners_[listener].waiting.fetch_add(1, std::memory_order_relaxed);
  }
  void end_to_wait(size_t listener, size_t section) override {
    lines_[at(listener, section)].waiting.fetch_sub(1, std::memory_order_relaxed);
    listeners_[listener].waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  void go(size_t listener, size_t section, int64_t weighed) override {
    std::atomic<int64_t>& clock = lines_[at(listener, section)].clock;
    std::atomic<int64_t>& last = listeners_[listener].clock;
    int64_t others = last.load(std::memory_order_relaxed);
    int64_t own = clock.load(std::memory_order_relaxed);
    while (!clock.compare_exchange_weak(own, std::max(own, others) + weighed, std::memory_order_relaxed)) {
    }
    while (others < own && !last.compare_exchange_weak(others, own, std::memory_order_relaxed)) {
    }
  }
  void settle(size_t listener, size_t section, int64_t weighed) override {
    lines_[at(listener, section)].clock.fetch_add(weighed, std::memory_order_relaxed);
  }
  void forget() override {
    const auto reset = [](Row& row) { row.clock.store(0, std::memory_order_relaxed); };
    std::ranges::for_each(lines_, reset);
    std::ranges::for_each(listeners_, reset);
  }

 private:
  struct Row {
    std::atomic<int64_t> clock{0};
    std::atomic<uint32_t> waiting{0};
  };
  [[nodiscard]] size_t at(size_t listener, size_t section) const { return listener * sections_ + section; }

  size_t sections_;
  std::vector<Row> lines_;
  std::vector<Row> listeners_;  // clock: where the line was that last went
};

}  // namespace cw::dataplane
