// Published<T>: a copy of one core's plain numbers for one reader, made by the core itself, only when asked.
//
// The reader raises a flag; the core finds it at its next loop turn (one relaxed load per turn otherwise), copies and lowers it.
// The slot belongs to the core from kWanted to kFilled and to the reader at all other times: no lock, no torn copy, nothing for a
// race detector to find. A core that does not turn (stopped, or asleep for long) costs the reader a time-out, and the reader then
// uses what it had last.
//
//   core     if (published.is_wanted()) { published.publish([&](CoreSnapshot& out) { out.rc = endpoint.stats(); ... }); }
//   reader   published.request(); ... published.wait(deadline); use published.last();
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace cw::telemetry {

template <typename T>
class Published {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // `wake`: called by the reader when it has asked, for a core that sleeps; may be empty.
  explicit Published(std::function<void()> wake = {})
      : wake_(std::move(wake)), slot_(std::make_unique<T>()), last_(std::make_unique<T>()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // Writer core. True: call publish() now.
  [[nodiscard]] bool is_wanted() const { return state_.load(std::memory_order_relaxed) == State::kWanted; }
  // Writer core. `fill(T&)` writes every field that it ever writes: what it leaves out holds a value of some earlier copy.
  // Without a request nothing happens.
  template <typename Fill>
  void publish(Fill&& fill) {
    if (state_.load(std::memory_order_acquire) != State::kWanted) {
      return;
    }
    fill(*slot_);
    state_.store(State::kFilled, std::memory_order_release);
  }

  // Reader thread (one at a time; telemetry and admin threads take turns under a mutex of theirs, see Collector).
  // Asks for a new copy. A copy that arrived after an earlier time-out is old, and dropped.
  void request() {
    state_.store(State::kWanted, std::memory_order_release);
    if (wake_) {
      wake_();
    }
  }
  // Reader thread. Takes the copy over if it is there: true, and last() is it.
  [[nodiscard]] bool take() {
    if (state_.load(std::memory_order_acquire) != State::kFilled) {
      return false;
    }
    slot_.swap(last_);
    state_.store(State::kIdle, std::memory_order_relaxed);
    ++version_;
    return true;
  }
  // Reader thread. take(), again and again until `deadline`: a core that works answers at once, one that nobody wakes after
  // milliseconds, and to ask every 200 us until then costs more than the answer.
  [[nodiscard]] bool wait(std::chrono::steady_clock::time_point deadline) {
    std::chrono::microseconds pause(200);
    while (!take()) {
      if (std::chrono::steady_clock::now() >= deadline) {
        return false;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kPauseMax);
    }
    return true;
  }
  // Reader thread. The newest copy taken; all zero before the first.
  [[nodiscard]] const T& last() const { return *last_; }
  // Reader thread. Copies taken so far.
  [[nodiscard]] uint64_t version() const { return version_; }

 private:
  static constexpr std::chrono::microseconds kPauseMax{5000};
  enum class State : uint8_t { kIdle, kWanted, kFilled };
  std::function<void()> wake_;
  std::atomic<State> state_{State::kIdle};
  std::unique_ptr<T> slot_;  // the core's while kWanted
  std::unique_ptr<T> last_;  // the reader's
  uint64_t version_ = 0;     // the reader's
};

}  // namespace cw::telemetry
