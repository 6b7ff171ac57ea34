// Randomness is an argument: a CSPRNG in production (dataplane/entropy), a seeded generator in tests and simulation.
#pragma once

#include <cstdint>

namespace cw {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  [[nodiscard]] virtual uint64_t next_u64() = 0;
  [[nodiscard]] uint32_t next_u32() { return static_cast<uint32_t>(next_u64() >> 32); }
  // Uniform in [0, bound); bound > 0. The bias of the multiplication is below 2^-32 and does not matter here.
  [[nodiscard]] uint32_t next_below(uint32_t bound) { return static_cast<uint32_t>((uint64_t{next_u32()} * bound) >> 32); }
};

// splitmix64: reproducible from its seed on every machine. Not for production keys.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  [[nodiscard]] uint64_t next_u64() override {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace cw
