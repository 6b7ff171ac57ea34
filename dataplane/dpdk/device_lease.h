// Who may touch a device: the poll core, or its keeper, another thread for which the core must not use it for a while. The core
// hands it over between two bursts, when it is asked to, and never waits.
#pragma once

#include <atomic>
#include <cstdint>

namespace cw::dataplane {

class DeviceLease {
 public:
  // Poll core, before each use of the device. False: it is the keeper's; where the keeper has just asked for it, from now on.
  [[nodiscard]] bool use() {
    const Holder holder = holder_.load(std::memory_order_acquire);
    if (holder == Holder::kCore) [[likely]] {
      return true;
    }
    if (holder == Holder::kCoreAsked) {
      holder_.store(Holder::kKeeper, std::memory_order_release);
    }
    return false;
  }
  [[nodiscard]] bool is_cores() const { return holder_.load(std::memory_order_acquire) != Holder::kKeeper; }

  // Keeper: ask(), wait until is_keepers(), in the end give_back().
  void ask() { holder_.store(Holder::kCoreAsked, std::memory_order_release); }
  [[nodiscard]] bool is_keepers() const { return !is_cores(); }
  [[nodiscard]] bool is_asked() const { return holder_.load(std::memory_order_acquire) == Holder::kCoreAsked; }
  // Before a core uses the device at all: it begins as the keeper's.
  void take_unused() { holder_.store(Holder::kKeeper, std::memory_order_release); }
  void give_back() { holder_.store(Holder::kCore, std::memory_order_release); }

 private:
  enum class Holder : uint8_t { kCore, kCoreAsked, kKeeper };
  std::atomic<Holder> holder_{Holder::kCore};
};

}  // namespace cw::dataplane
