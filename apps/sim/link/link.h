// What carries frames in the simulation: a stack of links. The bottom one is the Wire, which holds frames until they arrive; each
// decorator above it does one thing to what passes (drops, delays, damages, copies, records) and hands on to the link below.
//
//   host -> Pcap -> Loss -> Corrupt -> ... -> Wire (heap by arrival) -> host
//
// Decorators have a window of time in which they act and randomness of their own, so that taking one out of the stack changes
// nothing about what the others draw.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"

namespace cw::sim {

// A frame on its way. Decorators may hold it back by adding to `hold`; a frame that `overtakes` does not keep the order.
struct Transit {
  uint32_t from = 0;  // host index
  uint32_t to = 0;
  Duration hold;
  bool overtakes = false;
  bool copied = false;  // the network made it of another one
  Instant sent_at;      // by the sender's clock
  std::vector<uint8_t> raw;
};

struct Arrival {
  Instant at;
  uint64_t number = 0;  // in the order of sending: ties are broken by age
  uint32_t from = 0;
  uint32_t to = 0;
  bool copied = false;  // as in Transit
  Instant sent_at;
  std::vector<uint8_t> raw;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual void push(Instant now, Transit&& frame) = 0;
  // When the next frame arrives; never() when none is on its way.
  [[nodiscard]] virtual Instant next_at() const = 0;
  // Takes out the next frame that has arrived.
  [[nodiscard]] virtual bool poll(Instant now, Arrival& out) = 0;
};

// Half open: [from, until).
struct Window {
  Instant from;
  Instant until = Instant::never();
  [[nodiscard]] bool contains(Instant t) const { return from <= t && t < until; }
};

class Decorator : public Link {
 public:
  Decorator(std::unique_ptr<Link> inner, const Window& window, uint64_t seed)
      : inner_(std::move(inner)), window_(window), random_(seed) {}
  void push(Instant now, Transit&& frame) final {
    if (window_.contains(now)) {
      act(now, std::move(frame));
    } else {
      inner_->push(now, std::move(frame));
    }
  }
  [[nodiscard]] Instant next_at() const final { return inner_->next_at(); }
  [[nodiscard]] bool poll(Instant now, Arrival& out) final { return inner_->poll(now, out); }
  // Frames that it did something to.
  [[nodiscard]] uint64_t hits() const { return hits_; }

 protected:
  // Inside the window. Hands on by pass(), as often as it likes.
  virtual void act(Instant now, Transit&& frame) = 0;
  void pass(Instant now, Transit&& frame) { inner_->push(now, std::move(frame)); }
  [[nodiscard]] bool chance(uint32_t permille) { return permille > 0 && random_.next_below(1000) < permille; }
  [[nodiscard]] Duration up_to(Duration most) {
    return most > Duration() ? Duration::ns(random_.next_below(static_cast<uint32_t>(most.to_ns()))) : Duration();
  }
  [[nodiscard]] const Window& window() const { return window_; }
  void hit() { ++hits_; }

  SeededRandom& random() { return random_; }

 private:
  std::unique_ptr<Link> inner_;
  Window window_;
  SeededRandom random_;
  uint64_t hits_ = 0;
};

}  // namespace cw::sim
