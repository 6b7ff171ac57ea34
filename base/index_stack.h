// A stack of numbers below a bound, for any threads at once, without a lock (R. K. Treiber, with a count of changes against ABA):
// the free list of a pool. What came back last goes out first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace cw {

class IndexStack {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Empty, for numbers below `end`.
  explicit IndexStack(uint32_t end) : below_(std::make_unique<std::atomic<uint32_t>[]>(end)) {}

  // Precondition: it is not in here.
  void push(uint32_t index) {
    uint64_t top = top_.load(std::memory_order_relaxed);
    do {
      below_[index].store(index_of(top), std::memory_order_relaxed);
    } while (!top_.compare_exchange_weak(top, changed(top, index), std::memory_order_acq_rel, std::memory_order_relaxed));
  }
  // As push() of one after the other. Precondition: not empty.
  void push_all(std::span<const uint32_t> indices) {
    for (size_t i = 1; i < indices.size(); ++i) {
      below_[indices[i]].store(indices[i - 1], std::memory_order_relaxed);
    }
    uint64_t top = top_.load(std::memory_order_relaxed);
    do {
      below_[indices.front()].store(index_of(top), std::memory_order_relaxed);
    } while (
        !top_.compare_exchange_weak(top, changed(top, indices.back()), std::memory_order_acq_rel, std::memory_order_relaxed));
  }
  // As many as `out` takes, the uppermost first, or none and false.
  [[nodiscard]] bool pop_all(std::span<uint32_t> out) {
    uint64_t top = top_.load(std::memory_order_acquire);
    while (true) {
      // Another thread may have taken them meanwhile: then what is read here is old, and the exchange fails.
      uint32_t next = index_of(top);
      for (uint32_t& index : out) {
        if (next == kNone) {
          return false;
        }
        index = next;
        next = below_[next].load(std::memory_order_relaxed);
      }
      if (top_.compare_exchange_weak(top, changed(top, next), std::memory_order_acq_rel, std::memory_order_acquire)) {
        return true;
      }
    }
  }
  // kNone: empty.
  [[nodiscard]] uint32_t pop() {
    uint64_t top = top_.load(std::memory_order_acquire);
    while (index_of(top) != kNone) {
      // Another thread may have taken it meanwhile: then what is read here is old, and the exchange fails.
      const uint32_t below = below_[index_of(top)].load(std::memory_order_relaxed);
      if (top_.compare_exchange_weak(top, changed(top, below), std::memory_order_acq_rel, std::memory_order_acquire)) {
        return index_of(top);
      }
    }
    return kNone;
  }

 private:
  [[nodiscard]] static uint32_t index_of(uint64_t top) { return static_cast<uint32_t>(top); }
  [[nodiscard]] static uint64_t changed(uint64_t top, uint32_t index) { return ((top >> 32) + 1) << 32 | index; }

  std::unique_ptr<std::atomic<uint32_t>[]> below_;  // what lies below each
  std::atomic<uint64_t> top_{kNone};                // changes until now, and the number on top
};

}  // namespace cw
