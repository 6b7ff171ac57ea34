// Decorators that lose frames.
#pragma once

#include "apps/sim/link/link.h"

namespace cw::sim {

// Each frame on its own.
class Loss final : public Decorator {
 public:
  Loss(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille)
      : Decorator(std::move(inner), window, seed), permille_(permille) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
};

// Gilbert's model: good and bad times in turns, nothing passes in the bad ones. `length` is the mean number of frames of a burst.
class BurstLoss final : public Decorator {
 public:
  BurstLoss(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille, uint32_t length)
      : Decorator(std::move(inner), window, seed), permille_(permille), length_(length == 0 ? 1 : length) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;  // that a burst begins
  uint32_t length_;
  bool bad_ = false;
};

// Nothing passes.
class Partition final : public Decorator {
 public:
  using Decorator::Decorator;

 protected:
  void act(Instant now, Transit&& frame) override;
};

// A hop that takes only so large frames: what exceeds it vanishes, as on a path whose MTU was set wrong.
class MtuLimit final : public Decorator {
 public:
  MtuLimit(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t bytes_max)
      : Decorator(std::move(inner), window, seed), bytes_max_(bytes_max) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t bytes_max_;
};

}  // namespace cw::sim
