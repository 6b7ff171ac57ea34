// ConnectionQuota of poll cores on threads of their own. Touched when connections come and go.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gateway/connection_quota.h"

namespace cw::dataplane {

class SharedQuota final : public gateway::ConnectionQuota {
 public:
  SharedQuota(uint32_t total, std::span<const uint32_t> per_listener)
      : maxima_(per_listener.begin(), per_listener.end()), listeners_(std::make_unique<Free[]>(per_listener.size())) {
    total_.store(total, std::memory_order_relaxed);
    for (size_t i = 0; i < per_listener.size(); ++i) {
      listeners_[i].store(per_listener[i], std::memory_order_relaxed);
    }
  }

  [[nodiscard]] bool has_room(uint32_t listener) const override {
    return total_.load(std::memory_order_relaxed) > 0 && listeners_[listener].load(std::memory_order_relaxed) > 0;
  }
  [[nodiscard]] bool take(uint32_t listener) override {
    if (!take_one(total_)) {
      return false;
    }
    if (!take_one(listeners_[listener])) {
      give_one_back(total_);
      return false;
    }
    return true;
  }
  void give_back(uint32_t listener) override {
    give_one_back(listeners_[listener]);
    give_one_back(total_);
  }
  // One thread.
  void set_max(uint32_t listener, uint32_t max) override {
    listeners_[listener].fetch_add(int64_t{max} - maxima_[listener], std::memory_order_relaxed);
    maxima_[listener] = max;
  }

 private:
  // They order nothing but themselves. Below 0: the maximum was lowered.
  using Free = std::atomic<int64_t>;
  [[nodiscard]] static bool take_one(Free& free) {
    int64_t before = free.load(std::memory_order_relaxed);
    while (before > 0) {
      if (free.compare_exchange_weak(before, before - 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  static void give_one_back(Free& free) { free.fetch_add(1, std::memory_order_relaxed); }

  Free total_{0};
  std::vector<uint32_t> maxima_;
  std::unique_ptr<Free[]> listeners_;
};

}  // namespace cw::dataplane
