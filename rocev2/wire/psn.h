// Packet and message sequence numbers: 24 bits, compared in a window of half the space. There is deliberately no operator<: the
// order of serial numbers is not transitive. Ask distance_to, or PsnWindow.
#pragma once

#include <cstdint>

namespace cw::wire {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xff'ffff;
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}
  [[nodiscard]] constexpr uint32_t value() const { return value_; }
  friend constexpr bool operator==(Psn, Psn) = default;
  [[nodiscard]] constexpr Psn plus(uint32_t packets) const { return Psn(value_ + packets); }
  [[nodiscard]] constexpr Psn minus(uint32_t packets) const { return Psn(value_ - packets); }
  [[nodiscard]] constexpr Psn next() const { return plus(1); }
  // How many steps lead from here to `other`: in [-2^23, 2^23).
  [[nodiscard]] constexpr int32_t distance_to(Psn other) const {
    const uint32_t difference = (other.value_ - value_) & kMask;
    return static_cast<int32_t>(difference << 8) >> 8;
  }

 private:
  uint32_t value_ = 0;
};

// `size` consecutive numbers from `first` on; size up to the whole space.
struct PsnWindow {
  Psn first;
  uint32_t size = 0;
  [[nodiscard]] constexpr bool contains(Psn psn) const { return ((psn.value() - first.value()) & Psn::kMask) < size; }
};

}  // namespace cw::wire
