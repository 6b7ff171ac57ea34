// What the poll cores tell each other of the lines for a listener's rate, so that sections share it by their weights whichever core
// their connections are on: how far the clock of each line is, and where somebody waits. Atomic words, no lock; any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cw::rpcrdma {

class RateShares {
 public:
  // Of one listener and one section, on all cores.
  struct Line {
    std::atomic<int64_t> clock{0};  // weighed nanoseconds of the listener's rate
    std::atomic<uint32_t> cores_waiting{0};
  };
  struct Listener {
    std::atomic<int64_t> clock{0};  // where the line was that last went
    std::atomic<uint32_t> lines_waiting{0};
  };

  // `sections`: with one for those that are of none.
  RateShares(size_t listeners, size_t sections)
      : listener_count_(listeners),
        sections_(sections),
        lines_(std::make_unique<Line[]>(listeners * sections)),
        listeners_(std::make_unique<Listener[]>(listeners)) {}

  [[nodiscard]] Line& line(size_t listener, size_t section) { return lines_[listener * sections_ + section]; }
  [[nodiscard]] Listener& listener(size_t listener) { return listeners_[listener]; }

  // All clocks stand together again.
  void forget() {
    const auto reset = [](auto& owner) { owner.clock.store(0, std::memory_order_relaxed); };
    std::for_each_n(lines_.get(), listener_count_ * sections_, reset);
    std::for_each_n(listeners_.get(), listener_count_, reset);
  }

  static void begin_to_wait(Listener& listener, Line& line) {
    line.cores_waiting.fetch_add(1, std::memory_order_relaxed);
    listener.lines_waiting.fetch_add(1, std::memory_order_relaxed);
  }
  static void end_to_wait(Listener& listener, Line& line) {
    line.cores_waiting.fetch_sub(1, std::memory_order_relaxed);
    listener.lines_waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  // A call of this line goes, and moves its clock by so much: from where the others are, if it is behind them.
  static void go(Listener& listener, Line& line, int64_t weighed) {
    int64_t others = listener.clock.load(std::memory_order_relaxed);
    int64_t own = line.clock.load(std::memory_order_relaxed);
    while (!line.clock.compare_exchange_weak(own, std::max(own, others) + weighed, std::memory_order_relaxed)) {
    }
    while (others < own && !listener.clock.compare_exchange_weak(others, own, std::memory_order_relaxed)) {
    }
  }

 private:
  size_t listener_count_;
  size_t sections_;
  std::unique_ptr<Line[]> lines_;
  std::unique_ptr<Listener[]> listeners_;
};

}  // namespace cw::rpcrdma
