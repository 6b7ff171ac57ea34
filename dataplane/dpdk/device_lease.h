// Who may touch a device: the poll core, or its keeper, another thread for which the core must not use it for a while. The core
// hands it over between two bursts, when it is asked to, and never waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

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

// The leases of all poll cores on one device: the keeper has it when no core has.
class DeviceLeases {
 public:
  explicit DeviceLeases(uint32_t cores) : leases_(std::make_unique<DeviceLease[]>(cores)), count_(cores) {}

  [[nodiscard]] DeviceLease& of(uint32_t core) { return leases_[core]; }
  [[nodiscard]] bool are_keepers() const { return std::ranges::all_of(all(), &DeviceLease::is_keepers); }
  void ask() {
    for (DeviceLease& lease : all()) {
      lease.ask();
    }
  }
  void take_unused() {
    for (DeviceLease& lease : all()) {
      lease.take_unused();
    }
  }
  void give_back() {
    for (DeviceLease& lease : all()) {
      lease.give_back();
    }
  }

 private:
  [[nodiscard]] std::span<DeviceLease> all() const { return {leases_.get(), count_}; }

  std::unique_ptr<DeviceLease[]> leases_;
  uint32_t count_;
};

}  // namespace cw::dataplane
