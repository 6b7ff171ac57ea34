// The bottom of a stack: every frame arrives after a fixed delay, in the order sent unless it was told to overtake.
#pragma once

#include <vector>

#include "apps/sim/link/link.h"

namespace cw::sim {

// The frames of all cables, in the order of arrival. One for a whole simulation: the next event is at its top.
class Flight {
 public:
  void add(Arrival&& frame);
  [[nodiscard]] Instant next_at() const { return heap_.empty() ? Instant::never() : heap_.front().at; }
  [[nodiscard]] bool take(Instant now, Arrival& out);
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] size_t size() const { return heap_.size(); }

 private:
  std::vector<Arrival> heap_;
  uint64_t number_ = 0;
};

class Wire final : public Link {
 public:
  Wire(Flight& flight, Duration delay) : flight_(flight), delay_(delay) {}
  void push(Instant now, Transit&& frame) override;
  [[nodiscard]] Instant next_at() const override { return flight_.next_at(); }
  [[nodiscard]] bool poll(Instant now, Arrival& out) override { return flight_.take(now, out); }

 private:
  Flight& flight_;
  Duration delay_;
  Instant last_;
};

}  // namespace cw::sim
