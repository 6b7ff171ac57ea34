// All chance of the exerciser: a seed decides what a worker does, operation by operation, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cw::exerciser {

// Scrambles 64 bits so that neighbours have nothing in common (the finalizer of SplitMix64).
[[nodiscard]] constexpr uint64_t scramble(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class Dice {
 public:
  explicit constexpr Dice(uint64_t seed) : state_(scramble(seed)) {}

  [[nodiscard]] constexpr uint64_t next() { return scramble(state_ += 0x9e3779b97f4a7c15); }
  // 0 .. limit - 1. Precondition: limit > 0.
  [[nodiscard]] constexpr uint64_t below(uint64_t limit) { return next() % limit; }
  [[nodiscard]] constexpr bool chance(uint64_t percent) { return below(100) < percent; }

  // A row of a table whose rows have a `weight`, each as likely as that says. Precondition: the weights' sum is greater than 0.
  template <typename Row, size_t kRows>
  [[nodiscard]] constexpr const Row& pick(const Row (&rows)[kRows]) {
    uint64_t total = 0;
    for (const Row& row : rows) {
      total += row.weight;
    }
    uint64_t point = below(total);
    const Row* picked = rows;
    while (point >= picked->weight) {
      point -= picked->weight;
      ++picked;
    }
    return *picked;
  }

  // 1 .. max, each power of two as likely as the next, and often just beside one: where pages, blocks and segments end.
  // Precondition: max > 0.
  [[nodiscard]] constexpr uint64_t length(uint64_t max) {
    uint64_t bits = 0;
    while ((max >> (bits + 1)) != 0) {
      ++bits;
    }
    const uint64_t power = uint64_t{1} << below(bits + 1);
    const uint64_t length = chance(40) ? power + below(3) - 1 : power + below(power);
    return length == 0 ? 1 : (length > max ? max : length);
  }

 private:
  uint64_t state_;
};

}  // namespace cw::exerciser
