// Draws of a scenario, in words. Integers only, so that every machine draws the same.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "base/random.h"
#include "base/time.h"

namespace cw::sim {

class Draw {
 public:
  // Neighbouring seeds of the generator may be the same sequence, one step apart: the first number of each is not.
  explicit Draw(uint64_t seed) : random_(SeededRandom(seed).next_u64()) {}
  [[nodiscard]] uint32_t below(uint32_t bound) { return random_.next_below(bound); }
  [[nodiscard]] bool one_in(uint32_t n) { return below(n) == 0; }
  [[nodiscard]] uint32_t between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }
  [[nodiscard]] uint64_t word() { return random_.next_u64(); }
  template <typename T>
  [[nodiscard]] T of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<uint32_t>(choices.size())));
  }
  // Small ones as likely as large ones: a random number of bits, then a number of that many. Integers only, so that every
  // machine draws the same.
  [[nodiscard]] uint64_t magnitude(uint64_t low, uint64_t high) {
    const auto low_bits = static_cast<uint32_t>(std::bit_width(low));
    const auto high_bits = static_cast<uint32_t>(std::bit_width(high));
    const uint32_t bits = between(low_bits, high_bits);
    const uint64_t lower = bits > 1 ? word() >> (65 - bits) : 0;
    const uint64_t drawn = (uint64_t{1} << (bits - 1)) | lower;
    return std::clamp(drawn, low, high);
  }
  [[nodiscard]] Duration time(Duration low, Duration high) {
    return Duration::ns(static_cast<int64_t>(magnitude(static_cast<uint64_t>(low.to_ns()), static_cast<uint64_t>(high.to_ns()))));
  }

 private:
  SeededRandom random_;
};

}  // namespace cw::sim
