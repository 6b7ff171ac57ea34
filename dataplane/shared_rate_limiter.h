// A rate that the poll cores of a process share. One atomic word, no lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/rate_limiter.h"

namespace cw::dataplane {

// Any thread, at any time.
class SharedRateLimiter final : public RateLimiter {
 public:
  void set(uint64_t per_second) override {
    if (per_second_.exchange(per_second, std::memory_order_relaxed) != per_second) {
      due_ns_.store(0, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] bool is_on() const override { return per_second_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] Instant next_at() const override {
    return is_on() ? Instant::from_ns(due_ns_.load(std::memory_order_relaxed)) : Instant();
  }
  void charge(Instant now, uint64_t amount) override {
    const uint64_t per_second = per_second_.load(std::memory_order_relaxed);
    if (per_second == 0) {
      return;
    }
    const int64_t cost = cost_of(amount, per_second);
    int64_t due = due_ns_.load(std::memory_order_relaxed);
    while (!due_ns_.compare_exchange_weak(due, due_behind(due, now, cost), std::memory_order_relaxed)) {
    }
  }
  void refund(uint64_t amount) override {
    due_ns_.fetch_sub(cost_of(amount, per_second_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  }
  [[nodiscard]] Duration cost(uint64_t amount) const override {
    return Duration::ns(cost_of(amount, per_second_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<uint64_t> per_second_{0};
  std::atomic<int64_t> due_ns_{0};
};

}  // namespace cw::dataplane
