// Randomness for keys, QPNs, PSNs and ids: AES-free and allocation-free ChaCha20 keyed by getrandom(2), one per core.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace cw::dataplane {

class Entropy final : public RandomSource {
 public:
  Entropy();  // ends the process when the kernel gives no randomness: nothing may run with guessable keys
  [[nodiscard]] uint64_t next_u64() override;

 private:
  void refill();
  std::array<uint32_t, 16> state_{};
  std::array<uint32_t, 16> block_{};
  uint32_t used_ = 16;
};

}  // namespace cw::dataplane
