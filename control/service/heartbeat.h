// A question to a poll core that only a loop which turns can answer: the control thread asks, the core answers at its next turn.
// A core that nobody asks pays one relaxed load per turn.
#pragma once

#include <atomic>
#include <cstdint>

namespace cw::control {

class Heartbeat {
 public:
  // Poll core, once per turn: answer() when it is asked.
  [[nodiscard]] bool is_asked() const { return asked_.load(std::memory_order_relaxed); }
  void answer(uint32_t connections) {
    connections_.store(connections, std::memory_order_relaxed);
    asked_.store(false, std::memory_order_release);
  }

  // Control thread.
  void ask() { asked_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_answered() const { return !asked_.load(std::memory_order_acquire); }
  // As of the last answer; 0 before the first.
  [[nodiscard]] uint32_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> asked_{false};
  std::atomic<uint32_t> connections_{0};
};

}  // namespace cw::control
