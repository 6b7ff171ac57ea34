// Decorators that change when, in which order and how often frames arrive.
#pragma once

#include "apps/sim/link/link.h"

namespace cw::sim {

// A longer way, for all alike.
class Delay final : public Decorator {
 public:
  Delay(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, Duration by)
      : Decorator(std::move(inner), window, seed), by_(by) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  Duration by_;
};

// A way whose length changes; the order is kept.
class Jitter final : public Decorator {
 public:
  Jitter(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, Duration most)
      : Decorator(std::move(inner), window, seed), most_(most) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  Duration most_;
};

// Some frames take a longer way, and later ones overtake them.
class Reorder final : public Decorator {
 public:
  Reorder(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille, Duration most)
      : Decorator(std::move(inner), window, seed), permille_(permille), most_(most) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
  Duration most_;
};

// Some frames arrive twice, the second time up to `most` later: a duplicate from a time long gone if `most` is large.
class Duplicate final : public Decorator {
 public:
  Duplicate(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille, Duration most)
      : Decorator(std::move(inner), window, seed), permille_(permille), most_(most) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
  Duration most_;
};

// Everything waits until the window ends and then comes at once.
class Clog final : public Decorator {
 public:
  using Decorator::Decorator;

 protected:
  void act(Instant now, Transit&& frame) override;
};

// A hop of limited rate with a queue in front of it: what finds the queue full is lost, what finds it longer than `mark_bytes` is
// marked Congestion Experienced. Rates are those of the frame alone, without preamble and gap.
class Bottleneck final : public Decorator {
 public:
  struct Options {
    uint64_t bits_per_second = 25'000'000'000;
    uint32_t queue_bytes = 1u << 20;
    uint32_t mark_bytes = UINT32_MAX;
  };
  Bottleneck(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, const Options& options)
      : Decorator(std::move(inner), window, seed), options_(options) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  [[nodiscard]] Duration time_of(uint64_t bytes) const {
    return Duration::ns(static_cast<int64_t>(bytes * 8 * 1'000'000'000 / options_.bits_per_second));
  }
  Options options_;
  Instant free_at_;  // when the last queued byte has left
};

}  // namespace cw::sim
